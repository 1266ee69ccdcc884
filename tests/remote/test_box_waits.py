"""A box on a machine, which looks at its memory while it waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from sandboxes.guest.machine import box as boxes
from sandboxes.guest.machine.box import GuestBox, run_steps
from sandboxes.guest.supervisor.driver import CallBounds, CallResult


class Clock:
    """Time that passes where something waits or looks."""

    def __init__(self) -> None:
        self.now = 100.0

    def wait(self, until: float) -> None:
        self.now = max(self.now, until)


class Crowded(GuestBox):
    """Of which a look takes its time, and always finds too much."""

    def __init__(self, clock: Clock, look: float) -> None:
        self._full, self._look_at, self._limit = "", clock.now + 0.05, 1
        self._clock, self._look = clock, look
        self.loop: Any = clock

    async def load(self, script: bytes, bounds: CallBounds) -> CallResult:
        raise AssertionError

    def run(self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool) -> AsyncGenerator[Sequence[CallResult]]:
        raise AssertionError

    async def excess(self) -> str:
        self._clock.now += self._look
        return "memory"


@pytest.mark.parametrize(("left", "found"), [(1.0, "memory"), (0.06, "")])
def test_a_pause_keeps_what_a_long_look_finds_in_the_scripts_time(
    left: float, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(boxes, "now", lambda: clock.now)
    box, until = Crowded(clock, look=0.04), clock.now + left
    while clock.now < until and not box.full:
        run_steps(box.wait(until, 0.004))
    assert box.full == found
