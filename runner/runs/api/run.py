"""
The Python API: `evaluate` waits for all results, `stream` yields each result as it comes.

`check_examples` tries worked examples, `parity` runs one dataset in several sandboxes.
`write_report` makes reports of finished runs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack

from runner.core.errors import FailedRowsError
from runner.core.settings import AuditedOptions, ExampleOptions, ParityOptions, RunOptions, StreamOptions
from runner.core.signature import with_settings
from runner.core.types import Result
from runner.engine.arguments import make_request, results_path, scorer
from runner.engine.reading import Reading
from runner.engine.request import Path, Rows, Scorer
from runner.engine.scoring.diff import TOLERANCE
from runner.engine.scoring.overview import usage_words
from runner.engine.scoring.summary import ModelUsage, Summary
from runner.engine.threads import DaemonCall
from runner.inputs.call import with_whole_call
from runner.inputs.datasets.location import is_pattern
from runner.results.notebook.progress import NotebookBar, in_notebook
from runner.results.notebook.waiting import wait
from runner.results.output.manifest import State
from runner.runs.audit.audit import EvaluatorAudit
from runner.runs.audit.report import audit_files
from runner.runs.audit.types import Audit, AuditOptions
from runner.runs.base import BaseRun
from runner.runs.examples.check import ExampleResult, ExamplesReport, prepare_examples, report, run_examples
from runner.runs.examples.load import Example, any_examples, examples_from_rows, find_examples, read_examples
from runner.runs.parity import Parity, ParityTally, open_cases, prepare_sides, together
from runner.runs.report import Report
from runner.runs.run import Run
from runner.runs.store_references import prepare
from runner.runs.verify import Verification, open_verification
from sandboxes.base import LOG, SandboxConfig

__all__ = ["Report", "audit", "check_examples", "evaluate", "parity", "stream", "verify", "write_report"]

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

    Works inside a running event loop. In a notebook, interrupting the cell stops the scripts. An error in a row is in
    that row's result. Rows that were written before an exception stay in the files.

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

    Returns:
        All results in the dataset's order, a summary with the results of all gates, and a `comparison` with the
        `baseline`.

    Raises:
        InputError: A script, dataset, mapping or gate cannot be used.
        UnsupportedConfigError: The sandbox cannot do what the settings ask for.
        SandboxError: The sandbox failed.
        WriteError: Results cannot be written.
        FailedRowsError: More than 50 of the first 100 rows failed for one cause, and `max_failed` does not allow them.
            It has the `report` so far.

    Example:
        >>> from evalcell import evaluate
        >>> rows = [{"output": "4", "reference": "4"}, {"output": "5", "reference": "4"}]
        >>> report = evaluate("exact-match", rows)
        >>> report.summary.mean
        0.5
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
    Wait for all results of a run whose dataset is open.

    Args:
        run: One in parts keeps no results here.
        progress: Show a bar in a notebook.
        score: Scores a run in parts.

    Raises:
        InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.
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


@with_settings("stream", StreamOptions)
async def stream(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    on_summary: Callable[[Summary], object] | None = None,
    **settings: Unpack[StreamOptions],
) -> AsyncGenerator[Result, None]:
    """
    Yield each result as it comes, in the dataset's order; with `stop_when_sure` in random order.

    It opens and closes the sandbox. To stop early, close the generator (`contextlib.aclosing`) or cancel the task: the
    caller goes on only after everything is cleaned up, even if it is cancelled again. A generator that is not closed is
    closed by the event loop some time later, at the latest by `asyncio.run` when it ends.

    Args:
        evaluator: As in `evaluate`.
        dataset: As in `evaluate`, but for patterns of several files.
        on_summary: Called with the summary, its gates judged, after the last result.
        **settings: As in `evaluate`.

    Raises:
        InputError, UnsupportedConfigError, SandboxError, FailedRowsError: As in `evaluate`.

    Example:
        >>> import asyncio
        >>> from evalcell import stream
        >>> async def scores(rows):
        ...     return [result.score async for result in stream("exact-match", rows)]
        >>> asyncio.run(scores([{"output": "4", "reference": "4"}, {"output": "5", "reference": "4"}]))
        [1.0, 0.0]
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
            if on_summary is not None:
                on_summary(run.summary())

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

    Args:
        evaluator: As in `evaluate`.
        examples: A JSON Lines file, rows, or examples that were read. None: those beside a script or in a template,
            which `find_examples` finds.
        **settings: As in `evaluate`.

    Returns:
        The result of each example. All passed if its `failed` and `lost` are 0.

    Raises:
        ExamplesError: The examples cannot be used.
        InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.

    Example:
        >>> from evalcell import check_examples
        >>> report = check_examples("exact-match")
        >>> report.failed, report.lost
        (0, 0)
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

    In each sandbox a template runs in the first of its languages that the sandbox supports.

    Args:
        evaluator: As in `evaluate`.
        dataset: As in `evaluate`, or `cases` for the evaluator's worked examples.
        sandboxes: Names of backends, or configs.
        other: The last sandbox runs this evaluator, and the first one runs `evaluator`.
        twice: One sandbox runs `evaluator` two times.
        tolerance: The difference of two scores up to which they are the same.
        **settings: As in `evaluate`.

    Raises:
        InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.

    Example:
        >>> from evalcell import parity
        >>> found = parity("exact-match", "cases", sandboxes=["wasm"], twice=True)
        >>> found.different, found.lost
        (0, 0)
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


