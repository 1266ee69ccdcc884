"""`check`, `test` and `parity`: their options."""

from __future__ import annotations

import click

from runner.cli import options
from runner.cli.exit_codes import epilog
from runner.cli.option_groups import option


@click.command(
    short_help="Show how a script would be run, and try it on three rows.",
    cls=options.HeadingCommand,
    epilog=epilog("a type error"),
)
@options.evaluator("script", required=False)
@options.dataset("dataset", required=False)
@options.settings("evalcell check")
@options.calls("author.check.check")
def check() -> None:
    """
    Show how SCRIPT would be run, and try it on the first 3 rows of DATASET.

    Without DATASET the script is not run.
    """


@click.command(
    short_help="Tell what a script gets wrong.",
    cls=options.HeadingCommand,
    epilog="Exit codes: 0 nothing found, and all that is required is met; 1 findings, or a gate is not met; 2 wrong "
    "usage; 3 no verdict: the reference itself gets no score, too many rows failed, or a gate could not be "
    "judged; 130 interrupted.",
)
@options.evaluator("script", required=False)
@options.dataset("dataset", required=False)
@options.settings(
    "evalcell audit",
    seed="Give the script the same random numbers each time, and plant others.",
    require="Exit with 1 unless it is true: 'killed>=0.9'.",
    report="Write a report: .html, .md or .xml (JUnit).",
)
@option(
    "Audit",
    "--sample",
    type=click.IntRange(2, 10_000),
    metavar="N",
    help="Rows that outputs are planted in.  [default: 60; 5 where a judge is asked]",
)
@option("Audit", "--allow", multiple=True, metavar="ID", help="A finding that is known, such as wrong.empty.")
@option(
    "Audit",
    "--mutants",
    type=click.IntRange(0, 2_000),
    metavar="N",
    help="Changes of the script that its worked examples must notice.  [default: 100; 0 where a judge is asked]",
)
@option("Audit", "--examples", metavar="FILE", help="Its worked examples.  [default: as `evalcell test` has it]")
@option("Audit", "--labels", metavar="COLUMN", help="What people say of each output: true or false, or a number.")
@option("Audit", "--right", metavar="LABEL", help="The label that means right, where words do not say.")
@option("Audit", "--cluster", metavar="COLUMN", help="Rows with the same value in it are not independent.")
@options.print_options
@options.calls("author.audit.audit")
def audit() -> None:
    """
    Tell what SCRIPT gets wrong: outputs are planted in rows of DATASET, and their scores say.

    Without SCRIPT and DATASET: the evaluators of evalcell.toml on their datasets, or those of the run that is named.

    A right answer must score best, and a wrong one must not. Planted are the row's reference, the reference of another
    row, empty, strange and changed outputs, and damage in steps; rows are scored again, in another order, and with
    other columns changed. Each finding has a row that shows it.

    Then the script itself is changed, one change at a time: its worked examples must notice. Where none does, a row
    that tells the change apart is shown as an example to paste. --labels holds the script against people.

    --require is of these: killed (the share of changes that the examples notice), kappa, ac1, tpr, tnr, auc, rank and
    coverage (of people's labels; the lower end of the interval counts).

    What no grader can see is listed and not judged. A script's header may claim it: [tool.evalcell.audit] has `sees`,
    `same`, `blind` and `allow`.
    """


@click.command(
    short_help="Try a script on worked examples.",
    cls=options.HeadingCommand,
    epilog="Exit codes: 0 all examples passed; 1 some failed; 2 wrong usage, such as a line of EXAMPLES that cannot be "
    "used; 3 no verdict; 130 interrupted.",
)
@options.evaluator("script")
@options.dataset("examples", required=False)
@options.settings("evalcell test")
@options.print_options
@options.verbose
@options.calls("author.examples.test")
def test() -> None:
    """
    Try SCRIPT on worked examples, and show where its results differ.

    EXAMPLES is a .jsonl file. The default is NAME.cases.jsonl beside the script NAME.py, else cases.jsonl beside
    it, or the template's own examples. Each line is a row with its expected result:

    \b
    {"output": "a", "reference": "a", "expected": {"score": 1, "label": "same"}}

    Only the keys of `expected` are compared: label, score (to 1e-9, or to the row's `tolerance`), explanation,
    outcome, and for a failure its kind and a part of its message. `set` and `map` give the script's parameters
    values and paths for that row.
    """


@click.command(
    short_help="Compare the results of a script in several sandboxes.",
    cls=options.HeadingCommand,
    epilog="Exit codes: 0 all rows agree; 1 some differ; 2 wrong usage; 3 no verdict, for example because nothing was "
    "scored; 130 interrupted.",
)
@options.evaluator("evaluator")
@options.dataset("dataset")
@options.settings("evalcell parity")
@options.tolerance
@options.other
@options.twice
@options.sandboxes
@options.print_options
@options.calls("score.parity.parity")
def parity() -> None:
    """
    Run EVALUATOR on DATASET in several sandboxes, and show the rows whose results differ.

    If a template has several languages, each sandbox runs the first one that it supports. --other compares two
    scripts: the first --sandbox runs EVALUATOR, the last one runs the other. Without --sandbox, each script runs
    in the sandbox that fits it. --twice shows which rows do not repeat: 0 rows should differ.

    DATASET is a file, `demo`, or `cases` for the worked examples of `evalcell test`. Outcome, label, score,
    explanation and the kind of an error must agree; error messages may differ.
    """
