"""Commands about where scripts run: the sandboxes, machines at providers, and what is kept on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli import options

if TYPE_CHECKING:
    from sandboxes.base import Language


@click.command(
    short_help="Look at this machine for what would be wrong.",
    epilog="Exit codes: 0 a sandbox of this machine works; 3 none does; 130 interrupted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all findings as one JSON object, for a report of a fault.")
@options.calls("machine.doctor.doctor")
def doctor() -> None:
    """
    Look at this machine for what would be wrong, and say what to do.

    Python and its variables, the system, limits, clocks, folders; and each sandbox of this machine runs a short script.
    No provider is asked.
    """


@click.command(
    short_help="Show the nodes and workers of a Ray cluster.",
    epilog="Exit codes: 0 a node runs evalcell; 2 wrong usage; 3 none does, or no cluster; 130 interrupted.",
)
@click.argument("on", metavar="[CLUSTER]", default="ray")
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
@options.calls("machine.cluster.cluster")
def cluster() -> None:
    """
    Show the nodes and workers of a Ray cluster, their rows a second, and what is wrong with whom.

    CLUSTER is `ray`, the one of RAY_ADDRESS, or ray://HOST:10001. On each node a task looks at the sandboxes. The
    workers are those of all runs that are under way there.
    """


@click.command(short_help="List the sandboxes, and what each can do here.")
@click.option("--live", is_flag=True, help="List the machines that run now at the providers whose keys are set.")
@click.option("--try", "name", metavar="NAME", help="Open the sandbox NAME and run a script of one row in it.")
@click.option("--with", "packages", metavar="PKG", multiple=True, help="With --try: install this there first.")
@click.option("--with-requirements", "requirements", metavar="FILE", multiple=True, help="As --with, one a line.")
@options.language("With --try: the language of its script.  [default: the sandbox's first]")
@options.env_file
def sandboxes(
    live: bool,
    name: str | None,
    packages: tuple[str, ...],
    requirements: tuple[str, ...],
    language: Language | None,
    env_file: str | None,
) -> int:
    """
    List the sandboxes: whether each is available or what to install, and what it can do here.

    --live and --try ask the providers themselves; a machine that --try makes is ended, and may cost some seconds. It
    takes the steps of a run: with --with those of one with packages, with --lang ts those of one in TypeScript.
    """
    if live and name is not None:
        raise click.UsageError("--live and --try cannot be combined; use one of them")
    if name is None and (packages or requirements or language):
        raise click.UsageError("--with, --with-requirements and --lang go with --try NAME")
    if live:
        from runner.cli.commands.machine.machines import list_live

        return list_live(env_file)
    if name is not None:
        from runner.cli.commands.machine.try_sandbox import try_sandbox

        if requirements:
            from runner.inputs.evaluators.requirements import read_requirements

            packages += tuple(one for file in requirements for one in read_requirements(file, "--with-requirements"))
        return try_sandbox(name, env_file, packages, language)
    if env_file is not None:
        raise click.UsageError("--env-file goes with --live or --try NAME")
    from runner.cli.commands.library.listings import list_sandboxes

    return list_sandboxes()


@click.command(
    short_help="End the machines that runs left behind at providers.",
    epilog="Exit codes: 0 done, nothing is left; 2 wrong usage; 3 a provider could not be asked, or a machine not be "
    "ended; 130 interrupted.",
)
@click.option("--provider", "name", metavar="NAME", help="Ask this one only.  [default: all whose keys are set]")
@click.option(
    "--older-than",
    callback=options.duration,
    metavar="AGE",
    help="Only machines older than this, as in 90s, 30m, 1h or 2d, but of other hosts too.",
)
@click.option("--dry-run", is_flag=True, help="List them, and end none.")
@options.env_file
@options.calls("machine.machines.end_left")
def reap() -> None:
    """
    End the machines that runs left behind at providers, as one that was killed may do.

    Machines of a run that goes on here are never ended. Those of other hosts are only with --older-than: nobody here
    knows whether their run goes on.
    """


@click.group(short_help="List or clear what is cached on this machine.", invoke_without_command=True)
@options.calls("machine.cache.list_cache")
def cache() -> None:
    """List what is cached on this machine so that runs start faster, and its size."""


@cache.command()
@click.option(
    "--unused",
    type=click.IntRange(0, 36_500),
    default=30,
    show_default=True,
    metavar="DAYS",
    cls=options.Plain,
    help="Delete what no run has used for so long.",
)
@click.option("--all", "everything", is_flag=True, help="Delete all of it, whenever it was used.")
@options.calls("machine.cache.prune_cache")
def prune() -> None:
    """
    Delete what no run has used for a while.

    What a run is using is kept. What is deleted is built or downloaded again when a run needs it.
    """
