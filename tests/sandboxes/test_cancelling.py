"""Whoever stops a run, at whatever wait, by whatever means: nothing of it is left when it returns."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import aclosing, nullcontext, suppress

import anyio
import pytest

from runner.core.types import Result
from runner.engine.local import score
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.runs.parity import together
from sandboxes.guest.supervisor import procfs
from tests.descriptors import held
from tests.engine.prepared import prepared
from tests.sandboxes.backends import BACKENDS, LIMITS, Backend, unavailable
from tests.stopping import EVERY, Stopping

pytestmark = pytest.mark.timeout(100)

ROWS = 6
IDS = ("wasm-restore", "wasm-workers", "process-A-call", "process-B-batch", "deno-A-call", "deno-B-batch")

WAYS: dict[str, tuple[Collection[int], bool]] = {
    "once": ((), False),
    "twice": ((1,), False),
    "at each step": (EVERY, False),
    "by anyio": ((), True),
}
"""How it is cancelled: waits after the first at which it is again, and whether anyio does it."""

SCRIPTS = {
    "python": "import time\ndef evaluate(output):\n    time.sleep(0.001)\n    return len(output)\n",
    "typescript": "export const evaluate = ({output}: {output: string}) => output.length;\n",
}


@pytest.fixture(scope="module", params=[one for one in BACKENDS if one.id in IDS], ids=lambda one: one.id)
def chosen(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    if missing := unavailable(found):
        pytest.skip(missing)
    return found


@pytest.fixture(scope="module")
def waits(chosen: Backend) -> int:
    """How often a run waits that nobody stops."""
    whole, results = Stopping(1 << 30), list[Result]()
    whole.run(lambda: _collect(chosen, results))
    assert [result.score for result in results] == [*range(ROWS)]
    return whole.waits


@pytest.fixture
def nothing_left(chosen: Backend, waits: int) -> Iterator[Callable[[], None]]:
    """Whether there is no more than there was at first: processes, threads, descriptors."""
    gc.collect()  # loops that asyncio has closed hold none, but their own
    others = frozenset(procfs.descendants(os.getpid()))
    before, descriptors = _left(others), held()

    def check() -> None:
        assert _left(others) == before

    yield check
    gc.collect()
    assert _left(others) == before
    if others.issuperset(procfs.descendants(os.getpid())):  # else an earlier test's server began one
        assert held() <= descriptors  # fewer, where an earlier test's were closed meanwhile


def _left(others: frozenset[int]) -> tuple[list[int], list[str]]:
    """
    Our processes and threads, without `others` and what these start.

    A worker of the tests may hold the servers of earlier tests, which start and end processes of their own.
    """
    found, level = list[int](), [os.getpid()]
    while level:
        level = [pid for above in level for pid in procfs.children(above) if pid not in others]
        found += level
    return sorted(found), [thread.name for thread in threading.enumerate() if thread.name.startswith("evalcell")]


async def _scored(backend: Backend) -> AsyncGenerator[Result]:
    evaluator = parse_evaluator(SCRIPTS[backend.language], name="tried", language=backend.language)
    cases = cases_from_rows([{"id": str(n), "output": "x" * n} for n in range(ROWS)])
    sandbox = backend.make(backend.isolation)
    async with sandbox, aclosing(score(evaluator, cases, sandbox, limits=LIMITS)) as found:
        async for result in found:
            yield result


async def _collect(backend: Backend, results: list[Result]) -> None:
    async with aclosing(_scored(backend)) as found:
        async for result in found:
            results.append(result)


def _try(backend: Backend, n: int, way: str, check: Callable[[], None]) -> None:
    stopping, results = Stopping(n, *WAYS[way]), list[Result]()
    try:
        stopping.run(lambda: _collect(backend, results), check)
    except AssertionError as e:
        raise AssertionError(f"cancelled {way}, from wait {n} on") from e
    assert all(result.score == int(result.id) for result in results)


@pytest.mark.rotating("cancelling", "wasm", "process", "deno", "remote", "engine")
@pytest.mark.parametrize("way", WAYS)
def test_cancelled_at_some_waits(chosen: Backend, waits: int, nothing_left: Callable[[], None], way: str) -> None:
    # Other waits for each way: at the beginning, where things are started, and later.
    place = list(WAYS).index(way)
    for n in (3 + 5 * place, waits // 4 * place + waits // 8):
        _try(chosen, n, way, nothing_left)


@pytest.mark.thorough("the same at some of its waits")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", WAYS)
def test_cancelled_at_every_wait(chosen: Backend, waits: int, nothing_left: Callable[[], None], way: str) -> None:
    for n in range(1, waits):
        _try(chosen, n, way, nothing_left)


@pytest.mark.rotating("long tests", "wasm", "process", "deno", "remote", "engine")
def test_what_nobody_closes_is_closed_with_the_loop(chosen: Backend, nothing_left: Callable[[], None]) -> None:
    async def body() -> AsyncGenerator[Result]:
        found = _scored(chosen)
        assert (await anext(found)).score == 0
        return found

    kept = asyncio.run(body())
    nothing_left()
    del kept


def test_what_nobody_closes_is_closed_when_it_is_forgotten(chosen: Backend, nothing_left: Callable[[], None]) -> None:
    async def body() -> None:
        async for result in _scored(chosen):
            assert result.score == 0
            break
        gc.collect()
        while True:  # the loop closes it in a task of its own
            with suppress(AssertionError):
                return nothing_left()
            await asyncio.sleep(0.01)

    asyncio.run(body())


@pytest.mark.rotating("long tests", "wasm", "process", "deno", "remote", "engine")
async def test_a_time_that_is_over_takes_all_along(chosen: Backend, nothing_left: Callable[[], None]) -> None:
    for way in (anyio.fail_after, asyncio.timeout):
        found = _scored(chosen)
        with suppress(TimeoutError):
            if way is asyncio.timeout:
                async with asyncio.timeout(0.1), aclosing(found):
                    [result async for result in found]
            else:
                with anyio.fail_after(0.1):
                    [result async for result in found]
        nothing_left()


@pytest.mark.rotating("cancelling", "wasm", "process", "deno", "remote", "engine")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_nothing(chosen: Backend, nothing_left: Callable[[], None], times: int) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        async for result in _scored(chosen):
            if result.number == 1:
                for _ in range(times):  # the second one comes in the middle of what the first one began
                    loop.call_soon(signal.raise_signal, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(body())
    nothing_left()


@pytest.mark.rotating("cancelling", "wasm", "process", "deno", "remote", "engine")
@pytest.mark.parametrize("way", ["at each step", "by anyio"])
def test_a_sandbox_that_is_opened_and_closed_by_hand(
    chosen: Backend, nothing_left: Callable[[], None], way: str
) -> None:
    """Whoever calls `open` and `close` calls `close` in any case."""
    sandbox = chosen.make(chosen.isolation)

    async def opened() -> None:
        try:
            await sandbox.open()
            await sandbox.load(chosen.script(SCRIPTS[chosen.language]), LIMITS)
        finally:
            await sandbox.close()

    whole = Stopping(1 << 30)
    whole.run(opened, nothing_left)
    for n in (2, whole.waits // 2, whole.waits - 4, whole.waits - 2):
        Stopping(n, *WAYS[way]).run(opened, nothing_left)


@pytest.mark.rotating("cancelling", "wasm", "process", "deno", "remote", "engine")
def test_two_sandboxes_that_are_compared(chosen: Backend, waits: int, nothing_left: Callable[[], None]) -> None:
    evaluator = parse_evaluator(SCRIPTS[chosen.language], name="tried", language=chosen.language)
    cases = [*cases_from_rows([{"id": str(n), "output": "x" * n} for n in range(ROWS)])]

    async def compared() -> None:
        sides = [prepared(evaluator, chosen.make(chosen.isolation), limits=LIMITS) for _ in range(2)]
        async with aclosing(together(sides, lambda: nullcontext(cases))) as rows:
            async for row in rows:
                assert len({result.score for result in row}) == 1

    for n in (waits // 2, waits):  # while the second one is opened, and among the rows
        Stopping(n, scoped=True).run(compared, nothing_left)
