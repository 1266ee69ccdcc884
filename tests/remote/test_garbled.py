"""What arrives spoilt is never a result: its machine is given up, and its rows are run by another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remote.speaker import Memory, Speaker

ROWS = 3
FRAMES = 2 + 3 + 3 + ROWS
"""A greeting; a load; and a batch: each greets and says when it is done, the last two say how loading went."""


def foreign(said: bytes) -> bytes:
    return json.dumps(json.loads(said) | {"mark": "0" * 32}).encode() + b"\n"


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "nothing comes": lambda said: b"",
    "it comes twice": lambda said: said + said,
    "its end is missing": lambda said: said[:-1],
    "its beginning is missing": lambda said: said[5:],
    "something stands before it": lambda said: b"Warning: low disk\n" + said,
    "something stands after it": lambda said: said + b"\x00",
    "a stranger says it": foreign,
    "it has no end": lambda said: b"x" * (80 << 20),
}


@pytest.mark.parametrize("how", SPOILT.values(), ids=SPOILT)
def test_a_frame_that_arrives_spoilt_costs_no_row(
    how: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path))
    for number in range(1, FRAMES + 1):

        def prepare(speaker: Speaker, number: int = number) -> None:
            speaker.mangle = lambda frame, said: how(said) if frame == number else said

        memory = Memory(prepare, ROWS, jobs=1)
        asyncio.run(asyncio.wait_for(memory.work(), 20))
        memory.check(f"at frame {number}")
        scores = {str(row): row for row in range(ROWS)}
        assert memory.tried.scores == scores, f"at frame {number}: {memory.tried}"
        assert memory.speaker
        assert memory.speaker.frames >= FRAMES - 1
