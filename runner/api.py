"""
The Python API: `evaluate` waits for all results, `stream` yields each result as it comes.

`check_examples` tries worked examples, `parity` runs one dataset in several sandboxes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import ExitStack, aclosing
from typing import Any, TypeVar

from runner.call import with_whole_call
from runner.comparison import Parity, ParityTally, open_cases, prepare_sides, together
from runner.engine.threads import Detached
from runner.examples.check import ExampleResult, ExamplesReport, prepare_examples, report, run_examples
from runner.examples.load import Example, examples_from_rows, find_examples, read_examples
from runner.request import Columns, Path, Rows, Scorer, make_request, prepare, scorer
from runner.results.diff import TOLERANCE
from runner.results.summary import Summary
from runner.results.worst import WORST, Show, ShownRows
from runner.run import Run
from runner.types import Result
from sandboxes.base import Language, Limits, Model, SandboxConfig

T = TypeVar("T")


class Report(Model):
    """All results of a dataset, in its order, and their summary."""

    results: list[Result]
    summary: Summary
    shown: ShownRows = ShownRows()
    """The rows to look at first: the worst, or what `show` says."""

    def __repr__(self) -> str:
        """The counts and the mean: all results may be very many."""
        summary = self.summary
        mean = "" if summary.mean is None else f", mean {summary.mean:.6g}"
        return f"<Report {summary.evaluator}: {summary.rows:,} rows, {summary.scored:,} scored{mean}>"

    __str__ = __repr__

    def to_pandas(self) -> Any:
        """
        The results as a pandas data frame, one row each, in the dataset's order.

        The columns are those of a `.csv` results file; what `keep` carries is after them. Raises InputError without
        pandas.
        """
        return self._frame("to_pandas")

    def to_polars(self) -> Any:
        """As `to_pandas`, with polars. Values of different types in one column are JSON."""
        return self._frame("to_polars")

    def to_arrow(self) -> Any:
        """As `to_polars`, as a pyarrow table."""
        return self._frame("to_arrow")

    def _frame(self, kind: str) -> Any:
        from runner.output import frames

        return getattr(frames, kind)(self.results, tuple(self.summary.outputs))


def evaluate(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    language: Language | None = None,
    limit: int | None = None,
    id: str | None = None,
    keep: str | Sequence[str] = (),
    worst: int = WORST,
    show: Show = "worst",
    output: Path | Sequence[Path] = (),
    gates: Sequence[str] = (),
    max_failed: str | None = None,
) -> Report:
    """
    Score a dataset with an evaluator, and wait for all results.

    `evaluator` is a path, a template's name, a function or an `Evaluator`; `language` selects one of a template's
    languages. Of a function, its source and that of what it uses in its file become the script. `dataset` is a path,
    `demo`, a data frame or rows, which are read in another thread. `limit` is the number of rows to score. `id` is the
    column with their ids. `keep` are columns that each result carries in its `row`, or `all`. `sandbox` is a backend's
    name or a config, whose packages are added to the script's own; without a backend, the one that fits is chosen.
    `mapping`, such as `{"output": "prediction"}`, names columns or paths for parameters, over the script's own. `seed`
    makes the script's random numbers repeat. `output` is one or several results files, or a folder: `run/`, or a Path
    without a suffix. The report shows the `worst` rows with their texts, or others by `show`. The summary says how
    `gates`, such as `mean<0.8`, and `max_failed`, such as `5%`, went. Works inside a running event loop.

    An error in a row is in that row's result. Raises InputError for a script, dataset, mapping or gate that cannot be
    used, UnsupportedConfigError for what a sandbox cannot do, SandboxError when the sandbox fails, and WriteError if
    results cannot be written; rows that were written before stay in the files.
    """
    given = dict(locals()) | {"worst": None if worst == WORST else worst, "show": None if show == "worst" else show}
    request, rows = make_request(
        evaluator,
        dataset,
        sandbox=sandbox,
        limits=limits,
        mapping=mapping,
        seed=seed,
        language=language,
        limit=limit,
        id=id,
        keep=keep,
        worst=worst,
        show=show,
        gates=tuple(gates),
        max_failed=max_failed,
    )
    files = [output] if isinstance(output, str | os.PathLike) else output
    run = Run(prepare(request), files=[_results(file) for file in files])

    async def collect() -> list[Result]:
        async with aclosing(run.results()) as found:
            return [result async for result in found]

    with ExitStack() as stack:
        with with_whole_call("evaluate", given):
            stack.enter_context(run.open(rows))
        try:
            results = _wait(collect)
        except BaseException as e:
            run.end("failed" if isinstance(e, Exception) else "interrupted", str(e) or None)
            raise
        run.end("finished")
    return Report(results=results, summary=run.summary(), shown=run.shown())


async def stream(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    language: Language | None = None,
    id: str | None = None,
    keep: str | Sequence[str] = (),
) -> AsyncGenerator[Result, None]:
    """
    Yield each result as it comes, in the dataset's order. Opens and closes the sandbox.

    To stop early, close the generator (`contextlib.aclosing`) or cancel the task: the caller goes on only after
    everything is cleaned up, even if it is cancelled again. A generator that is not closed is closed by the event loop
    some time later.

    The parameters and exceptions are those of `evaluate`.
    """
    given = dict(locals())
    request, rows = make_request(
        evaluator,
        dataset,
        sandbox=sandbox,
        limits=limits,
        mapping=mapping,
        seed=seed,
        language=language,
        id=id,
        keep=keep,
    )
    run = Run(prepare(request))
    with ExitStack() as stack:
        with with_whole_call("stream", given):
            # In a thread: the rows, of which the first is looked at, may wait for something in the caller's loop.
            await Detached(lambda: stack.enter_context(run.open(rows)), "evalcell-dataset").get()
        async with aclosing(run.results()) as found:
            async for result in found:
                yield result


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

    return report(prepared, _wait(collect) if fitting else [], len(every) - len(fitting))


def parity(
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    sandboxes: Sequence[str | SandboxConfig] = (),
    other: Scorer | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    limit: int | None = None,
    id: str | None = None,
    tolerance: float = TOLERANCE,
    language: Language | None = None,
) -> Parity:
    """
    Run one dataset in several sandboxes, and report the rows that differ.

    In each sandbox a template runs in the first of its languages that the sandbox supports. With `other`, the first
    sandbox runs `evaluator` and the last one runs `other`. `dataset` may also be `demo`, or `cases` for the
    evaluator's worked examples. The other parameters and the exceptions are those of `evaluate`.
    """
    given = dict(locals())
    request, rows = make_request(evaluator, dataset, limits=limits, mapping=mapping, seed=seed, limit=limit, id=id)
    second = None if other is None else scorer(other, request.sandbox)
    sides = prepare_sides(request, sandboxes, second, language)
    with with_whole_call("parity", given | {"tolerance": None if tolerance == TOLERANCE else tolerance}):
        cases = open_cases(request, rows, sides)
    tally = ParityTally(sides, tolerance)

    async def collect() -> None:
        async with aclosing(together(sides, cases)) as compared:
            async for row in compared:
                tally.add(row)

    _wait(collect)
    return tally.report()


def _results(path: Path) -> str:
    """The path as `-o` takes it. A Path cannot end with a separator, so one without a suffix is a folder."""
    name = os.fspath(path)
    return name if isinstance(path, str) or os.path.splitext(name)[1] else os.path.join(name, "")


def _examples(given: object) -> tuple[Example, ...]:
    """Examples that were read before, if they are that."""
    some = given if isinstance(given, list | tuple) else ()
    return tuple(some) if all(isinstance(one, Example) for one in some) else ()


def _wait(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run in a new event loop; if one is running, as in a notebook, then in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal(name="evalcell-evaluate") as portal:
        result: T = portal.call(work)
        return result
