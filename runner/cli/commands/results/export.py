"""`evalcell export` and `evalcell lines`: an evaluator in other tools."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import click

from runner.cli import options
from runner.cli.option_groups import option

_TOOLS = ("promptfoo", "inspect", "langsmith", "pytest")
_threshold = option(
    "Rows",
    "--threshold",
    type=float,
    metavar="X",
    help="A row passes with this score or a better one.  [default: the evaluator's own]",
)


@click.command(
    short_help="Write the file by which a script scores in another tool.",
    cls=options.HeadingCommand,
    epilog="Exit codes: 0 done; 2 wrong usage, such as a script that cannot be used, or a file that exists.",
)
@click.argument("tool", type=click.Choice(_TOOLS))
@options.evaluator("script")
@_threshold
@options.settings("evalcell lines")
@option("Results", "-o", "--output", "target", metavar="FILE", help="Write it here instead of to stdout.")
def export(**given: Any) -> int:
    """
    Write the file by which SCRIPT, in its sandbox, scores in another TOOL.

    \b
    promptfoo   a JavaScript assertion, .mjs
    inspect     a scorer, .py
    langsmith   an evaluator for evaluate(), .py
    pytest      a test with a fixture, .py

    SCRIPT is a script, as SCRIPT.py:FUNCTION too, or the name of a template. The file names it by its place, seen from
    FILE, else from the folder that the file is saved in, which is this one. The options are carried along, --threshold
    where rows pass or fail: in promptfoo and pytest. A row that failed is an error of that tool, and no score.
    """
    return _export(**given)


@click.command(
    short_help="Score rows as they come, a line of JSON each.",
    cls=options.HeadingCommand,
    epilog="Exit codes: 0 stdin ended; 2 wrong usage; 3 rows were lost and none has a result, for example because the "
    "sandbox cannot be used; 130 interrupted.",
)
@options.evaluator("script")
@_threshold
@options.settings("evalcell lines")
def lines(**given: Any) -> int:
    """
    Score rows as they come: a row as JSON on each line of stdin, its result on a line of stdout, at once.

    For tools that are not Python; `evalcell export promptfoo` uses it. A result has the `id` of its row as text (of a
    row without one, its number), `outcome`, `label`, `score`, `explanation`, `outputs`, `error` and `passed`. Results
    come in any order. The sandbox is opened by the first row, and stays open until stdin ends.
    """
    return _lines(**given)


def _export(tool: str, script: str, threshold: float | None, target: str | None, **given: Any) -> int:
    # Here and below: not for other commands.
    from pathlib import Path

    from runner.cli.commands.author.new import write_new
    from runner.cli.exit_codes import DONE
    from runner.core.text import printable
    from runner.inputs.evaluators.load import split_entry
    from runner.inputs.evaluators.resolve import is_path
    from runner.results.output.manifest import setting_words
    from runner.runs.export.files import TOOLS, ExportFile

    if threshold is not None and tool in ("inspect", "langsmith"):
        raise click.UsageError(f"--threshold decides which rows pass, and {tool} takes scores alone; leave it out.")
    if given["env_file"] is not None:
        given["env_file"] = os.path.abspath(given["env_file"])  # another tool starts in any folder
    asked = _asked(script, **given)
    request = asked.request
    named, path = script, is_path(script)
    if path:
        source, entry = split_entry(script)
        folder = Path(target).parent if target is not None else Path()
        named = Path(os.path.relpath(source, folder)).as_posix() + (f":{entry}" if entry else "")
    words = [*(("--sandbox", request.sandbox.backend) if "backend" in request.sandbox.model_fields_set else ())]
    words += setting_words("evalcell lines", request, None)
    own = None if target is None else Path(target).name
    made = ExportFile(named, path, asked.evaluator, asked.arguments, words, asked.columns, threshold, own)
    text = TOOLS[tool](made)
    if target is None:
        click.echo(text, nl=False)
    else:
        write_new({Path(target): text})
        click.echo(f"wrote {printable(target)}", err=True)
    return DONE


def _lines(script: str, threshold: float | None, **given: Any) -> int:
    from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE
    from runner.cli.values import standard_input
    from runner.runs.export.scorer import RowScorer, refuse_no_verdict, score_lines

    asked = _asked(script, **given)
    refuse_no_verdict(asked.evaluator, threshold)
    if (rows := standard_input()) is None:
        return DONE
    how = {name: value for name, value in asked.arguments.items() if name in ("sandbox", "limits", "mapping")}
    with RowScorer(asked.evaluator, threshold=threshold, **how) as scorer:
        outcomes = score_lines(scorer, rows, click.echo)
    return COULD_NOT_JUDGE if "lost" in outcomes and outcomes.isdisjoint(("scored", "abstained")) else DONE


class _Asked(NamedTuple):
    """The options as a request, and as what RowScorer takes."""

    request: Any
    evaluator: Any
    arguments: dict[str, Any]
    columns: list[str]


def _asked(script: str, **given: Any) -> _Asked:
    from runner.cli.command_options import CommandOptions
    from runner.engine.request import RunRequest
    from runner.runs.store_references import prepare

    options = CommandOptions.of(given)
    evaluator = options.find(script)
    request = options.request(script, None, evaluator)
    columns = prepare(request, evaluator=evaluator).columns  # what cannot be run is refused now
    usual = RunRequest(evaluator=script)
    names = ("sandbox", "limits", "mapping", "language", "dialect", "dialect_failures")
    arguments = {name: getattr(request, name) for name in names if getattr(request, name) != getattr(usual, name)}
    if request.sandbox.model_fields_set:  # a backend that is named is not chosen anew
        arguments["sandbox"] = request.sandbox
    return _Asked(request, evaluator, arguments, sorted((columns or {"output"}) - {"id"}))
