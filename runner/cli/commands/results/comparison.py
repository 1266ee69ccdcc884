"""`compare` and `plan`: their options."""

from __future__ import annotations

import click

from runner.cli import options
from runner.cli.option_groups import option, several
from runner.core.settings import COMPARED

_printed = several(
    option(
        "Results", "--json", "as_json", is_flag=True, rare=True, help="Print the comparison as one JSON object only."
    ),
    option("Results", "-q", "--quiet", is_flag=True, rare=True, help="Print nothing but errors."),
)

_runs = click.argument("sources", nargs=-1, metavar="SOURCES...")

_compared = several(
    option(
        COMPARED,
        "--direction",
        type=click.Choice(["maximize", "minimize"]),
        help="Which scores are better.  [default: by the results, or the template]",
    ),
    option(COMPARED, "--evaluator", metavar="SCRIPT", help="Take it from this evaluator's header."),
    option(COMPARED, "--cluster", metavar="COLUMN", help="Rows with the same value are not independent."),
    option(COMPARED, "--ignore-input", is_flag=True, help="Pair rows by id alone, whatever their input."),
    option(COMPARED, "--strict", is_flag=True, help="Exit with 3 if anything does not pair, or is another."),
    option(
        COMPARED,
        "--tolerance",
        type=click.FloatRange(0, 1e300, max_open=True),
        metavar="D",
        help="A mean that is worse by up to D is no worse.",
    ),
)

_ALLOWED = {
    "max_failed": "How many pairs may fail or be lost; with more, the gate exits with 3.  [default: none]",
    "max_abstained": "How many may abstain in the new run; with more, it exits with 3.  [default: as in the base]",
}

_EPILOG = (
    "The verdict is by Student's 95% interval on the mean difference of the pairs. better: all of it is above 0, and "
    "10 rows or more changed. no worse: all of it is within the tolerance. worse: all of it is beyond. not enough "
    "evidence: anything else. Exit codes: 0 done; 1 it is worse (with --fail-if-worse); 2 wrong usage; 3 no verdict: "
    "not enough evidence (with --fail-if-worse), or nothing to compare; 130 interrupted."
)


@click.command(short_help="Tell whether a new run is better than a base.", cls=options.HeadingCommand, epilog=_EPILOG)
@_runs
@options.settings("evalcell compare", **_ALLOWED)
@_compared
@_printed
@options.calls("results.compare.compare")
def compare() -> None:
    """
    Tell whether a new run is better than a base: better, no worse, worse, or not enough evidence.

    With two SOURCES, BASE NEW, each is a results file (.jsonl, .json, .csv or .parquet), a run's folder, or a run of
    the store: its id, or `latest`. With three, EVALUATOR BASE_DATASET NEW_DATASET, both datasets are scored first, in
    one sandbox.

    Rows pair by id, and by a hash of what the evaluator was given beside the output. What does not pair is named
    and counted. To see outputs side by side, run with --keep all.
    """


@click.command(
    short_help="Run rows of a run again, and compare.",
    cls=options.HeadingCommand,
    epilog="Exit codes: 0 all are equal; 1 some differ; 2 wrong usage; 3 no verdict: the run, its dataset or its "
    "script is not what it was, or rows were lost; 130 interrupted.",
)
@click.argument("folder", metavar="RUN")
@option("Rows", "--sample", metavar="N|P%", default="100", help="How many rows, or what share of them.  [default: 100]")
@option("Rows", "--dataset", metavar="FILE", help="Where the dataset is now.  [default: where the run has read it]")
@option("Sandbox", "--same-rights", is_flag=True, help="Give the script what the run gave: network, variables, judges.")
@option("Results", "--attest", metavar="FILE", help="Write an in-toto statement of it, to sign with a tool of yours.")
@option("Results", "--json", "as_json", is_flag=True, help="Print what was found as one JSON object only.")
@option("Results", "-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@options.calls("results.verify.verify")
def verify() -> None:
    """
    Run rows of a finished run again, from what its folder holds, and tell whether they give the same.

    RUN is a folder that a run has written with -o RUN/, or one of the store by its id, or `latest`. The folder holds
    the script with its files, the request, the lock of packages, and what judges said, which is replayed; the dataset
    is read where it was. Digests are checked first. The digest of the results chooses the rows, so that nobody could
    choose them before. A run that had more of its machine, such as the network, is verified with --same-rights only: do
    that for folders of your own.
    """


_above_0 = click.FloatRange(0, 1e300, min_open=True, max_open=True)


@click.command(short_help="Tell how many rows show a difference.", cls=options.HeadingCommand)
@_runs
@option(COMPARED, "--difference", type=_above_0, metavar="D", help="The difference of means that is to be seen.")
@option(COMPARED, "--rows", type=click.IntRange(2, 10**9), metavar="N", help="Rows there are.  [default: the pilot's]")
@option(
    COMPARED,
    "--changed",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Without a pilot, for scores of 0 and 1: the share of rows that change.",
)
@option(COMPARED, "--span", type=_above_0, metavar="R", help="Without a pilot: how far apart two scores can be.")
@option(COMPARED, "--output", metavar="NAME", help="The pilot's named output.  [default: the first]")
@option(COMPARED, "--cluster", metavar="COLUMN", help="Rows of the pilot with the same value are not independent.")
@option("Results", "--json", "as_json", is_flag=True, help="Print the plan as one JSON object only.")
@options.calls("results.plan.plan")
def plan() -> None:
    """
    Tell how many rows show a difference between two runs, and how large a one so many rows show.

    With two SOURCES, BASE NEW, these are a pilot: two runs of some of the rows, as for `compare`. Without, --changed or
    --span give the largest spread that there can be. A difference counts as seen if 80 of 100 samples show it.
    """
