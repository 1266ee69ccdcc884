"""The rules of a box, whatever happens in which order: with neither a process nor a clock."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.guest import wire
from sandboxes.guest.machine.box import run_steps
from sandboxes.guest.supervisor.deno_fifo import FramePipe, RequestPipe
from sandboxes.guest.supervisor.deno_run import DenoSupervisor
from sandboxes.guest.supervisor.driver import CallBounds, CallResult
from sandboxes.guest.supervisor.outgoing import Requests
from sandboxes.guest.supervisor.pipes import PrintedOutput
from sandboxes.guest.supervisor.python_run import PythonSupervisor
from tests.sandboxes.supervised import BOUNDS, NO_MEMORY, DenoPlace, Event, ForkingPlace

PAYLOADS = [b'{"status":"ok","value":%d}' % number for number in range(4)]

GOOD = st.sampled_from([("reply", None), ("burst", None), ("part", None), ("late", 0.01), ("print", 8)])
BAD = st.one_of(
    st.tuples(st.just("ended"), st.sampled_from([0, 9, 256])),
    st.sampled_from(
        [
            ("wrong", None),
            ("full", None),
            ("gone", None),
            ("deaf", None),
            ("lingers", None),
            ("print", 1 << 13),
            ("late", 5.0),
            ("no memory", None),
        ]
    ),
)
EVENTS = st.lists(st.one_of(GOOD, GOOD, BAD), max_size=14)

KNOWN = {
    "reply": set[str](),
    "timeout": set[str](),
    "memory": {"full"},
    "flood": {"print"},
    "unreadable": {"wrong"},
    "ended": {"ended", "gone", "worker gone"},
}
"""What must have happened before something is told."""


SCRIPT = b'{"status":"ok","value":null}'
"""Which a child gives back as how loading it went."""


async def first(groups: AsyncGenerator[Sequence[CallResult]], most: int) -> list[CallResult]:
    """So many at most, and what is there with them; what comes after is not waited for."""
    found: list[CallResult] = []
    async with aclosing(groups):
        async for group in groups:
            assert group
            assert len(group) == 1 or all(told[0] != "lost" for told in group)
            found += group
            if len(found) >= most:
                break
    return found


def outcome(place: ForkingPlace, shared: bool, ahead: bool, loads: bool, most: int) -> list[CallResult]:
    """What is told of a run, of which the caller takes so many; `loads`: each child loads the script."""

    async def body() -> list[CallResult]:
        supervisor = PythonSupervisor(place, ahead)
        if loads:
            assert (await supervisor.imports(b"", SCRIPT, BOUNDS))[0] == "reply"
        return await first(supervisor.run(PAYLOADS, BOUNDS, shared), most)

    return run_steps(body())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def check(alive: bool, happened: set[str], found: list[CallResult], most: int) -> None:
    assert len(found) <= len(PAYLOADS)
    if len(found) < min(most, len(PAYLOADS)):
        assert not alive  # the rest is for another box
    for told, payload in zip(found, PAYLOADS, strict=False):
        how, reply, spent, kept, said, _ = told
        assert how in KNOWN
        assert not KNOWN[how] or KNOWN[how] & happened
        # Its own, and never half of one; what it is not the script may have written.
        assert how != "reply" or reply in (payload, NO_MEMORY) or "wrong" in happened
        assert reply != NO_MEMORY or "no memory" in happened
        assert spent >= 0
        assert len(kept) <= min(said, BOUNDS.output)


@given(EVENTS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1, 2, 99]))
def test_whatever_happens_each_request_is_told_of_once(
    events: list[Event], shared: bool, ahead: bool, loads: bool, most: int
) -> None:
    before = open_files()
    place = ForkingPlace(events)
    found = outcome(place, shared, ahead, loads, most)
    check(place.alive, place.happened, found, most)
    assert loads or not any(told[5] for told in found)
    assert place.child is None or place.closed, "a child goes on that nobody waits for"
    assert not place.watching
    place.kill()
    assert open_files() <= before  # garbage of other tests may close its own meanwhile


@given(st.lists(GOOD, max_size=14), st.booleans(), st.booleans(), st.booleans())
def test_a_child_that_keeps_the_rules_is_believed(events: list[Event], shared: bool, ahead: bool, loads: bool) -> None:
    place = ForkingPlace([*events, *[("reply", None)] * 30])
    found = outcome(place, shared, ahead, loads, 99)
    assert [told[:2] for told in found] == [("reply", payload) for payload in PAYLOADS]


async def test_values_that_are_there_together_come_together_and_the_last_once_nothing_is_left() -> None:
    place = ForkingPlace([("burst", None)])

    groups = PythonSupervisor(place, False).run(PAYLOADS, BOUNDS, True)
    assert [(place.watching, [told[1] for told in group]) async for group in groups] == [
        (True, PAYLOADS[:3]),
        (False, PAYLOADS[3:]),
    ]


class Watched(ForkingPlace):
    """With no clock but the one that is set; knows how many pipes were listened to in each `wait`."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__(events)
        self.listened: list[int] = []

    def now(self) -> float:
        return self._passed

    async def wait(self, until: float, /, pause: float = 1e9) -> None:
        self.listened.append(len(self.loop.readers))
        await super().wait(until, pause)


