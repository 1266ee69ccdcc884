"""
The Python API: `evaluate` waits for all results, `stream` yields each result as it comes.

`check_examples` tries worked examples, `parity` runs one dataset in several sandboxes.
`write_report` makes reports of finished runs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from runner.core.errors import FailedRowsError
from runner.core.settings import ExampleOptions, ParityOptions, RowOptions, RunOptions
from runner.core.signature import with_settings
from runner.core.types import Result
from runner.engine.arguments import make_request, results_path, scorer
from runner.engine.reading import Reading
from runner.engine.request import Path, Rows, Scorer
from runner.engine.scoring.diff import TOLERANCE
from runner.engine.scoring.summary import Summary
from runner.engine.threads import DaemonCall
from runner.inputs.call import with_whole_call
from runner.inputs.datasets.location import is_pattern
from runner.results.notebook.progress import NotebookBar, in_notebook
from runner.results.notebook.waiting import wait
from runner.results.output.manifest import State
from runner.runs.base import BaseRun
from runner.runs.examples.check import ExampleResult, ExamplesReport, prepare_examples, report, run_examples
from runner.runs.examples.load import Example, examples_from_rows, find_examples, read_examples
from runner.runs.parity import Parity, ParityTally, open_cases, prepare_sides, together
from runner.runs.report import Report
from runner.runs.run import Run
from runner.runs.store_references import prepare
from sandboxes.base import SandboxConfig

__all__ = ["Report", "check_examples", "evaluate", "parity", "stream", "write_report"]

T = TypeVar("T")


@with_settings("evaluate", RunOptions)
def evaluate(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    output: Path | Sequence[Path] = (),
    report: Path | Sequence[Path] = (),
    resume: bool = False,
    overwrite: bool = False,
    save: bool = False,
    progress: bool = True,
    **settings: Unpack[RunOptions],
) -> Report:
    """
    Score a dataset with an evaluator, and wait for all results.

    Args:
        evaluator: A script's path, a template's name, a function or an `Evaluator`; `polite@3` is one of the store. Of
            a function, its source and that of what it uses in its file become the script.
        dataset: A path, `demo`, a data frame or rows, which are read in another thread; `store:rows` is one of the
            store. A pattern of several files is scored in parts: `output` is a folder, and the report has no results.
        {settings}
        output: One or several results files, or a folder: `run/`, or a Path without a suffix.
        report: One or several reports; the suffix decides: .html, .md, .xml (JUnit) or .codequality.json (GitLab).
        resume: The run in the folder goes on after its last whole row, if it is the same run; `limit` may be greater.
        overwrite: Rows of another run in the folder are replaced.
        save: The run goes to the store, with the columns that the evaluator is given.
        progress: In a notebook a bar shows how far it is.

    Works inside a running event loop. In a notebook, interrupting the cell stops the scripts. The summary has the
    results of all gates, and the report a `comparison` with the `baseline`.

    An error in a row is in that row's result. Raises InputError for a script, dataset, mapping or gate that cannot be
    used, UnsupportedConfigError for what a sandbox cannot do, SandboxError when the sandbox fails, and WriteError if
    results cannot be written; rows that were written before stay in the files. Raises FailedRowsError, with the
    `report` so far, once more than 50 of the first 100 rows failed for one cause, unless `max_failed` allows them.
    """
    given = _flat(locals())
    request, data = make_request(evaluator, dataset, **settings)
    files, reports = ([one] if isinstance(one, str | os.PathLike) else one for one in (output, report))
    written, reported = [results_path(file) for file in files], [os.fspath(file) for file in reports]
    if request.dataset is not None and is_pattern(request.dataset):
        from runner.runs.parts.run import PartsRun  # here: most datasets are one file

        with with_whole_call(evaluate, given):
            prepared = replace(prepare(request.model_copy(update={"on": None})), request=request)
            parts = PartsRun(prepared, files=written, reports=reported, resume=resume, overwrite=overwrite, save=save)
            with parts.open():
                return finish(parts, score=parts.score)
    run = Run(
        prepare(request, save=save), files=written, reports=reported, resume=resume, overwrite=overwrite, save=save
    )
    opened = ExitStack()
    with with_whole_call(evaluate, given):
        opened.enter_context(run.open(data))
    with opened:
        return finish(run, progress)


def finish(run: BaseRun, progress: bool = True, score: Callable[[], Coroutine[Any, Any, None]] | None = None) -> Report:
    """
    Wait for all results of a run whose dataset is open; one in parts has its own `score`, and keeps no results here.

    Raises what `evaluate` does.
    """
    results: list[Result] = []

    async def collect() -> None:
        assert isinstance(run, Run)
        async with aclosing(run.grouped_results()) as groups:
            async for group in groups:
                results.extend(group)
                if bar is not None:
                    bar.add(group)

    bar = NotebookBar(run.total()) if progress and score is None and in_notebook() else None
    try:
        wait(score or collect, bar)
    except BaseException as e:
        how: State = "failed" if isinstance(e, Exception) else "interrupted"
        if bar is not None:
            bar.end(how)
        run.end(how, str(e) or None)
        if isinstance(e, FailedRowsError):
            e.report = _report(run, results, run.summary("failed"))
        raise
    if bar is not None:
        bar.end()
    run.end("finished")
    return _report(run, results, run.summary())


def _report(run: BaseRun, results: list[Result], summary: Summary) -> Report:
    made = None if run.baseline is None else run.baseline.comparison
    return Report(results=results, summary=summary, shown=run.shown(), comparison=made, notes=tuple(run.notes))


@with_settings("stream", RowOptions)
async def stream(
    evaluator: Scorer, dataset: Path | Rows, **settings: Unpack[RowOptions]
) -> AsyncGenerator[Result, None]:
    """
    Yield each result as it comes, in the dataset's order. Opens and closes the sandbox.

    To stop early, close the generator (`contextlib.aclosing`) or cancel the task: the caller goes on only after
    everything is cleaned up, even if it is cancelled again. A generator that is not closed is closed by the event loop
    some time later, at the latest by `asyncio.run` when it ends.

    The parameters and exceptions are those of `evaluate`.
    """
    given = _flat(locals())
    request, data = make_request(evaluator, dataset, **settings)
    run = Run(prepare(request), whole=False)

    async def results() -> AsyncGenerator[Result, None]:
        with ExitStack() as stack:
            with with_whole_call(stream, given):
                # In a thread: the rows, of which the first is looked at, may wait for something in the caller's loop.
                await DaemonCall(lambda: stack.enter_context(run.open(data)), "evalcell-dataset").get()
            async with aclosing(run.results()) as found:
                async for result in found:
                    yield result

    reading = Reading(results())
    try:
        while (result := await reading.next()) is not None:
            yield result
    finally:
        await reading.end()


@with_settings("check_examples", ExampleOptions)
def check_examples(
    evaluator: Scorer,
    examples: Path | Rows | Sequence[Example] | None = None,
    **settings: Unpack[ExampleOptions],
) -> ExamplesReport:
    """
    Try an evaluator on worked examples, which are rows with an `expected`, and wait for all of them.

    `examples` is a JSON Lines file, rows, or examples that were read; without it, what `find_examples` finds beside a
    script or in a template. The other parameters are those of `evaluate`. All examples passed if the report's `failed`
    and `lost` are 0. Raises ExamplesError for examples that cannot be used, and what `evaluate` does.
    """
    held = _examples(examples)
    # A template's own examples may need files, which come with the template.
    own: Any = "cases" if held or examples is None else examples
    request, rows = make_request(evaluator, own, **settings)
    if held:
        every = held
    elif rows is not None:
        every = examples_from_rows(rows)
    else:
        every = read_examples(find_examples(request.evaluator) if examples is None else own)
    prepared, fitting = prepare_examples(request, every)

    async def collect() -> list[ExampleResult]:
        async with prepared.sandbox as opened, aclosing(run_examples(prepared, fitting, opened)) as found:
            return [result async for result in found]

    return report(prepared, wait(collect) if fitting else [], len(every) - len(fitting))


@with_settings("parity", ParityOptions)
def parity(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandboxes: Sequence[str | SandboxConfig] = (),
    other: Scorer | None = None,
    twice: bool = False,
    tolerance: float = TOLERANCE,
    **settings: Unpack[ParityOptions],
) -> Parity:
    """
    Run one dataset in several sandboxes, and report the rows that differ.

    In each sandbox a template runs in the first of its languages that the sandbox supports. With `other`, the first
    sandbox runs `evaluator` and the last one runs `other`. With `twice` one sandbox runs `evaluator` two times.
    `dataset` may also be `demo`, or `cases` for the evaluator's worked examples. The other parameters and the
    exceptions are those of `evaluate`.
    """
    given = _flat(locals())
    language = settings.pop("language", None)
    request, data = make_request(evaluator, dataset, **settings)
    second = None if other is None else scorer(other, request.sandbox)
    sides = prepare_sides(request, sandboxes, second, language, twice=twice)
    with with_whole_call(parity, given):
        cases = open_cases(request, data, sides)
    tally = ParityTally(sides, tolerance)

    async def collect() -> None:
        async with aclosing(together(sides, cases)) as compared:
            async for row in compared:
                tally.add(row)

    wait(collect)
    return tally.report()


def write_report(
    runs: Path | Sequence[Path], report: Path | Sequence[Path], *, compare: bool = False, tolerance: float = 0.0
) -> None:
    """
    Write reports of finished runs: results files, or folders that runs have written.

    `report` is one or several files, as in `evaluate`. With `compare`, `runs` are a base and a new run: the report is
    of their comparison, where a mean that is worse by up to `tolerance` is no worse, and of the new run. Rows have
    their texts if the results carry them (`keep`). Raises InputError for what is no run, OutputError for a path that
    cannot be written, and WriteError where there is no room.
    """
    from runner.results.reports.files import ReportFiles
    from runner.results.reports.runs import read_parts

    paths, files = ([given] if isinstance(given, str | os.PathLike) else list(given) for given in (runs, report))
    made = ReportFiles([os.fspath(file) for file in files], inputs=[os.fspath(path) for path in paths])
    parts = read_parts(
        paths, compare=compare, tolerance=tolerance, worst=made.rows, failed=made.failed, listed=made.listed
    )
    made.write(parts)


def _flat(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, its settings among them."""
    given: dict[str, Any] = {name: value for name, value in arguments.items() if name != "settings"}
    return {**given, **arguments["settings"]}


def _examples(given: object) -> tuple[Example, ...]:
    """The examples, if they were read before; else none."""
    some = given if isinstance(given, list | tuple) else ()
    return tuple(some) if all(isinstance(one, Example) for one in some) else ()
