"""The run that follows another in its box is begun while that one ends, by the rules of both."""

from __future__ import annotations

import asyncio
import errno
import gc
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.side_by_side import loaded
from sandboxes import Call, Execution, Limits, Program
from sandboxes.boxes.run_queue import RunQueue, RunSlot
from sandboxes.guest.machine.box import run_steps
from sandboxes.guest.supervisor import procfs
from sandboxes.guest.supervisor.attempt import Attempt
from sandboxes.guest.supervisor.driver import After, CallBounds, CallResult
from sandboxes.guest.supervisor.python_run import PythonSupervisor
from sandboxes.process.python_box import PythonBox
from tests.sandboxes.supervised import BOUNDS, NO_MEMORY, Event, ForkingPlace
from tests.sandboxes.test_supervisor import BAD, GOOD, KNOWN, PAYLOADS, SCRIPT, open_files

NEXT = [b'{"status":"ok","value":%d}' % number for number in range(10, 13)]


class Following(After):
    """A run that is wanted as often as that is asked."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.has_begun = False

    def requests(self) -> Sequence[bytes]:
        self.wanted -= 1
        return NEXT if self.wanted >= 0 else []

    def begun(self) -> None:
        self.has_begun = True


async def _told(groups: AsyncGenerator[Sequence[CallResult]]) -> list[CallResult]:
    return [told async for group in groups for told in group]


@given(
    st.lists(st.one_of(GOOD, GOOD, GOOD, BAD), max_size=20), st.booleans(), st.booleans(), st.sampled_from([0, 1, 9])
)
def test_whatever_happens_each_of_both_runs_is_told_of_once(
    events: list[Event], loads: bool, goes_on: bool, wanted: int
) -> None:
    before, place, following = open_files(), ForkingPlace(events), Following(wanted)

    async def body() -> tuple[list[CallResult], list[CallResult]]:
        supervisor = PythonSupervisor(place, True)
        if loads:
            await supervisor.imports(b"", SCRIPT, BOUNDS)
        first = await _told(supervisor.run(PAYLOADS, BOUNDS, True, following))
        assert place.watching is following.has_begun
        assert not following.has_begun or wanted > 1
        if not goes_on:
            await supervisor.abandon()
            assert place.child is None or place.closed
            return first, []
        return first, await _told(supervisor.run(NEXT, BOUNDS, True))

    for payloads, found in zip((PAYLOADS, NEXT), run_steps(body()), strict=True):
        assert len(found) == len(payloads) or not place.alive or not goes_on
        for told, payload in zip(found, payloads, strict=False):
            assert not KNOWN[told[0]] or KNOWN[told[0]] & place.happened
            assert told[0] != "reply" or told[1] in (payload, NO_MEMORY) or "wrong" in place.happened
    assert place.child is None or place.closed, "a child goes on that nobody waits for"
    assert not place.watching
    place.kill()
    assert open_files() <= before


async def test_it_begins_before_the_last_results_are_told_and_when_nothing_is_left_of_the_first() -> None:
    place, following = ForkingPlace([("burst", None)]), Following(9)

    groups = PythonSupervisor(place, True).run(PAYLOADS, BOUNDS, True, following)
    found = [(following.has_begun, len(group)) async for group in groups]
    assert place.child is not None
    assert place.child.calls == len(NEXT)
    place.kill()
    assert found == [(False, 2), (True, 2)]


async def test_another_run_than_the_one_that_was_begun_gets_its_own_results() -> None:
    place = ForkingPlace([*[("burst", None)] * 2, *[("reply", None)] * 9])

    supervisor = PythonSupervisor(place, True)
    await _told(supervisor.run(PAYLOADS, BOUNDS, True, Following(9)))
    assert [told[1] for told in await _told(supervisor.run([*PAYLOADS], BOUNDS, True))] == PAYLOADS


@pytest.mark.parametrize("at", range(len(PAYLOADS)))
async def test_a_run_goes_on_after_a_reply_that_breaks_it_before_another_begins(at: int) -> None:
    again = [at, at + 1] if at else [0]  # what is not the first of a run is tried again as the first of another
    events = [("no memory" if number in again else "reply", None) for number in range(9)]
    place, following = ForkingPlace(events), Following(9)

    found = await _told(PythonSupervisor(place, True).run(PAYLOADS, BOUNDS, True, following))
    assert following.has_begun
    place.kill()
    assert [told[1] for told in found] == [*PAYLOADS[:at], NO_MEMORY, *PAYLOADS[at + 1 :]]


def test_results_are_told_where_the_run_that_follows_has_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    place, following = ForkingPlace([("burst", None)]), Following(9)
    supervisor = PythonSupervisor(place, True)
    announce = supervisor._announce

    async def once(requests: Sequence[bytes], bounds: CallBounds) -> Attempt:
        if requests is NEXT:
            raise OSError(errno.EMFILE, "Too many open files")
        return await announce(requests, bounds)

    monkeypatch.setattr(supervisor, "_announce", once)
    assert [told[1] for told in run_steps(_told(supervisor.run(PAYLOADS, BOUNDS, True, following)))] == PAYLOADS
    assert not following.has_begun
    assert place.child is None


class Lane:
    is_loaded = True

    def __init__(self) -> None:
        self.abandoned: list[bool] = []

    async def abandon(self) -> None:
        self.abandoned.append(True)


async def test_lanes_go_to_turns_in_their_order_and_to_the_one_that_was_prepared() -> None:
    lanes = [Lane(), Lane()]
    turns = RunQueue(lanes)
    made = [RunSlot[Lane]([b"%d" % number], Limits(timeout=2 if number == 4 else 1)) for number in range(6)]
    tasks = [asyncio.ensure_future(turns.take(turn)) for turn in made]
    await asyncio.sleep(0)
    first, second, third, fourth, fifth, sixth = made
    assert {first.lane, second.lane} == {*lanes}
    lane = next(each for each in lanes if each is second.lane)
    assert turns.following(second) is third.payloads
    assert turns.following(first) is fourth.payloads
    assert turns.following(second) is third.payloads
    turns.release(second)
    turns.release(second)
    await tasks[2]
    assert third.lane is lane
    assert not turns.following(third)  # the fifth has other limits
    tasks[3].cancel()
    await asyncio.sleep(0)
    assert lane.abandoned == []  # it was not handed over
    turns.release(third)
    tasks[4].cancel()  # in this moment it is
    await asyncio.sleep(0.01)
    assert lane.abandoned == [True]
    await tasks[5]
    assert sixth.lane is lane
    turns.release(first)
    turns.release(sixth)
    await turns.take(fifth)
    assert fifth.lane is not None


async def test_a_turn_that_a_lane_is_kept_for_takes_another_that_is_free() -> None:
    turns = RunQueue([Lane(), Lane()])
    first, second, third = (RunSlot[Lane]([b"x"], Limits()) for _ in range(3))
    await turns.take(first)
    await turns.take(second)
    waiting = asyncio.ensure_future(turns.take(third))
    await asyncio.sleep(0)
    kept, free = first.lane, second.lane
    assert turns.following(first) is third.payloads
    assert third.lane is kept
    turns.release(second)
    await waiting
    assert third.lane is free
    assert not turns.following(first)


STEPS = """
import time
seen = []
def evaluate(n, then=""):
    seen.append(n)
    if then == "hang":
        while True: pass
    if then == "sleep":
        time.sleep(0.15)
    if then == "memory":
        bytearray(1 << 40)
    return {"label": ",".join(map(str, seen)), "score": 1.0}
