"""A request to a worker, as the process that serves sees it, and what came back so far."""

from __future__ import annotations

import asyncio

from runner.runs.pool.faults import error_of
from runner.runs.pool.frames import Frame, FrameError

HELD = 64 << 20
"""Bytes of a worker's messages that wait or are worked on; with more, nothing is read. One more may be on its way."""
FINAL = ("done", "fault", "cancelled")


class Job:
    """One request to a worker, and what came back so far: `ahead` parts at most, and the last message."""

    def __init__(self, number: int, ahead: int = 0, taken: asyncio.Event | None = None) -> None:
        self.number = number
        self.ended = asyncio.Event()
        self.held = 0
        """Bytes of the messages that wait, and of the last one that was taken: somebody works on it."""
        self._working = 0
        self._taken = taken
        self._ahead = ahead
        self._frames: asyncio.Queue[Frame | Exception] = asyncio.Queue()

    def put(self, item: Frame | Exception) -> None:
        """Take what arrived. Raises FrameError for more parts than may wait here."""
        if isinstance(item, Exception) or item.header.get("kind") in FINAL:
            self.ended.set()
        elif self._frames.qsize() >= self._ahead:
            raise FrameError("more parts than it may send before they are taken")
        self.held += _size(item)
        self._frames.put_nowait(item)

    async def next(self) -> Frame:
        """The next message. Raises what the job failed with, and WorkerLostError."""
        self.held -= self._working
        self._working = 0
        if self._taken is not None:
            self._taken.set()
        item = await self._frames.get()
        self._working = _size(item)
        if self.ended.is_set() and self._frames.empty():
            self.held = self._working = 0  # nobody asks for more
        if isinstance(item, Exception):
            raise item
        if item.header.get("kind") == "fault":
            raise error_of(item.payload)
        return item


def _size(item: Frame | Exception) -> int:
    return 0 if isinstance(item, Exception) else len(item.payload)
