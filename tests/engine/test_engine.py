"""What `score` gives when all goes well: order, batches, concurrency, seeds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from itertools import count

import pytest

from runner.core.types import Case, Result
from runner.engine.batches import shared_batch
from runner.engine.local import load_as_long, score
from runner.engine.rows import seed_of
from sandboxes.base import Call, Execution, Limits, SandboxConfig
from sandboxes.fake import FakeProgram, FakeSandbox, ok
from tests.engine.scripted import SCRIPT, Custom, case, echo, fake, rows, scored


class Slow(FakeProgram):
    """Answers later calls first, a few milliseconds apart; counts what goes on at once."""

    def __init__(self) -> None:
        super().__init__(echo)
        self.running = self.most = self.closed = 0

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for call in reversed(calls):
                await asyncio.sleep(0.002 * (call.id % 3))
                yield self.answer(call)
        finally:
            self.running -= 1

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_come_in_the_datasets_order(isolation: str, jobs: int) -> None:
    sandbox = Custom(Slow, isolation=isolation, jobs=jobs)
    results = scored(rows(300), sandbox)
    assert [r.score for r in results] == [float(n) for n in range(1, 301)]
    assert [r.number for r in results] == list(range(1, 301))


def test_as_many_runs_go_on_at_once_as_the_sandbox_has_use_for() -> None:
    sandbox = Custom(Slow, jobs=5)
    scored(rows(200), sandbox)
    program = sandbox.programs[0]
    assert isinstance(program, Slow)
    assert (program.most, program.closed, program.running) == (5, 1, 0)


class Queued(Custom):
    """Lets one more run wait in it."""

    @property
    def queue(self) -> int:
        return 1


@pytest.mark.parametrize(("isolation", "most"), [("call", 2), ("batch", 3)])
def test_where_state_is_shared_the_next_batch_waits_in_the_sandbox(isolation: str, most: int) -> None:
    sandbox = Queued(Slow, isolation=isolation, jobs=2)
    assert [r.number for r in scored(rows(200), sandbox)] == list(range(1, 201))
    program = sandbox.programs[0]
    assert isinstance(program, Slow)
    assert program.most == most


def test_no_rows_give_no_results() -> None:
    assert scored([], fake()) == []


def seeds(jobs: int, isolation: str, seed: int | None) -> dict[int, int | None]:
    found: dict[int, int | None] = {}

    def note(call: Call) -> Execution:
        found[call.id] = call.seed
        return ok(call)

    scored(rows(150), fake(note, jobs=jobs, isolation=isolation), seed=seed)
    return found


def test_a_cases_seed_depends_on_the_runs_seed_and_its_number_alone() -> None:
    assert seeds(1, "call", 7) == seeds(4, "batch", 7)
    assert len(set(seeds(1, "call", 7).values())) == 150
    assert set(seeds(1, "call", None).values()) == {None}
    assert seed_of(7, 1) == 2776804601523485429
    assert 0 <= seed_of(-3, 10**9) < 1 << 63


def test_where_state_is_shared_batches_depend_on_the_dataset_alone() -> None:
    cases = [case(n, n, broken="bad" if n % 5 == 0 else None) for n in range(1, 401)]
    ids = [c.number - 1 for c in cases if not c.broken]
    for jobs in (1, 3):
        sandbox = fake(echo, isolation="batch", jobs=jobs)
        scored(cases, sandbox)
        sizes, rest, wanted = iter((*[1] * 16, 5, 7, 9, 12, 16, 21, 28, 38, 50, 64, 64)), ids, []
        while rest:
            size = next(sizes)
            wanted.append(tuple(rest[:size]))
            rest = rest[size:]
        assert sandbox.programs[0].runs == wanted


def test_shared_batches_start_small_and_end_at_the_sandboxs_own_size() -> None:
    sizes = [shared_batch(n, 512) for n in range(60)]
    assert sizes[:16] == [1] * 16
    assert sizes[-1] == shared_batch(10**9, 512) == 512
    for number, size in enumerate(sizes[16:], 16):
        assert size <= sum(sizes[:number]) / 3, "so that no slow batch is a large part of a run"
    assert sum(size < 512 for size in sizes) < 40, "each costs a fork"
    assert [shared_batch(n, 512, 16) for n in (0, 15, 30)] == [16, 16, shared_batch(30, 512)]


def test_a_stretch_of_broken_rows_does_not_wait_for_a_batch_to_fill() -> None:
    cases = (case(n, n, broken=None if n < 5 else "bad") for n in count(1))

    async def first() -> list[Result]:
        async with fake(echo, isolation="batch") as sandbox:
            found = score(SCRIPT, cases, sandbox)
            async with aclosing(found):
                return [await anext(found) for _ in range(5000)]

    assert [r.number for r in asyncio.run(first())] == list(range(1, 5001))


def test_batches_grow_where_calls_are_fast_and_stay_small_where_they_are_slow() -> None:
    sandbox = fake(echo)
    scored(rows(2000), sandbox)
    sizes = [len(run) for run in sandbox.programs[0].runs]
    assert sizes[0] == 1
    assert max(sizes) <= sandbox.batch
    assert len(sizes) < 1000

    class Sleepy(FakeProgram):
        async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
            self.runs.append(tuple(c.id for c in calls))
            for call in calls:
                await asyncio.sleep(0.03)
                yield self.answer(call)

    slow = Custom(lambda: Sleepy(echo), jobs=4)
    scored(rows(40), slow)
    assert {len(run) for run in slow.programs[0].runs} == {1}


@pytest.mark.parametrize(("most", "largest"), [(5, range(5, 6)), (100, range(65, 101))])
def test_where_a_run_costs_much_batches_are_as_large_as_they_may_be(most: int, largest: range) -> None:
    class Far(FakeSandbox):
        run_seconds = 10.0
        batch = most

    sandbox = Far(SandboxConfig(backend="fake"), echo)
    scored(rows(5 * most), sandbox)
    assert max(len(run) for run in sandbox.programs[0].runs) in largest


def test_each_result_is_there_as_soon_as_those_before_it_are() -> None:
    """One row comes when the result of the one before has been seen, so nothing may wait for more rows."""
    seen = threading.Event()

    def cases() -> Iterator[Case]:
        for n in range(1, 6):
            yield case(n, n)
            assert seen.wait(5)
            seen.clear()

    async def one_by_one() -> list[int]:
        numbers = []
        async with fake(echo) as sandbox:
            async for result in score(SCRIPT, cases(), sandbox):
                numbers.append(result.number)
                seen.set()
        return numbers

    assert asyncio.run(asyncio.wait_for(one_by_one(), 20)) == [1, 2, 3, 4, 5]


def test_loading_has_the_time_of_a_call_where_its_own_is_left_as_it_is() -> None:
    assert load_as_long(Limits(timeout=60)).load_timeout == 60
    assert load_as_long(Limits(timeout=5)).load_timeout == 30
    assert load_as_long(Limits(timeout=60, load_timeout=45)).load_timeout == 45
