"""
What goes wrong at a provider once is not seen in the results, and what goes wrong for good leaves no machine.

A run asks for a machine, starts three programs in it, which greet, load the script and run the batch, and kills it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from sandboxes import Call, Limits, Program, SandboxLostError, SandboxUnavailableError
from sandboxes.remote import pool, stream
from sandboxes.remote.retry import Pauses
from tests.remote.trying import LIMITS, SCRIPT, Tried, Trying, owed
from tests.scripts import python

pytestmark = [pytest.mark.timeout(60), pytest.mark.rotating("faults at a provider", "remote")]

BRIEF = Pauses(first=0.02, longest=0.1, total=0.5)

STEPS = {
    "e2b": ("create", "upload", "start", "kill"),
    "modal": ("app", "image", "create", "start", "stdin", "read", "kill"),
}
"""The operations of a run."""

AGAIN = ("upload", "start", "stdin", "read")
"""Those that each program needs."""

NTHS = {"cut-after": (1, 3), "garbage": (3,)}
"""
Which requests of these fail: else each second one, so that what is asked again does not fail too. After an answer
that was lost all was done, and after garbage nobody knows what was: then a row that is tried twice must not meet it
twice.
"""

LARGE = 'def evaluate(output):\n    return {"score": len(output), "explanation": "x" * 400_000}\n'
"""Replies that come at once may share a frame of the local services, which holds 64 KiB: one of these is six."""

RUN = 3
"""The program that runs the batch is the third to start, where nothing goes wrong."""

ONCE: dict[str, dict[str, Any]] = {
    "500": {"do": "status:500"},
    "502": {"do": "status:502"},
    "503": {"do": "status:503", "headers": {"Retry-After": "0"}},
    "too often": {"do": "rate", "after": 0.1},
    "not done and cut": {"do": "cut-before"},
    "done and cut": {"do": "cut-after"},
    "garbage": {"do": "garbage"},
}


@pytest.mark.parametrize("fault", ONCE.values(), ids=ONCE)
def test_what_fails_once_at_each_step_is_not_seen(trying: Trying, fault: dict[str, Any]) -> None:
    do = fault["do"]
    for op in STEPS[trying.name]:
        for nth in NTHS.get(do, (1, 3, 5)) if op in AGAIN else (1,):
            if (op, do) != ("read", "cut-after"):  # what cuts the connection elsewhere ends it before
                trying.server.fault(op, nth=nth, **fault)
    trying.recovered()


def test_a_machine_that_comes_after_we_gave_up_is_found_or_ended(trying: Trying) -> None:
    trying.server.fault("create", "slow:0.6")
    trying.server.fault("create", "late:0.6", nth=2)
    trying.recovered(start_timeout=0.3)
    time.sleep(0.8)  # until what we gave up on was done
    assert trying.server.state().machines == []


def test_a_full_account_is_waited_for(trying: Trying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_AGAIN", 0.1)
    trying.server.fault("create", "full", times=2)
    trying.server.fault("kill", "full")  # Modal has one status for all that is too much
    assert trying.recovered().created == 1


def test_an_account_with_room_for_one_machine_is_enough(trying: Trying) -> None:
    trying.server.fault("create", "full", nth=2, times=1000)
    assert trying.recovered(20, jobs=2).created == 1


@pytest.mark.parametrize("do", ["status:500", "full", "cut-before", "garbage"])
def test_without_a_machine_nothing_is_judged(trying: Trying, do: str) -> None:
    trying.server.fault("create", do, times=1000)
    tried = trying.run(wait=0.3, pauses=BRIEF)
    assert isinstance(tried.error, SandboxUnavailableError)
    assert tried.results == []
    state = trying.server.state()
    assert state.machines == []
    # A service that failed may carry out its order yet: then the ledger keeps it, and says so.
    assert not owed() or any("evalcell reap" in line for line in tried.said)


def test_a_stream_that_breaks_at_any_frame_costs_no_row(trying: Trying) -> None:
    calls = [Call(id=n, arguments={"output": "x" * n}) for n in range(2)]

    async def body() -> int:
        async with trying.sandbox() as sandbox:
            program = await sandbox.load(python(SCRIPT), LIMITS)
            for frame in range(1, 100):
                trying.server.fault("start", f"cut-frame:{frame}")
                values = await answered(program, calls)
                assert values == {0: 0, 1: 1}, f"cut at frame {frame}"
                if trying.server.state().pending:
                    return frame
        raise AssertionError("there is no end of frames")

    assert asyncio.run(body()) > len(calls)
    trying.after(Tried())


async def answered(program: Program, calls: list[Call]) -> dict[int, object]:
    """The values by call; what had none when the machine was lost is run once more by itself, as the engine does."""
    found: dict[int, object] = {}
    with suppress(SandboxLostError):
        async for execution in program.run(calls, LIMITS):
            found[execution.call] = execution.value
    for call in calls:
        if call.id not in found:
            (execution,) = [e async for e in program.run([call], LIMITS)]
            found[call.id] = execution.value
    return found


@pytest.mark.parametrize("fault", ["die-frame:2", "die-frame:6", "kill-frame:1", "kill-frame:5"])
def test_a_machine_that_dies_in_a_batch_costs_no_row(trying: Trying, fault: str) -> None:
    trying.server.fault("start", fault, nth=RUN)
    trying.recovered(source=LARGE)


def test_a_machine_that_falls_silent_costs_no_row(trying: Trying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_SLACK", 0.2)
    # Of the first row, as a busy machine may not have read another one yet when the run begins.
    trying.server.fault("start", "stall-frame:4", nth=RUN, after=20)
    assert trying.recovered(source=LARGE, limits=Limits(timeout=2), slack=1).created == 2


def test_a_machine_that_hangs_is_ended_by_the_provider(trying: Trying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_START", 1.0)
    monkeypatch.setattr(stream, "_SLACK", 0.2)
    trying.server.fault("start", "freeze-frame:2", nth=RUN)
    # The time that the provider is told is over before we lose our patience.
    assert trying.recovered(1, limits=Limits(timeout=0.3, load_timeout=0.5), slack=20).created == 2


def test_a_machine_is_prolonged_though_that_failed_once(trying: Trying) -> None:
    if trying.name == "modal":
        pytest.skip("a machine's life cannot be prolonged there")
    trying.server.fault("extend", "status:503")
    source = "import time\ndef evaluate(output):\n    time.sleep(0.8)\n    return len(output)\n"
    state = trying.recovered(4, source=source, lifetime=3)
    assert state.created == 1
    assert state.requests["extend"] > 1


def test_a_row_that_never_ends_is_ended_there(trying: Trying) -> None:
    source = (
        "import time\ndef evaluate(output):\n    time.sleep(600 if output == 'xx' else 0)\n    return len(output)\n"
    )
    tried = trying.run(5, source=source, limits=Limits(timeout=0.3))
    assert trying.after(tried).created == 1
    assert tried.scores == {"0": 0, "1": 1, "2": None, "3": 3, "4": 4}
    assert tried.outcomes["2"] == "failed"


def test_what_no_machine_survives_is_lost_and_nothing_else_is(trying: Trying) -> None:
    trying.server.fault("start", "kill-frame:1", nth=RUN, times=1000)
    tried = trying.run(2, source=SCRIPT.replace("0.01", "1"))  # no row may be there with the frames before it
    trying.after(tried)
    assert tried.outcomes == {"0": "lost", "1": "lost"}
