"""`evalcell run`: check everything, score the dataset, and report. Rows that were written stay if the run fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from contextlib import aclosing
from importlib import import_module
from threading import Thread
from typing import Any, BinaryIO

import click

from runner.cli import signals, values
from runner.cli.command_options import CommandOptions
from runner.cli.commands.github.summary import tell_step
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED
from runner.cli.views.progress import ProgressBar
from runner.core.errors import ColumnsError, EvaluatorError, ListsError, MappingError, NoEntryError
from runner.core.text import json_text, rows_of
from runner.core.types import Evaluator
from runner.engine.scoring.overview import nothing_scored, verdict
from runner.engine.scoring.shown_rows import safe
from runner.engine.scoring.summary import Summary
from runner.inputs.datasets.location import is_url
from runner.inputs.evaluators.header import read_header
from runner.inputs.evaluators.load import MAX_SOURCE, split_entry
from runner.inputs.evaluators.python.needs import Needs, needs_of
from runner.results.output.folder import is_folder
from runner.results.output.manifest import State
from runner.results.reports.step_summary import VARIABLE
from runner.runs.base import BaseRun
from runner.runs.run import Run
from runner.runs.store_references import prepare

_COLORS = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""Variables by which rich prints colours where there is no terminal."""


def run(options: CommandOptions) -> int:
    """Score a dataset; return the exit code. Raises what `evaluate` does, OutputError and WriteError."""
    if options["inline"] is not None and options.dataset is None:
        options = options.but(evaluator="inline", dataset=options.evaluator)
    if options.evaluator is None or options.dataset is None:
        raise click.UsageError(f"Missing argument '{'EVALUATOR' if options.evaluator is None else 'DATASET'}'.")
    try:
        evaluator = options.find(options.evaluator)
    except (ListsError, NoEntryError) as error:
        from runner.inputs.datasets.shapes import by_columns  # here: most scripts define `evaluate`

        raise _also(by_columns(error, options.dataset), options) from None
    except EvaluatorError as error:
        raise _also(error, options) from None
    request = options.request(options.evaluator, options.dataset, evaluator)
    prepared = prepare(request, evaluator=evaluator, lock=options.lock_named, save=options["save"])
    writes = bool(options["output"] or options["report"] or options["save"])
    work = Run(prepared, **result_settings(options), verdict_only=wants_verdict_only(options) and not writes)
    stdin = values.standard_input() if options.dataset == "-" else None
    try:
        interrupted = execute(work, stdin, quiet=options.quiet)
    except ColumnsError as error:
        needs = _needs(options, evaluator)
        error.needs, error.also = needs.packages, needs.words()
        raise
    except MappingError as error:
        raise MappingError("\n".join(filter(None, (str(error), _needs(options, evaluator).words())))) from None
    finally:
        if work.state is not None:
            tell_step(lambda: [work.content(work.state or "finished", work.error)])
    return report(work, options, interrupted)


def wants_verdict_only(options: CommandOptions) -> bool:
    """Say whether nothing is printed but what a gate has to say."""
    return options.quiet and not options.as_json and VARIABLE not in os.environ


def _needs(options: CommandOptions, evaluator: Evaluator | None = None) -> Needs:
    """What the script lacks that is named, as far as its text tells."""
    path, _ = split_entry(options.evaluator or "")
    if (
        options["inline"] is not None
        or not path.name.endswith(".py")
        or not path.is_file()
        or options["image"]
        or options["with_requirements"]
    ):
        return Needs()
    given = (*options["with"], *(evaluator.packages if evaluator else ()))
    files = evaluator.files if evaluator else None
    try:
        source = evaluator.source if evaluator else path.read_bytes()[:MAX_SOURCE].decode()
        header = read_header(source, str(path))
    except (OSError, ValueError):
        return Needs()
    given = (*given, *header.packages)
    beside = evaluator.beside if evaluator else None
    how = {"packages": given, "env": options["env"], "named": header.files}
    return needs_of(source, str(path), files=files, beside=beside, **how)


def _also(error: EvaluatorError, options: CommandOptions) -> EvaluatorError:
    """The error, with what else the script lacks."""
    also = _needs(options).words()
    return EvaluatorError(f"{error}\n{also}") if also else error


def result_settings(options: CommandOptions) -> dict[str, Any]:
    """Return where results go, as a run takes it."""
    how = {name: options[name] for name in ("lock", "resume", "overwrite", "save")}
    return {"files": options["output"], "reports": options["report"], **how}


def execute(work: Run, stdin: BinaryIO | None, *, quiet: bool) -> bool:
    """Score all rows, and write how it ended; return whether it was interrupted. Raises as `run`."""
    with work.open(stdin=stdin):
        if not quiet:
            say(_begins(work))
            # What prints the results is imported while the sandbox starts.
            Thread(target=import_module, args=("runner.cli.views.rows_view",), daemon=True).start()
        progress = ProgressBar(not quiet, lambda: work.prepared.sandbox.state)
        progress.total = work.total() if progress.shown else None
        return carry_out(work, _score(work, progress), quiet=quiet)


def carry_out(work: BaseRun, scoring: Coroutine[Any, Any, None], *, quiet: bool) -> bool:
    """Score, and write how it ended; return whether it was interrupted."""
    try:
        interrupted = signals.run(scoring, quiet=quiet)
    except Exception as e:
        end(work, "failed", str(e))
        raise
    end(work, "interrupted" if interrupted else "finished")
    return interrupted


