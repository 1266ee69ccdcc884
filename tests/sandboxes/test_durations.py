"""How long a call took, and since when its time counts, where several share a process and the host looks late."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes import Limits
from sandboxes.guest.supervisor.timing import Timing
from tests.sandboxes.backends import BACKENDS, Backend, calls, unavailable
from tests.sandboxes.languages import Source

WORKS = Source(
    python="""
import time
def evaluate(n):
    until = time.perf_counter() + 0.004
    while time.perf_counter() < until: pass
    while n == 11: pass
    return n
""",
    typescript="""
function evaluate({ n }) {
  const until = performance.now() + 4;
  while (performance.now() < until);
  while (n === 11);
  return n;
}
""",
)
HELD_UP = 0.5
"""Seconds in which the host does something else; longer than the timeout."""


@pytest.fixture(params=[b for b in BACKENDS if b.id in ("process-A-batch", "deno-A-batch")], ids=lambda b: b.id)
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    if missing := unavailable(found):
        pytest.skip(missing)
    return found


async def test_a_host_that_looks_late_shortens_no_call_and_gives_none_more_time(backend: Backend) -> None:
    async with backend.make("batch") as sandbox:
        program = await sandbox.load(backend.script(WORKS), Limits())
        found = []
        batch = [call.model_copy(update={"arguments": {"n": call.id}}) for call in calls(12)]
        async for execution in program.run(batch, Limits(timeout=0.3)):
            found.append(execution)
            if execution.call in (0, 10):
                time.sleep(HELD_UP)  # the loop stands still
        await program.close()
        *worked, hung = found
    assert [e.status for e in worked] == ["ok"] * 11
    assert min(e.duration for e in worked) >= 0.0035  # browsers' clocks tick coarsely
    assert hung.status == "timeout"
    assert hung.duration >= HELD_UP


seconds = st.floats(0, 10)


@given(st.lists(st.tuples(seconds, seconds | st.just(float("inf")))))
def test_what_calls_say_they_took_is_believed_as_far_as_time_has_passed(steps: list[tuple[float, float]]) -> None:
    timing, now, told = Timing(), 100.0, 0.0
    timing.start(now)
    for passed, took in steps:
        now += passed
        spent = timing.spend(took, now)
        told += spent
        assert 0 <= spent <= took
        assert told <= now - 100 + 1e-6


@pytest.mark.parametrize("nothing", [-1.0, float("nan"), float("-inf")])
def test_where_nothing_is_said_it_is_what_the_host_saw(nothing: float) -> None:
    timing = Timing()
    timing.start(100.0)
    assert timing.spend(nothing, 103.0) == 3


@given(st.lists(seconds, min_size=1))
def test_what_is_said_truly_is_believed_whenever_the_host_looks(steps: list[float]) -> None:
    timing, late = Timing(), 100.0 + sum(steps)
    timing.start(100.0)
    assert [timing.spend(took, late) for took in steps] == pytest.approx(steps)
