"""Commands of the store: what is kept from run to run."""

from __future__ import annotations

from datetime import timedelta

import click

from runner.cli import options

_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON, all texts in full.")
_count = click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    cls=options.Plain,
    help="List so many.",
)
_force = click.option("--force", is_flag=True, help="Also if runs use it; their results stay.")


@click.command()
@click.argument("file", shell_complete=options.offered("evaluators"))
@click.option("--name", metavar="NAME", help="Its name in the store.  [default: made of the file's]")
@click.option("--rows", metavar="PATH", help="The place of the rows in a .json file that is no array: data.")
@options.language("The language of a template that has several.")
def add(file: str, name: str | None, rows: str | None, language: str | None) -> int:
    """
    Keep FILE in the store: a script, or a dataset.

    A script becomes NAME@1, and each changed one the next version; versions never change. A dataset is copied, and is
    asked for as store:NAME. Its rows are read through first.
    """
    from runner.cli.commands import add

    return add.add(file, name, language, rows)


@click.group(invoke_without_command=True)
@_json
@_count
@click.pass_context
def evaluators(context: click.Context, as_json: bool, count: int) -> int | None:
    """List the evaluators of the store."""
    if context.invoked_subcommand is not None:
        return None
    from runner.cli.commands.add import list_evaluators

    return list_evaluators(count, as_json=as_json)


@evaluators.command("delete")
@click.argument("name")
@_force
def delete_evaluator(name: str, force: bool) -> int:
    """Delete the evaluator NAME with all its versions."""
    from runner.cli.commands.add import delete_evaluator

    return delete_evaluator(name, force=force)


@click.group(invoke_without_command=True)
@_json
@_count
@click.pass_context
def datasets(context: click.Context, as_json: bool, count: int) -> int | None:
    """List the datasets of the store."""
    if context.invoked_subcommand is not None:
        return None
    from runner.cli.commands.add import list_datasets

    return list_datasets(count, as_json=as_json)


@datasets.command("delete")
@click.argument("name")
@_force
def delete_dataset(name: str, force: bool) -> int:
    """Delete the dataset NAME, and its file if no other dataset has the same content."""
    from runner.cli.commands.add import delete_dataset

    return delete_dataset(name, force=force)


@click.group(invoke_without_command=True)
@_json
@_count
@click.pass_context
def runs(context: click.Context, as_json: bool, count: int) -> int | None:
    """List the runs of the store, the newest first: those of `run --save`, and of the server."""
    if context.invoked_subcommand is not None:
        return None
    from runner.cli.commands.runs import list_runs

    return list_runs(count, as_json=as_json)


@runs.command()
@click.argument("id")
@click.option("--worst", type=click.IntRange(0, 1000), default=5, metavar="N", cls=options.Plain, help="Show N rows.")
@_json
def show(id: str, worst: int, as_json: bool) -> int:
    """Show the run ID: its figures and its worst rows. `latest` is the newest run."""
    from runner.cli.commands.runs import show_run

    return show_run(id, worst, as_json=as_json)


@runs.command("delete")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Also one that is still called running; see that nobody runs it.")
def delete_runs(ids: tuple[str, ...], force: bool) -> int:
    """Delete runs with their results."""
    from runner.cli.commands.runs import delete_runs

    return delete_runs(ids, force=force)


@runs.command()
@click.option("--older-than", callback=options.duration, metavar="AGE", help="Those that ended longer ago: 12h, 30d.")
@click.option("--keep", type=click.IntRange(0), metavar="N", cls=options.Plain, help="All but the newest N.")
@click.option(
    "--mb", type=click.IntRange(0), metavar="MB", cls=options.Plain, help="The oldest, until all takes so much at most."
)
def prune(older_than: timedelta | None, keep: int | None, mb: int | None) -> int:
    """
    Delete runs that are over, and what killed commands have left.

    Without an option no run is deleted.
    """
    from runner.cli.commands.runs import prune_runs

    return prune_runs(older_than, keep, mb)
