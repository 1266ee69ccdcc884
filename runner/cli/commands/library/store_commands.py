"""Commands of the store: what is kept from run to run."""

from __future__ import annotations

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


@click.command(short_help="Keep a script or a dataset in the store.")
@click.argument("file", shell_complete=options.completion_of("evaluators"))
@click.option("--name", metavar="NAME", help="Its name in the store.  [default: made of the file's]")
@click.option("--rows", metavar="PATH", help="The place of the rows in a .json file that is no array: data.")
@options.language("The language of a template that has several.")
@options.calls("library.add.add")
def add() -> None:
    """
    Keep FILE in the store: a script, or a dataset.

    A script becomes NAME@1, and each changed one the next version; versions never change. A dataset is copied, and is
    asked for as store:NAME. Its rows are read through first.
    """


@click.group(invoke_without_command=True)
@_json
@_count
@options.calls("library.add.list_evaluators")
def evaluators() -> None:
    """List the evaluators of the store."""


@evaluators.command("delete")
@click.argument("name")
@_force
@options.calls("library.add.delete_evaluator")
def delete_evaluator() -> None:
    """Delete the evaluator NAME with all its versions."""


@click.group(invoke_without_command=True)
@_json
@_count
@options.calls("library.add.list_datasets")
def datasets() -> None:
    """List the datasets of the store."""


@datasets.command("delete")
@click.argument("name")
@_force
@options.calls("library.add.delete_dataset")
def delete_dataset() -> None:
    """Delete the dataset NAME, and its file if no other dataset has the same content."""


@click.group(short_help="List the runs of the store, the newest first.", invoke_without_command=True)
@_json
@_count
@options.calls("library.runs.list_runs")
def runs() -> None:
    """List the runs of the store, the newest first: those of `run --save`, and of the server."""


@runs.command()
@click.argument("id")
@click.option("--worst", type=click.IntRange(0, 1000), default=5, metavar="N", cls=options.Plain, help="Show N rows.")
@_json
@options.calls("library.runs.show_run")
def show() -> None:
    """Show the run ID: its figures and its worst rows. `latest` is the newest run."""


@runs.command("delete")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Also one that is still called running; see that nobody runs it.")
@options.calls("library.runs.delete_runs")
def delete_runs() -> None:
    """Delete runs with their results."""


@runs.command()
@click.option("--older-than", callback=options.duration, metavar="AGE", help="Those that ended longer ago: 12h, 30d.")
@click.option("--keep", type=click.IntRange(0), metavar="N", cls=options.Plain, help="All but the newest N.")
@click.option(
    "--mb", type=click.IntRange(0), metavar="MB", cls=options.Plain, help="The oldest, until all takes so much at most."
)
@options.calls("library.runs.prune_runs")
def prune() -> None:
    """
    Delete runs that are over, and what killed commands have left.

    Without an option no run is deleted.
    """
