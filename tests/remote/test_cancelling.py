"""Whoever stops a run, at whatever wait of any of its tasks: no machine is left, no row is judged wrongly."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import pytest

from sandboxes.remote.provider import UnreachableError
from tests.remote.speaker import Memory, Speaker
from tests.remote.trying import SCRIPT, Tried, Trying, scored, script
from tests.stopping import EVERY, Stopping

pytestmark = [pytest.mark.timeout(60), pytest.mark.rotating("providers", "remote")]

ROWS = 18
"""Two batches, so that two machines are made at once and both work."""

TRIED = 8
"""Waits of a run at a real machine that are tried besides the first."""

Breaks = Callable[[Speaker], None]


def well(speaker: Speaker) -> None:
    """Nothing goes wrong."""


def answers_lost(speaker: Speaker) -> None:
    """Each first answer of a kind is lost, after what was asked is done."""
    speaker.after = lambda what, times: UnreachableError("cut") if times == 1 else None


def machine_lost(speaker: Speaker) -> None:
    """A machine breaks off in a batch."""
    speaker.wrong = lambda frame: UnreachableError("cut") if frame == 9 else None


@pytest.mark.parametrize(
    ("breaks", "again", "scoped"),
    [
        (well, (), False),
        (answers_lost, (3,), False),
        (machine_lost, (), False),
        (machine_lost, (2, 5, 9), False),
        (well, EVERY, False),
        (answers_lost, (), True),
    ],
)
def test_cancelled_at_every_wait(
    breaks: Breaks, again: Collection[int], scoped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path))
    n = 0
    while True:
        n += 1
        memory, stopping = Memory(breaks, ROWS), Stopping(n, again, scoped)
        stopping.run(memory.work)
        memory.check(f"cancelled at wait {n}, and {again} later, by anyio: {scoped}")
        if not stopping.struck:
            assert len(memory.tried.results) == ROWS
            break
    assert n > 50


def test_cancelled_while_a_real_machine_works(trying: Trying, tmp_path: Path) -> None:
    files = {"A": str(tmp_path / "a")}
    Path(files["A"]).write_text("a file that each machine is sent")
    # A run takes a second here, so not every wait can be tried, as above it is. The first ones are when there begins
    # to be something to lose; of the others every so many, by a number that meets each step of a run at some place.
    whole = Stopping(1 << 30)
    tried = Tried()
    whole.run(lambda: scored(trying.sandbox(files=files), tried, 4, script(SCRIPT)))
    assert len(tried.results) == 4
    points = [*range(1, 5), *range(5, whole.waits, max(1, whole.waits // TRIED))]
    for place, n in enumerate(points):
        tried, stopping = Tried(), Stopping(n, scoped=place % 2 == 1)
        stopping.run(partial(scored, trying.sandbox(files=files), tried, 4, script(SCRIPT)))
        trying.after(tried)
