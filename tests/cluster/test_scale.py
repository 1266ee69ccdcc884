"""A hundred workers, simulated: what dies or is slow costs little time, and no row."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace

import pytest
from pydantic import ValidationError

from benchmarks.fake_ray import Scenario
from benchmarks.scale import simulate
from sandboxes.base import Execution, SandboxConfig, ScriptError
from sandboxes.cluster.pool import Races
from sandboxes.cluster.schedule import AHEAD, Schedule
from sandboxes.cluster.worker import pack_execution, unpack_execution

SCENARIO = Scenario(workers=100, rows=2000, dying=2.0)


def test_executions_from_workers_are_what_they_were() -> None:
    plain = Execution(call=3, status="ok", value=[1.5, None, {"a": "é"}], duration=0.25)
    each = [plain, plain.model_copy(update={"output": "said"}), plain.model_copy(update={"value": None})]
    each.append(Execution(call=0, status="error", error=ScriptError(type="ValueError", message="no"), duration=0.0))
    assert [unpack_execution(json.loads(json.dumps(pack_execution(one)))) for one in each] == each
    assert {*dict(unpack_execution(pack_execution(plain)))} == {*Execution.model_fields}
    for wrong in ([], [1], ["1", 0.5, None], [True, 0.5, None], None):
        with pytest.raises(ValidationError):
            unpack_execution(wrong)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough("another seed stands for it"))])
def test_what_dies_or_is_slow_costs_little_time_and_no_row(seed: int) -> None:
    scenario = replace(SCENARIO, seed=seed)
    found = simulate(scenario)
    assert found.died
    there, _, of = found.state.partition(" of ")
    assert 80 <= int(there) <= 100
    assert of == "100 workers"
    assert (found.results, found.wrong) == (scenario.rows, 0)
    assert found.wall / scenario.ideal <= 1.35, "the last rows of a run of five minutes"
    assert found.rows / found.results <= 1.1


def test_what_could_do_something_twice_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(workers=20, rows=400, dying=0.0, slow_batches=0.05)
    assert simulate(scenario).rows > scenario.rows
    monkeypatch.setattr("benchmarks.scale.CONFIG", SandboxConfig(backend="process", network=True))
    found = simulate(scenario)
    assert (found.rows, found.results, found.wrong) == (scenario.rows, scenario.rows, 0)


@dataclass(eq=False)
class Worker:
    alive: bool = True
    busy: int = 0


async def test_the_least_busy_worker_is_next() -> None:
    schedule, workers = Schedule(), [Worker() for _ in range(3)]
    for worker in workers:
        schedule.join(worker)
    assert [await schedule.take() for _ in range(4)] == [*workers, workers[0]]
    schedule.leave(workers[2])
    assert await schedule.take() is workers[2]
    assert await schedule.take(workers[1]) is workers[2], "another one than that"


async def test_a_worker_that_is_gone_gets_nothing() -> None:
    schedule, first, second = Schedule(), Worker(), Worker()
    schedule.join(first)
    assert await schedule.take() is first
    schedule.part(first)
    first.alive = False
    waiting = [asyncio.create_task(schedule.take()) for _ in range(AHEAD + 1)]
    await asyncio.sleep(0)
    schedule.leave(first)
    assert not any(task.done() for task in waiting)
    waiting.pop(0).cancel()
    schedule.join(second)
    assert await asyncio.gather(*waiting) == [second] * AHEAD


async def test_of_two_tries_the_first_reply_counts_and_the_other_one_stops() -> None:
    events: list[str] = []

    async def work(name: str, until: asyncio.Event, error: Exception | None = None) -> str:
        try:
            await until.wait()
        except asyncio.CancelledError:
            events.append(f"{name} stopped")
            raise
        if error is not None:
            raise error
        return name

    never, now, races = asyncio.Event(), asyncio.Event(), Races[str]()
    now.set()

    async def first(one: asyncio.Event, other: asyncio.Event, *errors: Exception) -> str:
        error = iter(errors)
        return await races.first(
            work("first", one, next(error, None)), lambda: work("second", other, next(error, None)), 0, lambda: True
        )

    assert await first(never, now) == "second"
    await races.wait_stopped()
    assert events == ["first stopped"]
    later = asyncio.Event()
    asyncio.get_running_loop().call_soon(later.set)
    with pytest.raises(ValueError, match="one"):
        await first(later, now, ValueError("one"), ValueError("two"))
    others = asyncio.all_tasks()
    task = asyncio.create_task(first(never, never))
    while len(asyncio.all_tasks() - others) < 3:  # itself, and both tries
        await asyncio.sleep(0)
    events.clear()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(events) == ["first stopped", "second stopped"], "before the caller goes on"