@pytest.mark.parametrize(
    ("seconds", "printed", "pauses"), [(0.0015, 8, True), (0.0015, 60_000, False), (0.05, 8, False)]
)
async def test_results_of_quick_calls_that_print_little_are_left_to_come_together(
    seconds: float, printed: int, pauses: bool
) -> None:
    place = Watched([("late", seconds), ("print", printed), ("reply", None), *[("reply", None)] * 3])
    bounds = CallBounds(1 << 20, 64, 1 << 20, 1 << 12, 1.0, 2.0)

    groups = PythonSupervisor(place, False).run(PAYLOADS, bounds, True)
    assert [told[1] async for group in groups for told in group] == PAYLOADS
    assert (0 in place.listened) is pauses


@pytest.mark.parametrize(("seconds", "pauses"), [(0.0, True), (0.01, False)])
async def test_while_results_are_dealt_with_others_come_together_too(seconds: float, pauses: bool) -> None:
    place = Watched([("late", 0.0015), *[("reply", None)] * 4])

    found: list[bytes] = []
    async for group in PythonSupervisor(place, False).run(PAYLOADS, BOUNDS, True):
        found += [told[1] for told in group]
        place.passes(seconds)
    assert found == PAYLOADS
    assert (0 in place.listened) is pauses


@pytest.mark.skipif(sys.platform != "linux", reason="pipes hold what they hold")
def test_a_child_finds_the_requests_of_a_batch_in_its_pipe() -> None:
    """Else it waits for a host that deals with its results."""
    payloads = [b"x" * 1000] * 256
    place = ForkingPlace([])
    requests = Requests(payloads, place.loop)
    child = os.dup(requests.read)
    try:
        requests.hand_over()
        assert not place.loop.writers  # all is written
        got = b""
        while some := os.read(child, 1 << 16):
            got += some
        assert got == b"".join(wire.HEAD.pack(len(payload)) + payload for payload in payloads)
    finally:
        requests.close()
        os.close(child)


@pytest.mark.parametrize("said", [(b"", b"", b""), (b"", b"x", b""), (b"x", b"", b"y")])
def test_what_each_call_printed_is_told_apart(said: tuple[bytes, ...]) -> None:
    place = ForkingPlace([])
    printed = PrintedOutput(place.wake, BOUNDS.output, BOUNDS.flood, b"-mark-", len(said) + 1, place.loop)
    try:
        os.write(printed.write, b"".join(text + b"-mark-" for text in said) + b"z")
        assert [printed.cut() for _ in said] == [(text, len(text)) for text in said]
        assert printed.cut(False) == (b"z", 1)
    finally:
        printed.close()


def of_deno(events: list[Event], shared: bool, most: int) -> tuple[bool, list[CallResult]]:
    """Whether the box lives after a run in Deno, of which the caller takes so many, and what is told of it."""
    with tempfile.TemporaryDirectory() as folder:
        place = DenoPlace(events, folder)
        os.mkfifo(place.told)
        os.mkfifo(place.asked)
        place.line = FramePipe(place.told, place.wake, place.loop)
        asked = RequestPipe(place.asked, place.loop)
        printed = PrintedOutput(place.wake, BOUNDS.output, BOUNDS.flood, loop=place.loop)

        async def body() -> list[CallResult]:
            supervisor = DenoSupervisor(place, asked, line, printed)
            assert await supervisor.start([], {}, BOUNDS) == b"2.9.8"
            if (await supervisor.load(b"{}", BOUNDS))[0] != "reply":
                await place.close()
                return []
            return await first(supervisor.run(PAYLOADS, BOUNDS, shared), most)

        line = place.line
        try:
            found = run_steps(body())
            return place.alive, found
        finally:
            for pipe in (line, asked, printed):
                pipe.close()
            place.kill()


OF_DENO = st.lists(
    st.one_of(
        st.sampled_from([("reply", None), ("late", 0.01), ("print", 8)]),
        st.sampled_from([("reply", None), ("late", 0.01), ("print", 8)]),
        st.sampled_from([("ended", 0), ("worker gone", None), ("wrong", None), ("full", None), ("print", 1 << 13)]),
        st.just(("late", 5.0)),
    ),
    max_size=14,
)


@given(OF_DENO, st.booleans(), st.sampled_from([1, 2, 99]))
def test_whatever_happens_each_request_in_deno_is_told_of_once(events: list[Event], shared: bool, most: int) -> None:
    before = open_files()
    alive, found = of_deno(events, shared, most)
    check(alive, {name for name, _ in events}, found, most)
    assert open_files() <= before  # garbage of other tests may close its own meanwhile


@given(st.lists(st.sampled_from([("late", 0.01), ("print", 8)]), max_size=9), st.booleans())
def test_a_worker_that_keeps_the_rules_is_believed(events: list[Event], shared: bool) -> None:
    alive, found = of_deno([*events, *[("reply", None)] * 20], shared, 99)
    assert [told[:2] for told in found] == [("reply", payload) for payload in PAYLOADS]
    assert alive