def say(words: str) -> None:
    """Print a line on stderr that is less than the results: faint on a terminal."""
    if sys.stderr.isatty() or _COLORS & os.environ.keys():
        _tell(words, "dim")
    else:
        click.echo(safe(words, 400), err=True)


def _tell(words: str, style: str = "", *, in_full: bool = False) -> None:
    """Print a line on stderr; `in_full`: an error, whose end is the next step."""
    from runner.cli.views import render  # here, as below: it imports rich, which takes longer than to start

    render.err().say(render.text(words, style, render.ERROR if in_full else render.LINE))


def _begins(work: Run) -> str:
    """Where the rows are scored, and how many are there already."""
    sandbox = f"sandbox: {work.prepared.why}"
    if (found := work.resumed) is None:
        return sandbox
    there = rows_of(found.kept.rows // work.prepared.request.repeat)
    if found.finished:
        return f"{found.folder} is finished, with {there}: nothing is scored again"
    return f"{found.folder} goes on after {there}; {sandbox}"


async def _score(work: Run, progress: ProgressBar) -> None:
    with progress:
        async with aclosing(work.grouped_results()) as groups:
            async for results in groups:
                progress.add(results)


def end(work: BaseRun, state: State, error: str | None = None) -> None:
    """Write how it ended."""
    if beside := work.end(state, error):
        _tell(f"evalcell: {beside}", "bold red", in_full=True)


def _kept(work: BaseRun) -> str:
    """Where the rows are, in words."""
    written, rows = work.written, work.count
    if not written and work.saved:
        return saved_as(work.saved)
    if not written:
        return "use -o FILE to keep them"
    short = [f"{path} has {rows_of(count)}" for path, count in written.items() if count != rows]
    have = [path for path, count in written.items() if count == rows]
    return "; ".join([*([f"they are in {', '.join(have)}"] if have else []), *short])


def _goes_on(work: BaseRun) -> bool:
    """True if `--resume` goes on with it: its rows are in a folder, and the dataset can be read again."""
    path = work.prepared.request.dataset
    again = path is not None and (is_url(path) or not os.path.exists(path) or os.path.isfile(path)) and path != "-"
    return again and any(is_folder(path) for path in work.written)


def saved_as(run: str) -> str:
    """Return where the results are, in words."""
    return f"saved as the run {run}: evalcell runs show {run}"


def report(work: BaseRun, options: CommandOptions, interrupted: bool, of: str = "") -> int:
    """Print the figures; return the exit code. `of` begins what is said on stderr: one of several evaluators."""
    summary = work.summary("interrupted" if interrupted else "finished")
    if not options.quiet:
        for note in [
            *work.notes,
            *work.label_notes(summary, work.shown()),
        ]:
            _tell(f"{of}note: {note}", in_full=True)
    if interrupted:
        when = f"after {rows_of(summary.rows)}; {_kept(work)}" if summary.rows else "before the first row was scored"
        _tell(f"{of}interrupted {when}", "yellow")
        if _goes_on(work):
            from runner.cli.command_line import resuming

            _tell(f"{of}go on with it: {resuming(click.get_current_context().find_root().obj or ())}", in_full=True)
        from runner.cli.views import render

        render.err().print(render.summary_view(summary))
        return INTERRUPTED
    _print(work, summary, options)
    if not summary.judged:
        _tell(of + nothing_scored(summary), "bold red", in_full=True)
    else:
        for result in sorted(summary.gates, key=lambda result: result.verdict):  # failed, passed, unjudged
            if result.verdict != "passed" or (result.calls_for_words and not options.quiet):
                from runner.cli.views import render

                render.err().say(render.gate_line(result, of))
    return exit_code(summary)


def exit_code(summary: Summary) -> int:
    """Return the exit code of a finished run. A failed gate takes precedence over one that could not be judged."""
    return {"failed": GATE_FAILED, "no verdict": COULD_NOT_JUDGE, "done": DONE}[verdict(summary)]


def baseline_comparison(work: BaseRun) -> dict[str, Any]:
    """Return the comparison with the baseline, under its key, if there is one."""
    if work.baseline is None or (made := work.baseline.comparison) is None:
        return {}
    return {"comparison": made.model_dump(mode="json")}


def _print(work: BaseRun, summary: Summary, options: CommandOptions) -> None:
    if options.quiet and not options.as_json:
        return
    from runner.cli.views import render

    out = render.out()
    if options.as_json:
        out.out(json_text(summary.model_dump(mode="json") | baseline_comparison(work)), highlight=False)
    else:
        from runner.cli.views.rows_view import direction_hint, not_shown, rows_view

        if (shown := work.shown()).rows:
            out.print(rows_view(shown, out.width))
            if shown.show in ("worst", "scored") and (line := not_shown(shown, summary)):
                out.print(line)
            if not shown.directed and shown.show in ("worst", "scored") and summary.scored:
                out.print(direction_hint(work.prepared.evaluator, summary, shown.assumed))
        out.print(render.summary_view(summary))
        if work.baseline is not None:
            from runner.cli.views.compare_view import baseline_view

            out.print(baseline_view(work.baseline, out.width))
        stays = work.resumed.folder if work.resumed and work.resumed.finished else None
        if work.saved:
            out.say(render.text(saved_as(work.saved)))
        for file in (*(file for file in options["output"] if file != stays), *options["report"]):
            out.say(render.text(f"written: {file}"))
        columns = any(str(file).lower().endswith((".csv", ".parquet")) for file in options["output"])
        if columns and len(summary.outputs) > 1 and not work.prepared.evaluator.outputs:
            from runner.cli.views.rows_view import names_hint

            out.print(names_hint(work.prepared.evaluator, summary))
