"""The options that commands share, and their order in the help."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from runner.cli.headings import Command as Command
from runner.cli.headings import Decorator, option, several
from runner.cli.headings import Plain as Plain
from runner.cli.limit_options import SANDBOX, seconds
from runner.cli.limit_options import bounds as bounds

if TYPE_CHECKING:
    from sandboxes.base import Language

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LANGUAGES: dict[str, Language] = {"py": "python", "ts": "typescript", "js": "typescript"}


def offered(kind: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """What the shell's completion offers: a function of `completion`."""

    def offer(context: click.Context, parameter: click.Parameter, begun: str) -> list[Any]:
        from runner.cli import completion  # not for a command that runs

        found: list[Any] = getattr(completion, kind)(context, parameter, begun)
        return found

    return offer


def evaluator(name: str, *, required: bool = True) -> Decorator:
    """Declare the argument that names a script or a template."""
    return click.argument(name, required=required, shell_complete=offered("evaluators"))


def dataset(name: str, *, required: bool = True) -> Decorator:
    """Declare the argument that names a dataset, or examples."""
    return click.argument(name, required=required, shell_complete=offered("datasets"))


def duration(_: click.Context, __: click.Parameter, given: str | None) -> timedelta | None:
    """Called by click. A whole number and its unit: 90s, 30m, 1h, 2d."""
    if given is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,6})([smhd])", given, re.ASCII)):
        raise click.BadParameter(f"{given[:40]!r} is not a duration; write for example 90s, 30m, 1h or 2d.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _language(_: click.Context, __: click.Parameter, given: str | None) -> Language | None:
    return None if given is None else _LANGUAGES[given]


_ROWS, _PACKAGES, _ALLOWED, _RESULTS = "Rows", "Packages", "What the script may use", "Results"


def language(help: str, *more: str) -> Decorator:
    """Declare `--lang`: `py` or `ts`, or one of `more`."""
    names = click.Choice(["py", "ts", *more])
    return option(_ROWS, "--lang", "language", type=names, callback=_language, help=help)


mapping = several(
    language("The language of a template that has several.", "js"),
    option(
        _ROWS,
        "--map",
        "paths",
        metavar="NAME=COLUMN",
        multiple=True,
        help="Take a parameter from a column, or from a path: output=prediction, a=$.output.x.",
    ),
    option(_ROWS, "--set", "literals", metavar="NAME=JSON", multiple=True, help="Give a parameter a value: limit=3."),
    option(
        _ROWS, "--dialect", metavar="NAME", help="The tool that the script was written for: promptfoo, langsmith, …"
    ),
    option(
        _ROWS, "--inline", metavar="CODE", help="Code of promptfoo's config, or of --dialect, in place of a script."
    ),
    option(
        _ROWS,
        "--dialect-failures",
        type=click.Choice(["failed", "as-zero"]),
        default="failed",
        help="An exception of a promptfoo assertion fails the row, or is the score 0, as promptfoo has it.",
    ),
)

reading = several(
    option(_ROWS, "--encoding", metavar="NAME", help="The encoding of the dataset: cp1252.  [default: UTF-8]"),
    option(
        _ROWS, "--rows", metavar="PATH", help="The place of the rows in a .json file that is no array: data, data[*].x."
    ),
    option(
        _ROWS,
        "--empty",
        type=click.Choice(["text", "null"]),
        default="text",
        help="An empty cell of a CSV file is empty text, or null.",
    ),
    option(
        _ROWS,
        "--json-columns",
        metavar="COLUMN",
        multiple=True,
        help="The texts of this column are JSON, such as lists in CSV.",
    ),
)

evaluators = option(
    _ROWS,
    "-e",
    "--evaluator",
    "evaluators",
    metavar="[NAME=]EVALUATOR",
    multiple=True,
    shell_complete=offered("evaluators"),
    help="One of several evaluators; then DATASET is the only argument.",
)

config = option(
    _ROWS,
    "--config",
    "project",
    metavar="FILE",
    help="Run what this file says.  [default: evalcell.toml, here or above]",
)

trust_config = option(
    _ALLOWED,
    "--trust-config",
    is_flag=True,
    help="evalcell.toml may send rows elsewhere, open the network, and write outside its folder.",
)

rows = several(
    mapping,
    reading,
    option(_ROWS, "--id", metavar="COLUMN", help="The column with the rows' ids.  [default: id]"),
    option(_ROWS, "--limit", type=click.IntRange(1), metavar="N", help="Score the first N rows only."),
    option(_ROWS, "--seed", type=int, metavar="N", help="Make the script's random numbers repeat."),
)

repeat = option(
    _ROWS,
    "--repeat",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="K",
    help="Score each row K times.",
)

cached = option(_RESULTS, "--cache", is_flag=True, help="Take scores from earlier runs, and keep those of this one.")

tolerance = option(
    _ROWS,
    "--tolerance",
    type=click.FloatRange(0, 1e300),
    metavar="D",
    help="How far two scores may be apart.  [default: 1e-9]",
)

other = option(
    _ROWS, "--other", metavar="SCRIPT", help="Compare with this evaluator, which runs in the last --sandbox."
)

twice = option(_ROWS, "--twice", is_flag=True, help="Run it two times in one sandbox, and compare these.")

sandbox = option(
    SANDBOX,
    "--sandbox",
    metavar="NAME",
    shell_complete=offered("sandboxes"),
    help="Where the script runs.  [default: what fits it]",
)

on = option(
    SANDBOX,
    "--on",
    metavar="CLUSTER",
    help="Run it on a Ray cluster: `ray`, the one of RAY_ADDRESS or of this machine, or ray://HOST:10001.",
)

sandboxes = option(
    SANDBOX,
    "--sandbox",
    "sandboxes",
    metavar="NAME",
    multiple=True,
    shell_complete=offered("sandboxes"),
    help="Where it runs; give two or more.",
)

limits = several(sandbox, bounds)

resources = several(
    option(
        _PACKAGES, "--with", "packages", metavar="PKG", multiple=True, help="Install this too, as in scikit-learn>=1.5."
    ),
    option(
        _PACKAGES,
        "--with-requirements",
        "requirements",
        metavar="FILE",
        multiple=True,
        help="Install what this requirements file lists.",
    ),
    option(_PACKAGES, "--lock", metavar="FILE", help="Install exactly the packages of an earlier run."),
    seconds(_PACKAGES, "--install-timeout", help="Seconds to install them, or send files.  [default: 300]"),
    option(
        _ALLOWED,
        "--file",
        "readable",
        metavar="NAME=PATH",
        multiple=True,
        help="A file to read; os.environ[NAME] is its path.",
    ),
    option(_ALLOWED, "--env", metavar="NAME", multiple=True, help="A variable of your environment."),
    option(
        _ALLOWED,
        "--env-file",
        metavar="FILE",
        help="Read variables, and providers' keys, from FILE first.",
    ),
    option(_ALLOWED, "--allow-network", "network", is_flag=True, help="The network."),
    option(
        _ALLOWED, "--allow-weak-isolation", "weak", is_flag=True, help="Run even where your files cannot be hidden."
    ),
)

env_file = click.option("--env-file", metavar="FILE", help="Read providers' keys from FILE first.")

printed = several(
    option(_RESULTS, "--json", "as_json", is_flag=True, help="Print the summary as one JSON object only."),
    option(_RESULTS, "-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)

verbose = option(_RESULTS, "-v", "--verbose", is_flag=True, help="Also print what passed.")

max_failed = option(
    _RESULTS,
    "--max-failed",
    metavar="N|P%",
    help="Exit with 1 if more rows fail or are lost. Without it, gates on scores allow none.",
)

max_abstained = option(_RESULTS, "--max-abstained", metavar="N|P%", help="Exit with 1 if more rows abstain.")

report = option(
    _RESULTS,
    "--report",
    "reports",
    metavar="FILE",
    multiple=True,
    help="Write a report: .html, .md, .xml (JUnit) or .codequality.json (GitLab).",
)

results = several(
    option(_RESULTS, "--worst", type=click.IntRange(0, 1000), metavar="N", help="Show the N worst rows.  [default: 5]"),
    option(
        _RESULTS,
        "--show",
        type=click.Choice(["worst", "scored", "best", "failed", "abstained"]),
        default="worst",
        help="Show these rows instead of the worst.",
    ),
    option(
        _RESULTS,
        "--keep",
        metavar="COLUMN",
        multiple=True,
        help="Carry this column of the dataset, or `all`, into the results.",
    ),
    option(
        _RESULTS, "-o", "--output", "files", metavar="FILE", multiple=True, help="Write each row here; FOLDER/ for all."
    ),
    report,
    option(_RESULTS, "--save", is_flag=True, help="Keep the run in the store: `evalcell runs` lists it."),
    option(_RESULTS, "--resume", is_flag=True, help="Go on with the run in -o FOLDER/ after its last whole row."),
    option(_RESULTS, "--overwrite", is_flag=True, help="Start anew though -o FOLDER/ has rows of an earlier run."),
    printed,
    option(
        _RESULTS,
        "--require",
        metavar="GATE",
        multiple=True,
        help="Exit with 1 unless it is true: 'mean>=0.9'.",
    ),
    option(
        _RESULTS, "--fail-if", "gates", metavar="GATE", multiple=True, help="Exit with 1 if it is true: 'mean<0.9'."
    ),
    max_failed,
    max_abstained,
    seconds(_RESULTS, "--aggregate-timeout", help="Seconds the script's `aggregate` may take.  [default: 60]"),
)
