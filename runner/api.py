"""
The doors for Python: `evaluate`, which waits, and `stream`, which gives results as they come.

`check_cases` tries worked examples, `compare` runs one dataset in several sandboxes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar

from runner.compare import Comparison, Parity, Side, open_cases, pair, together
from runner.datasets.dataset import cases_from_rows, open_dataset
from runner.engine.local import score
from runner.errors import DatasetError, InputError
from runner.evaluators.mapping import bind
from runner.evaluators.resolve import choose, find_dataset, find_evaluator, find_files
from runner.examples.check import CasesReport, JudgedCase, few, judge, report
from runner.examples.load import WorkedCase, cases_of, find_cases, for_language, read_cases
from runner.results.diff import TOLERANCE
from runner.results.summary import Summary, Tally
from runner.text import shown
from runner.types import Case, Evaluator, InputMapping, Result
from sandboxes.base import Language, Limits, Model, SandboxConfig
from sandboxes.registry import create

T = TypeVar("T")
Path: TypeAlias = str | os.PathLike[str]
Rows: TypeAlias = Iterable[Mapping[str, Any]]


class Report(Model):
    """All results of a dataset, in its order, and their summary."""

    results: list[Result]
    summary: Summary


def evaluate(
    evaluator: Path | Evaluator,
    dataset: Path | Rows,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: InputMapping | None = None,
    seed: int | None = None,
    language: Language | None = None,
) -> Report:
    """
    Scores a dataset with an evaluator and waits for all of it.

    `evaluator` is a path, a template's name or an `Evaluator`; `language` chooses among those of a template.
    `dataset` is a path, `demo`, or rows, which are read in another thread. `sandbox` is a backend's name or a config,
    whose packages are added to the script's own; a backend that is not named is the one that fits. `mapping` goes over
    the script's own. `seed` makes the script's random numbers repeat. Works inside a running event loop.

    What goes wrong in a row is in its result. Raises InputError for a script, dataset or mapping that cannot
    be used, UnsupportedConfigError for what a sandbox cannot do, and SandboxError when the sandbox fails.
    """

    async def collect() -> Report:
        script, config = _chosen(evaluator, sandbox, language, dataset)
        tally, results, began = Tally(script.outputs), [], perf_counter()
        found = stream(script, _named(dataset, evaluator), sandbox=config, limits=limits, mapping=mapping, seed=seed)
        async with aclosing(found):
            async for result in found:
                tally.add(result)
                results.append(result)
        return Report(results=results, summary=tally.summary(perf_counter() - began))

    return _wait(collect())


async def stream(
    evaluator: Path | Evaluator,
    dataset: Path | Rows,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: InputMapping | None = None,
    seed: int | None = None,
    language: Language | None = None,
) -> AsyncGenerator[Result, None]:
    """
    Each result as it comes, in the dataset's order. Opens and closes the sandbox.

    Whoever stops early, by closing it (`contextlib.aclosing`) or by being cancelled, in whatever way and however often,
    goes on when nothing of it is left. One that is only forgotten is closed by the event loop, some time later.

    Takes and raises what `evaluate` does.
    """
    script, config = _chosen(evaluator, sandbox, language, dataset)
    _refuse(limits, mapping)
    with _cases(_named(dataset, evaluator), bind(script, mapping).columns) as cases:
        async with create(config) as opened:
            found = score(script, cases, opened, limits=limits, mapping=mapping, seed=seed)
            async with aclosing(found):
                async for result in found:
                    yield result


def check_cases(
    evaluator: Path | Evaluator,
    cases: Path | Rows | None = None,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: InputMapping | None = None,
    language: Language | None = None,
) -> CasesReport:
    """
    Tries an evaluator on worked examples, rows with an `expected`, and waits for all of them.

    `cases` is a JSON Lines file, or rows; without it, what `find_cases` finds beside a script or in a template. The
    rest is as in `evaluate`. All went well where the report's `failed` and `lost` are 0. Raises CasesError for cases
    that cannot be tried, and what `evaluate` does.
    """
    script, config = _chosen(evaluator, sandbox, language, "cases" if cases is None else cases)
    _refuse(limits, mapping)
    every = _worked(evaluator, cases)
    worked = for_language(every, script.language)
    opened = create(config if config.jobs else config.model_copy(update={"jobs": few(worked)}))

    async def collect() -> list[JudgedCase]:
        async with opened, aclosing(judge(script, worked, opened, limits=limits, mapping=mapping)) as judged:
            return [case async for case in judged]

    return report(script, opened, _wait(collect()) if worked else [], len(every) - len(worked))


def compare(
    evaluator: Path | Evaluator,
    dataset: Path | Rows,
    *,
    sandboxes: Sequence[str | SandboxConfig] = (),
    other: Path | Evaluator | None = None,
    limits: Limits | None = None,
    mapping: InputMapping | None = None,
    seed: int | None = None,
    limit: int | None = None,
    tolerance: float = TOLERANCE,
    language: Language | None = None,
) -> Parity:
    """
    Runs one dataset in several sandboxes and tells which rows differ; waits for all of it.

    A template runs in each sandbox in the first of its languages that the sandbox has. With `other`, the first
    sandbox runs `evaluator` and the last one `other`. `dataset` may also be `cases`, the evaluator's worked
    examples, or `demo`; `limit` is a number of rows. The rest is as in `evaluate`, which says what is raised, too.
    """
    _refuse(limits, mapping)
    found = pair(evaluator, other, sandboxes, language)
    files = find_files(dataset, evaluator)
    configs = [choose(script, wanted, files=files).config for script, wanted in found]
    over = mapping or InputMapping()
    sides = [Side(script, create(config), over) for (script, _), config in zip(found, configs, strict=True)]
    cases = open_cases(dataset, evaluator, sides, limit)
    comparison = Comparison(sides, tolerance)

    async def collect() -> None:
        async with aclosing(together(sides, cases, limits=limits, seed=seed)) as rows:
            async for row in rows:
                comparison.add(row)

    _wait(collect())
    return comparison.report()


def _refuse(limits: object, mapping: object) -> None:
    for name, given, kind, example in (
        ("limits", limits, Limits, "Limits(timeout=2)"),
        ("mapping", mapping, InputMapping, 'InputMapping(paths={"output": "metadata.answer"})'),
    ):
        if given is not None and not isinstance(given, kind):
            raise InputError(f"`{name}` must be such as {example}, not {shown(given, 60)}")


def _named(dataset: Path | Rows, evaluator: Path | Evaluator) -> Path | Rows:
    """A path where `demo` is named. Raises DatasetError for one row that is not in a list."""
    if isinstance(dataset, Mapping):
        raise DatasetError("the dataset is one row; put it into a list: [row]")
    if not isinstance(dataset, str) or dataset != "demo":
        return dataset
    return find_dataset("demo", "json-distance" if isinstance(evaluator, Evaluator) else os.fspath(evaluator))


def _worked(evaluator: Path | Evaluator, cases: Path | Rows | None) -> tuple[WorkedCase, ...]:
    if cases is None:
        cases = find_cases(evaluator)
    return read_cases(cases) if isinstance(cases, str | os.PathLike) else cases_of(cases)


def _chosen(
    named: Path | Evaluator,
    sandbox: str | SandboxConfig | None,
    language: Language | None,
    dataset: Path | Rows,
) -> tuple[Evaluator, SandboxConfig]:
    if isinstance(named, Evaluator):
        return named, choose(named, sandbox).config
    evaluator = find_evaluator(named, language)
    return evaluator, choose(evaluator, sandbox, script=named, files=find_files(dataset, named)).config


@contextmanager
def _cases(dataset: Path | Rows, columns: frozenset[str] | None) -> Iterator[Iterable[Case]]:
    if isinstance(dataset, str | os.PathLike):
        with open_dataset(dataset, columns=columns) as opened:
            yield opened
    else:
        yield cases_from_rows(dataset, columns=columns)


def _wait(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _Aside(work).result()


class _Aside(Generic[T]):
    """A coroutine in a loop and thread of its own, for callers that are inside a loop, as in a notebook."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._future: Future[T] = Future()
        self._started = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=[self._run()], name="evalcell-evaluate")
        self._thread.start()

    def result(self) -> T:
        """Waits. What interrupts the wait stops the work first."""
        try:
            return self._future.result()
        except BaseException:
            self._started.wait()
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
            raise
        finally:
            self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(self._work)
        self._started.set()
        try:
            self._future.set_result(await self._task)
        except BaseException as e:
            self._future.set_exception(e)
