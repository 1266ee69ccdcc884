"""What `score` does when the sandbox or the dataset fails, or nobody wants more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from itertools import count, islice

import pytest

from runner.core.errors import DatasetError, MappingError
from runner.core.types import Case, InputMapping, Result
from runner.engine.local import score
from sandboxes.base import Call, Execution, Limits
from sandboxes.errors import SandboxError, SandboxLostError, UnsupportedConfigError
from sandboxes.fake import FakeProgram
from tests.engine.scripted import SCRIPT, Custom, case, echo, fake, rows, scored


class Dying(FakeProgram):
    """Takes the whole run along when it meets a killer, as a worker process that dies does."""

    def __init__(self, killers: dict[int, int]) -> None:
        super().__init__(echo)
        self.killers = killers

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        self.runs.append(tuple(c.id for c in calls))
        await asyncio.sleep(0)
        for call in calls:
            if self.killers.get(call.id, 0) > 0:
                self.killers[call.id] -= 1
                raise SandboxLostError("the worker died")
            yield self.answer(call)


@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_killer_is_lost_alone_and_its_neighbours_are_scored(isolation: str, jobs: int) -> None:
    sandbox = Custom(lambda: Dying({10: 99, 70: 99, 150: 1}), isolation=isolation, jobs=jobs)
    results = scored(rows(200), sandbox)
    assert [r.number for r in results if r.outcome == "lost"] == [11, 71]
    assert all(r.score == r.number for r in results if r.outcome == "scored")
    assert len([r for r in results if r.outcome == "scored"]) == 198
    lost = results[10]
    assert lost.error is not None
    assert (lost.error.kind, lost.score) == ("lost", None)
    assert "the worker died" in lost.error.message
    tries = [run for run in sandbox.programs[0].runs if 10 in run]
    assert len(tries) == 2
    assert tries[1] == (10,)


class Lying(FakeProgram):
    """Breaks the promise of one execution a call."""

    def __init__(self, lie: str) -> None:
        super().__init__(echo)
        self.lie = lie

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        for call in calls:
            if self.lie == "ends early" and call.id == 5:
                return
            yield self.answer(call)
            if self.lie == "unknown" and call.id == 5:
                yield Execution(call=12345, status="ok", value=1.0)
            if self.lie == "twice" and call.id == 5:
                yield Execution(call=5, status="ok", value=99.0)


@pytest.mark.parametrize("lie", ["ends early", "unknown", "twice"])
def test_a_sandbox_that_breaks_its_promise_gives_no_score_of_it(lie: str) -> None:
    results = scored(rows(100), Custom(lambda: Lying(lie), isolation="batch"))
    assert len(results) == 100
    for result in results:
        assert result.outcome == ("lost" if result.number == 6 and lie != "unknown" else "scored")
        assert result.score in (None, float(result.number))


def test_a_sandbox_that_fails_for_good_ends_the_run_after_what_is_done() -> None:
    class Failing(FakeProgram):
        async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
            for call in calls:
                if call.id == 40:
                    raise SandboxError("no more")
                yield self.answer(call)

    sandbox = Custom(lambda: Failing(echo))
    done: list[Result] = []

    async def collect() -> None:
        async with sandbox:
            async for result in score(SCRIPT, rows(100), sandbox):
                done.append(result)

    with pytest.raises(SandboxError, match="no more"):
        asyncio.run(collect())
    assert [r.number for r in done] == list(range(1, 41))


def test_a_dataset_that_fails_under_way_ends_the_run_after_what_was_read() -> None:
    def cases() -> Iterator[Case]:
        yield from rows(150)
        raise DatasetError("the disk is gone")

    done: list[Result] = []

    async def collect() -> None:
        async with fake(echo) as sandbox:
            async for result in score(SCRIPT, cases(), sandbox):
                done.append(result)

    with pytest.raises(DatasetError, match="the disk is gone"):
        asyncio.run(collect())
    assert len(done) == 150


def test_what_cannot_be_bound_or_run_is_refused_before_the_first_row() -> None:
    with pytest.raises(MappingError):
        scored(rows(1), fake(), mapping=InputMapping(literals={"nothing": 1}))
    with pytest.raises(UnsupportedConfigError, match="typescript"):
        scored(rows(1), fake(), SCRIPT.model_copy(update={"language": "typescript"}))


def test_the_dataset_is_read_only_a_little_ahead() -> None:
    read = 0

    def cases() -> Iterator[Case]:
        nonlocal read
        for n in count(1):
            read = n
            yield case(n, n)

    async def some() -> int:
        async with fake(echo) as sandbox:
            found = score(SCRIPT, cases(), sandbox)
            async with aclosing(found):
                for _ in range(10):
                    await anext(found)
                await asyncio.sleep(0.3)
                return read

    assert asyncio.run(some()) < 5000


class Endless(FakeProgram):
    """Never answers the last call of a run, but for the first one."""

    def __init__(self) -> None:
        super().__init__(echo)
        self.began = self.ended = self.closed = 0

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        self.began += 1
        if self.began == 1:
            for call in calls:
                yield self.answer(call)
            self.ended += 1
            return
        try:
            for call in calls[:-1]:
                yield self.answer(call)
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            self.ended += 1

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("how", ["aclose", "cancel"])
def test_stopping_early_stops_everything(how: str) -> None:
    sandbox = Custom(Endless, jobs=3, isolation="batch")
    cases = (case(n, n) for n in count(1))

    async def stop() -> None:
        async with sandbox:
            found = score(SCRIPT, cases, sandbox)
            assert (await anext(found)).number == 1

            async def rest() -> None:
                async for _ in found:
                    pass

            if how == "cancel":
                task = asyncio.create_task(rest())
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await found.aclose()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(stop())
    program = sandbox.programs[0]
    assert isinstance(program, Endless)
    assert program.began == program.ended > 0
    assert program.closed == 1
    assert not [t for t in threading.enumerate() if t.name == "evalcell-prefetch"]


def test_results_that_wait_for_an_earlier_one_are_bounded() -> None:
    class Stuck(FakeProgram):
        """Holds up the first call, answers all others."""

        async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
            for call in calls:
                if call.id == 0:
                    await asyncio.sleep(3600)
                answered.append(call.id)
                yield self.answer(call)
                await asyncio.sleep(0)

    answered: list[int] = []
    sandbox = Custom(lambda: Stuck(echo), jobs=2)

    async def wait() -> None:
        async with sandbox:
            found = score(SCRIPT, islice((case(n, n) for n in count(1)), 100_000), sandbox)
            task = asyncio.create_task(anext(found))
            before = -1
            while len(answered) > before:
                before = len(answered)
                await asyncio.sleep(0.5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await found.aclose()

    asyncio.run(wait())
    assert 1000 < len(answered) < 10_000
