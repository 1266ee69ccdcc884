"""The two doors for Python: `evaluate`, which waits, and `stream`, which gives results as they come."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar

from runner.choose import choose, find_evaluator
from runner.dataset import cases_from_rows, open_dataset
from runner.engine import score
from runner.summary import Summary, Tally
from runner.types import Case, Evaluator, InputMapping, Result
from sandboxes.base import Limits, Model, SandboxConfig
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
) -> Report:
    """
    Scores a dataset with an evaluator and waits for all of it.

    `evaluator` is a path, a template's name or an `Evaluator`; `dataset` a path, or rows, which are read in
    another thread. `sandbox` is a backend's name or a config, whose packages are added to the script's own; a
    backend that is not named is the one that fits. `mapping` goes over the script's own. `seed` makes the script's
    random numbers repeat. Works inside a running event loop.

    What goes wrong in a row is in its result. Raises InputError for a script, dataset or mapping that cannot
    be used, UnsupportedConfigError for what a sandbox cannot do, and SandboxError when the sandbox fails.
    """

    async def collect() -> Report:
        script, config = _chosen(evaluator, sandbox)
        tally, results, began = Tally(script.outputs), [], perf_counter()
        found = stream(script, dataset, sandbox=config, limits=limits, mapping=mapping, seed=seed)
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
) -> AsyncGenerator[Result, None]:
    """
    Each result as it comes, in the dataset's order. Opens and closes the sandbox.

    Takes and raises what `evaluate` does.
    """
    script, config = _chosen(evaluator, sandbox)
    with _cases(dataset) as cases:
        async with create(config) as opened:
            found = score(script, cases, opened, limits=limits, mapping=mapping, seed=seed)
            async with aclosing(found):
                async for result in found:
                    yield result


def _chosen(named: Path | Evaluator, sandbox: str | SandboxConfig | None) -> tuple[Evaluator, SandboxConfig]:
    if isinstance(named, Evaluator):
        return named, choose(named, sandbox).config
    evaluator = find_evaluator(named)
    return evaluator, choose(evaluator, sandbox, script=named).config


@contextmanager
def _cases(dataset: Path | Rows) -> Iterator[Iterable[Case]]:
    if isinstance(dataset, str | os.PathLike):
        with open_dataset(dataset) as opened:
            yield opened
    else:
        yield cases_from_rows(dataset)


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
