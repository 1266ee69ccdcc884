"""
The Python API: `evaluate` waits for all results, `stream` yields each result as it comes.

`check_examples` tries worked examples, `parity` runs one dataset in several sandboxes.
`write_report` makes reports of finished runs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from typing import Any, TypeVar

from runner.core.errors import FailedRowsError
from runner.core.types import DialectFailures, Result
from runner.engine.aggregate import TIMEOUT as AGGREGATE_TIMEOUT
from runner.engine.arguments import make_request, results_path, scorer
from runner.engine.reading import Reading
from runner.engine.request import Path, Rows, Scorer
from runner.engine.scoring.diff import TOLERANCE
from runner.engine.scoring.summary import Summary
from runner.engine.scoring.worst import WORST, Show
from runner.engine.threads import Detached
from runner.inputs.call import Columns, with_whole_call
from runner.inputs.datasets.location import is_pattern
from runner.inputs.datasets.rows import Empty
from runner.results.notebook.progress import NotebookBar, in_notebook
from runner.results.notebook.waiting import wait
from runner.results.output.manifest import State
from runner.runs.examples.check import ExampleResult, ExamplesReport, prepare_examples, report, run_examples
from runner.runs.examples.load import Example, examples_from_rows, find_examples, read_examples
from runner.runs.parity import Parity, ParityTally, open_cases, prepare_sides, together
from runner.runs.report import Report
from runner.runs.run import Run
from runner.runs.stored import prepare
from sandboxes.base import Language, Limits, SandboxConfig

__all__ = ["Report", "check_examples", "evaluate", "parity", "stream", "write_report"]

T = TypeVar("T")


def evaluate(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandbox: str | SandboxConfig | None = None,
    on: str | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    repeat: int = 1,
    cache: bool = False,
    language: Language | None = None,
    dialect: str | None = None,
    entry: str | None = None,
    dialect_failures: DialectFailures = "failed",
    limit: int | None = None,
    id: str | None = None,
    encoding: str | None = None,
    rows: str | None = None,
    empty: Empty = "text",
    json_columns: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    worst: int = WORST,
    show: Show = "worst",
    output: Path | Sequence[Path] = (),
    report: Path | Sequence[Path] = (),
    resume: bool = False,
    overwrite: bool = False,
    save: bool = False,
    require: Sequence[str] = (),
    gates: Sequence[str] = (),
    max_failed: int | str | None = None,
    max_abstained: int | str | None = None,
    baseline: Path | None = None,
    fail_if_worse: float | None = None,
    allow_inconclusive: bool = False,
    aggregate_timeout: float = AGGREGATE_TIMEOUT,
    progress: bool = True,
) -> Report:
    """
    Score a dataset with an evaluator, and wait for all results.

    `evaluator` is a path, a template's name, a function or an `Evaluator`; `language` selects one of a template's
    languages. Of a function, its source and that of what it uses in its file become the script. Where a script of
    another tool could be several, `dialect` names the tool, and `entry` its function; `dialect_failures="as-zero"`
    makes its exceptions the score 0, where that tool does so. `dataset` is a path,
    `demo`, a data frame or rows, which are read in another thread. A text file has this `encoding`, by default UTF-8;
    `rows` is the place of the rows in a JSON file that is no array, as a path: `data`;
    an `empty` cell of CSV is text or null. `json_columns` are those whose texts are JSON, such as lists in CSV. A
    pattern of several files is scored in parts: `output` is a folder, and the
    report has no results. `limit` is the number of rows to score. `id` is the column with their ids.
    `keep` are columns that each result carries in its `row`, or `all`. `sandbox` is a backend's name or a config, whose
    packages are added to the script's own; without a backend, the one that fits is chosen. `on` is a Ray cluster whose
    workers open that sandbox: `ray`, or `ray://HOST:10001`. `mapping`, such as
    `{"output": "prediction"}`, names columns or paths for parameters, over the script's own. `seed` makes the script's
    random numbers repeat. Each row is scored `repeat` times, and averaged in the summary. With `cache` scores of
    earlier runs are taken, and those of this one are kept. `output` is one or several results files, or a folder:
    `run/`, or a Path without a suffix. `report` is one or several files for reports, whose suffix decides: .html, .md,
    .xml (JUnit) or .codequality.json (GitLab). With `resume` the run in that folder goes on after its last whole row,
    if it is the same run, also with a greater `limit`. Only with `overwrite` are rows of another run there replaced.
    With `save` the run goes to the store, with the columns that the evaluator is given;
    `polite@3` is an evaluator of the store, and `store:rows` a dataset of it. The report shows the `worst` rows with
    their texts, or others by `show`. The summary has the results of all gates: those in `require` must be true, such as
    `mean>=0.8`, those in `gates` must not, such as `mean<0.8`. `max_failed` and `max_abstained` bound rows, such as
    `5%`. `aggregate_timeout` bounds the script's `aggregate`, in seconds. The report's `comparison` is with the
    `baseline`, a results file or a run's folder; `fail_if_worse` is the gate on it: by how much the mean may be worse.
    `allow_inconclusive`: it passes without enough evidence, too. Works inside a running event loop. In a notebook
    `progress` shows a bar; interrupting the cell stops the scripts.

    An error in a row is in that row's result. Raises InputError for a script, dataset, mapping or gate that cannot be
    used, UnsupportedConfigError for what a sandbox cannot do, SandboxError when the sandbox fails, and WriteError if
    results cannot be written; rows that were written before stay in the files. Raises FailedRowsError, with the
    `report` so far, once more than 50 of the first 100 rows failed for one cause, unless `max_failed` allows them.
    """
    given = dict(locals())
    request, data = make_request(**_without(given, "output", "resume", "overwrite", "save", "report", "progress"))
    files, reports = ([given] if isinstance(given, str | os.PathLike) else given for given in (output, report))
    written, reported = [results_path(file) for file in files], [os.fspath(file) for file in reports]
    if request.dataset is not None and is_pattern(request.dataset):
        from runner.runs.api.parts import evaluate_parts  # here: most datasets are one file

        with with_whole_call(evaluate, given):
            return evaluate_parts(
                request, files=written, reports=reported, resume=resume, overwrite=overwrite, save=save
            )
    run = Run(
        prepare(request, save=save), files=written, reports=reported, resume=resume, overwrite=overwrite, save=save
    )
    opened = ExitStack()
    with with_whole_call(evaluate, given):
        opened.enter_context(run.open(data))
    with opened:
        return finish(run, progress)


def finish(run: Run, progress: bool = True) -> Report:
    """Wait for all results of a run whose dataset is open. Raises what `evaluate` does."""
    results: list[Result] = []

    async def collect() -> None:
        async with aclosing(run.grouped_results()) as groups:
            async for group in groups:
                results.extend(group)
                if bar is not None:
                    for result in group:
                        bar.add(result)

    bar = NotebookBar(run.total()) if progress and in_notebook() else None
    try:
        wait(collect, bar)
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


def _report(run: Run, results: list[Result], summary: Summary) -> Report:
    made = None if run.baseline is None else run.baseline.comparison
    return Report(results=results, summary=summary, shown=run.shown(), comparison=made, notes=tuple(run.notes))


async def stream(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandbox: str | SandboxConfig | None = None,
    on: str | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    repeat: int = 1,
    cache: bool = False,
    language: Language | None = None,
    dialect: str | None = None,
    entry: str | None = None,
    dialect_failures: DialectFailures = "failed",
    id: str | None = None,
    encoding: str | None = None,
    rows: str | None = None,
    empty: Empty = "text",
    json_columns: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
) -> AsyncGenerator[Result, None]:
    """
    Yield each result as it comes, in the dataset's order. Opens and closes the sandbox.

    To stop early, close the generator (`contextlib.aclosing`) or cancel the task: the caller goes on only after
    everything is cleaned up, even if it is cancelled again. A generator that is not closed is closed by the event loop
    some time later, at the latest by `asyncio.run` when it ends.

    The parameters and exceptions are those of `evaluate`.
    """
    given = dict(locals())
    request, data = make_request(**given)
    run = Run(prepare(request), whole=False)

    async def results() -> AsyncGenerator[Result, None]:
        with ExitStack() as stack:
            with with_whole_call(stream, given):
                # In a thread: the rows, of which the first is looked at, may wait for something in the caller's loop.
                await Detached(lambda: stack.enter_context(run.open(data)), "evalcell-dataset").get()
            async with aclosing(run.results()) as found:
                async for result in found:
                    yield result

    reading = Reading(results())
    try:
        while (result := await reading.next()) is not None:
            yield result
    finally:
        await reading.end()


def check_examples(
    evaluator: Scorer,
    examples: Path | Rows | Sequence[Example] | None = None,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    language: Language | None = None,
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
    request, rows = make_request(evaluator, own, sandbox=sandbox, limits=limits, mapping=mapping, language=language)
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


def parity(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandboxes: Sequence[str | SandboxConfig] = (),
    other: Scorer | None = None,
    twice: bool = False,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    limit: int | None = None,
    id: str | None = None,
    encoding: str | None = None,
    rows: str | None = None,
    empty: Empty = "text",
    json_columns: str | Sequence[str] = (),
    tolerance: float = TOLERANCE,
    language: Language | None = None,
) -> Parity:
    """
    Run one dataset in several sandboxes, and report the rows that differ.

    In each sandbox a template runs in the first of its languages that the sandbox supports. With `other`, the first
    sandbox runs `evaluator` and the last one runs `other`. With `twice` one sandbox runs `evaluator` two times.
    `dataset` may also be `demo`, or `cases` for the evaluator's worked examples. The other parameters and the
    exceptions are those of `evaluate`.
    """
    given = dict(locals())
    request, data = make_request(**_without(given, "sandboxes", "other", "twice", "tolerance", "language"))
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


def _without(arguments: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def _examples(given: object) -> tuple[Example, ...]:
    """The examples, if they were read before; else none."""
    some = given if isinstance(given, list | tuple) else ()
    return tuple(some) if all(isinstance(one, Example) for one in some) else ()
