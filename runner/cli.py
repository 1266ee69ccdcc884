"""The command line's doors: what can be given, what an error says. The work is imported when it is wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

DONE, GATE_FAILED, WRONG_USAGE, COULD_NOT_JUDGE, INTERRUPTED = 0, 1, 2, 3, 130

_EPILOG = (
    "Exit codes: 0 done; 1 a gate (--fail-if) failed; 2 wrong usage; 3 could not judge, as when nothing was "
    "scored; 130 interrupted."
)


class Doors(click.Group):
    """A group that turns every exception into one line and an exit code."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Runs a command and exits with its code. Never shows a traceback without `--debug`."""
        out = sys.stdout
        for stream in (out, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
        extra |= {"standalone_mode": False, "prog_name": "evalcell"}
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given or os.environ.get("EVALCELL_DEBUG", "0") not in ("", "0")
        try:
            code = super().main(given, **extra)
        except Exception as e:
            if debug and not isinstance(e, click.ClickException):
                import traceback

                traceback.print_exc()
            code = _told(e)
        except SystemExit:
            if sys.stdout is out:
                raise
            code = DONE  # the pipe is closed: click wrapped the stream, and exits with 1, which here is a gate's
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        sys.exit(_flushed(code if isinstance(code, int) else DONE))


def _told(error: Exception) -> int:
    """Says what went wrong on stderr; the exit code for it."""
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return DONE
    if isinstance(error, click.Abort):
        return INTERRUPTED
    from runner.errors import InputError
    from runner.results import WriteError
    from runner.shown import printable
    from sandboxes.errors import SandboxError, UnsupportedConfigError

    # The messages of InputError may hold a source line and a caret under it.
    lines = "\n".join(printable(line, 600) for line in str(error).splitlines()[:6])
    if isinstance(error, InputError | UnsupportedConfigError):
        click.echo(f"evalcell: {lines}", err=True)
        return WRONG_USAGE
    if isinstance(error, SandboxError | WriteError):
        click.echo(f"evalcell: {lines}", err=True)
        return COULD_NOT_JUDGE
    words = f"{type(error).__name__}: {lines}" if lines else type(error).__name__
    click.echo(f"evalcell failed unexpectedly: {words}; run again with --debug and report it", err=True)
    return COULD_NOT_JUDGE


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"evalcell {version('evalcell')}")
        except PackageNotFoundError:
            click.echo("evalcell, run from a checkout that is not installed")
        context.exit()


@click.group(cls=Doors, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks; EVALCELL_DEBUG=1 does the same.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli(debug: bool) -> None:
    """Score datasets with evaluator scripts that run in a sandbox."""


_mapping_options: list[Callable[[Any], Any]] = [
    click.option("--set", "literals", metavar="NAME=JSON", multiple=True, help="Give a parameter a value: limit=3."),
    click.option(
        "--map",
        "paths",
        metavar="NAME=PATH",
        multiple=True,
        help="Take a parameter from a path: a=$.output.x.",
    ),
]


def _mapped(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in _mapping_options:
        command = option(command)
    return command


@cli.command(
    epilog="A GATE is METRIC OP NUMBER and fails the run when it holds. METRIC: mean, median, min, max, "
    "passed, pass_rate (of the rows with a score), rows, scored, abstained, failed, lost, failed_rate (of "
    "all rows), or label:TEXT (a count); NAME.mean and so on for a named output. OP: > >= < <= == !=. A gate "
    "that has nothing to judge, such as the mean of no score, ends the run with 3. " + _EPILOG
)
@click.argument("evaluator")
@click.argument("dataset")
@click.option("--sandbox", metavar="NAME", help="Where the script runs.  [default: what fits it]")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86_400, min_open=True),
    metavar="S",
    help="Seconds a call may take.  [default: 10]",
)
@click.option("--memory", type=click.IntRange(1, 1 << 20), metavar="MB", help="Memory a call may use.  [default: 256]")
@click.option("--isolation", type=click.Choice(["call", "batch"]), help="What gets a fresh state.")
@click.option("-j", "--jobs", type=click.IntRange(1, 256), metavar="N", help="Runs at once.  [default: the cores]")
@click.option("--seed", type=int, metavar="N", help="Make the script's random numbers repeat.")
@_mapped
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Score the first N rows only.")
@click.option("-o", "--output", "files", metavar="FILE", multiple=True, help="Write each row here; may repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object, and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--fail-if", "gates", metavar="GATE", multiple=True, help="Exit with 1 if this holds: 'mean>0.2'.")
def run(**options: Any) -> int:
    """
    Score each row of DATASET with EVALUATOR.

    EVALUATOR is a script that defines `evaluate`, or the name of a template. DATASET is a .jsonl, .json, .csv
    or .parquet file, `-` for JSON lines on stdin, or `demo` for the rows that come with evalcell.

    The suffix of -o FILE decides its format: .jsonl, .json, .csv or .parquet. An existing file is
    overwritten. In .csv, a text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    from runner import cli_run

    return cli_run.run(cli_run.Options(**options))


@cli.command(epilog=_EPILOG)
@click.argument("script")
@click.argument("dataset", required=False)
@_mapped
def check(**options: Any) -> int:
    """
    Show what would be done with SCRIPT, and try it on the first 3 rows of DATASET.

    Without a dataset nothing of the script is run.
    """
    from runner import cli_check

    return cli_check.check(**options)


@cli.command()
def templates() -> int:
    """List the evaluators that come with evalcell."""
    from runner.cli_lists import list_templates

    return list_templates()


@cli.command()
@click.argument("name")
@click.option("--lang", type=click.Choice(["py", "ts"]), default="py", show_default=True, help="Python or TypeScript.")
def show(name: str, lang: str) -> int:
    """Print the source of the template NAME, to save and change it."""
    from runner.cli_lists import show_template

    return show_template(name, lang)


@cli.command()
def sandboxes() -> int:
    """List the sandboxes: available or what to install, and what they can do here."""
    from runner.cli_lists import list_sandboxes

    return list_sandboxes()


def main() -> NoReturn:
    """The entry point."""
    cli.main()


if __name__ == "__main__":
    main()