@with_settings("audit", AuditedOptions)
def audit(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    examples: Path | Iterable[Mapping[str, Any]] | None = None,
    require: Sequence[str] = (),
    sample: int | None = None,
    allow: Sequence[str] = (),
    mutants: int | None = None,
    labels: str | None = None,
    right: str | None = None,
    cluster: str | None = None,
    report: Path | Sequence[Path] = (),
    **settings: Unpack[AuditedOptions],
) -> Audit:
    """
    Tell what an evaluator gets wrong: outputs are planted in rows, and their scores say.

    A right answer must score best, and a wrong one must not. Changes of the script must be noticed by its worked
    examples, and people must agree with it; docs/how-to/audit.md has the checks. What judges will be asked at
    most is logged after the first call that asks one, and stands in `foreseen`.

    Args:
        evaluator: As in `evaluate`.
        dataset: As in `evaluate`; its rows need a reference.
        examples: Its worked examples, as in `check_examples`.
        require: What it must reach: `killed>=0.9`, `kappa>=0.6`, `tnr>=0.95`.
        sample: How many of the rows outputs are planted in. None: 60, or 5 where a judge is asked.
        allow: Ids of findings that are known, such as `wrong.empty`.
        mutants: How many changes of the script are tried. None: 100, or none where a judge is asked.
        labels: A column with what people say of each output.
        right: The label that means right, where words do not say.
        cluster: A column; rows with the same value in it are not independent.
        report: Files to write what was found to: .html, .md or .xml.
        **settings: As in `evaluate`.

    Raises:
        InputError: Nothing can be planted, the budget for judges is too small, or as in `evaluate`.
        UnsupportedConfigError, SandboxError: As in `evaluate`.
        OutputError: A report cannot be written.

    Example:
        >>> from evalcell import audit
        >>> rows = [{"output": "4", "reference": str(n)} for n in range(9)]
        >>> [check.id for check in audit("exact-match", rows, mutants=0).findings]
        []
    """
    request, data = make_request(evaluator, dataset, **settings)
    worked = None if examples is None else any_examples(examples)
    files = audit_files((report,) if isinstance(report, str | os.PathLike) else report)
    options = AuditOptions(
        sample=sample, allow=tuple(allow), mutants=mutants, labels=labels, right=right, cluster=cluster
    )
    required = request.model_copy(update={"require": tuple(require)})
    work = EvaluatorAudit(required, options, data=data, examples=worked)

    def tell(cost: ModelUsage) -> None:
        LOG.info("judges will be asked for about %s, by the first call", usage_words(cost))

    wait(partial(work.score, tell=tell))
    found = work.report()
    files.write(found)
    return found


def verify(
    run: Path, *, sample: int | str = 100, dataset: Path | None = None, same_rights: bool = False
) -> Verification:
    """
    Run rows of a finished run again, from what its folder or the store holds, and tell whether they give the same.

    The digest of the results chooses the rows. `statement()` of what is returned is an in-toto statement.

    Args:
        run: A folder that `output` has written, or a run of the store by its id, or `latest`.
        sample: How many rows, or what share of them: `1%`.
        dataset: Where the dataset is now, if it was moved.
        same_rights: Give the script what the run gave it, such as the network or variables. Whoever made the folder
            wrote down what that is: for folders of your own.

    Raises:
        NotComparableError: The script, the dataset or the results are not what the run had.
        InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.

    Example:
        >>> from pathlib import Path
        >>> from evalcell import evaluate, verify
        >>> _ = Path("rows.csv").write_text("id,output,reference\\n1,4,4\\n2,5,4\\n")
        >>> _ = evaluate("exact-match", "rows.csv", output="run/")
        >>> verify("run/").equal
        2
    """
    with open_verification(run, str(sample), None if dataset is None else os.fspath(dataset), same_rights) as work:

        async def score() -> None:
            async with aclosing(work.score()) as found:
                async for _ in found:
                    pass

        wait(score)
        return work.report()


def write_report(
    runs: Path | Sequence[Path],
    report: Path | Sequence[Path],
    *,
    compare: bool = False,
    tolerance: float = 0.0,
    by: str | None = None,
) -> None:
    """
    Write reports of finished runs.

    Rows have their texts if the results carry them (`keep`).

    Args:
        runs: One or several results files, or folders that runs have written.
        report: One or several files, as in `evaluate`.
        compare: `runs` are a base and a new run: the report is of their comparison, and of the new run.
        tolerance: With `compare`, a mean that is worse by up to this is no worse.
        by: A column that the results carry, for whose values there are figures of their own.

    Raises:
        InputError: One of `runs` is no run, or does not carry the column.
        OutputError: A path cannot be written.
        WriteError: There is no room.

    Example:
        >>> from evalcell import evaluate, write_report
        >>> _ = evaluate("exact-match", [{"output": "4", "reference": "4"}], output="run/")
        >>> write_report("run/", "run.html")
    """
    from runner.results.reports.files import ReportFiles
    from runner.results.reports.runs import read_parts

    paths, files = ([given] if isinstance(given, str | os.PathLike) else list(given) for given in (runs, report))
    made = ReportFiles([os.fspath(file) for file in files], inputs=[os.fspath(path) for path in paths])
    parts = read_parts(
        paths, compare=compare, tolerance=tolerance, worst=made.rows, failed=made.failed, listed=made.listed, by=by
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