"""
LEAVES = """
import os, threading, time
def evaluate(n, then=""):
    if then == "leave" and os.fork() == 0:
        time.sleep(60)
    if then == "thread":
        threading.Thread(target=time.sleep, args=(60,)).start()
    open("/tmp/left", "a").write("x")
    return {"label": str(len(open("/tmp/left").read())), "score": 1.0}
"""


def calls(numbers: Sequence[int], then: str = "") -> list[Call]:
    return [Call(id=number, arguments={"n": number, "then": then}) for number in numbers]


async def _all(program: Program, wanted: list[Call], limits: Limits) -> list[Execution]:
    return [found async for found in program.run(wanted, limits)]


def labels(found: list[Execution]) -> list[str]:
    assert {execution.status for execution in found} == {"ok"}, found
    return [execution.value["label"] for execution in found]


@pytest.mark.parametrize("then", ["", "leave", "thread"])
async def test_a_run_finds_nothing_of_the_one_before(then: str) -> None:
    async with loaded(LEAVES) as (_, program):
        runs = [calls([0, 1, 2], then), *(calls(range(3)) for _ in range(4))]
        for found in await asyncio.gather(*(_all(program, run, Limits()) for run in runs)):
            assert labels(found) == ["1", "2", "3"]


async def test_a_run_that_was_begun_is_stopped_in_time_though_the_last_results_before_it_are_not_taken() -> None:
    async with loaded(STEPS) as (_, program):
        wanted = [*calls([0], "sleep"), *calls(range(1, 40))]
        groups = program.run_grouped(wanted, Limits(timeout=1))
        first = asyncio.ensure_future(anext(groups))
        await asyncio.sleep(0)  # it has the lane
        second = asyncio.ensure_future(_all(program, calls([0], "hang"), Limits(timeout=1)))
        count = len(await first)
        while count < len(wanted):
            count += len(await anext(groups))
        assert [execution.status for execution in await second] == ["timeout"]
        assert await anext(groups, None) is None


async def test_a_run_that_is_cancelled_leaves_nothing_and_the_next_ones_have_their_own_state() -> None:
    async with loaded(STEPS) as (_, program):
        for moment in range(30):
            one = asyncio.ensure_future(_all(program, calls(range(8)), Limits()))
            two = asyncio.ensure_future(_all(program, calls([7], "hang"), Limits()))
            await asyncio.sleep(moment / 2000)
            two.cancel()
            await asyncio.gather(two, return_exceptions=True)
            assert labels(await one)[-1] == "0,1,2,3,4,5,6,7"
            assert running(program) == []
        assert labels(await _all(program, calls([1, 2]), Limits())) == ["1", "1,2"]


@pytest.mark.parametrize("at", [0, 2, 4])
async def test_a_row_that_needs_too_much_memory_ends_no_other_one(at: int) -> None:
    """The rows after it are run in a new state, before the batch that follows."""

    async with loaded(STEPS) as (_, program):
        first = [*calls(range(at)), *calls([at], "memory"), *calls(range(at + 1, 5))]
        runs = [first, calls(range(5), "sleep"), calls(range(5))]
        told, *others = await asyncio.gather(*(_all(program, run, Limits(timeout=9)) for run in runs))
        assert [execution.status for execution in told] == ["memory" if n == at else "ok" for n in range(5)]
        after = [execution.value["label"] for execution in told[at + 1 :]]
        assert after == [",".join(map(str, range(at + 1, n + 1))) for n in range(at + 1, 5)]
        for found in others:
            assert labels(found)[-1] == "0,1,2,3,4"


@pytest.mark.parametrize("ends", ["cancelled", "closed", "box"])
def test_a_run_that_ends_in_the_moment_in_which_it_begins_leaves_nothing(ends: str) -> None:
    async def body() -> None:
        async with loaded(STEPS) as (_, program):
            for steps in range(10):
                groups = program.run_grouped([*calls([0], "sleep"), *calls(range(1, 8))], Limits(timeout=2))
                first = asyncio.ensure_future(anext(groups))
                await asyncio.sleep(0)  # it has the lane
                second = asyncio.ensure_future(_all(program, calls([7], "hang"), Limits(timeout=2)))
                count = len(await first)
                while count < 8:
                    count += len(await anext(groups))
                for _ in range(steps):
                    await asyncio.sleep(0)
                if ends == "box":
                    await box_of(program).close()
                    assert [execution.status for execution in await second] == ["timeout"]
                    return
                if ends == "closed":
                    await program.close()
                second.cancel()
                await asyncio.gather(second, return_exceptions=True)
                assert await anext(groups, None) is None
                if ends == "closed":
                    return
                assert running(program) == []

    gc.collect()
    before = open_files()
    asyncio.run(body())
    assert open_files() <= before


def running(program: Any) -> list[int]:
    """The processes of runs in the program's only box."""
    return procfs.children(box_of(program).inner)


def box_of(program: Any) -> PythonBox:
    return cast(PythonBox, program._lanes[0].box._box)
