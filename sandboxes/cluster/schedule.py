"""Which worker takes the next batch, and after how long another one tries it, too."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Protocol

AHEAD = 2
"""Batches that a worker has at once: the second hides the way there and back."""
_LONG = 1.0  # seconds of a batch beside which the way there and back is nothing: one at once, then, as each could wait
_PATIENCE = 3.0  # times as long as a batch usually takes, after which another worker tries it, too
_LEAST = 2.0  # seconds; what takes less holds up nobody
_COPIES = 20  # workers for each batch that is tried twice, while there are batches that nobody has tried
_REMEMBERED = 64  # batches


class Turn(Protocol):
    """A worker, as the schedule sees it."""

    alive: bool
    busy: int
    """The batches that it has."""


class Schedule:
    """
    Gives batches to workers, the least busy one first.

    The clock is the event loop's.
    """

    def __init__(self) -> None:
        self._free: tuple[dict[Turn, None], ...] = tuple({} for _ in range(AHEAD))  # by how busy they are, in order
        self._waiting: deque[tuple[asyncio.Future[Turn], Turn | None]] = deque()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)  # of a row, in the last batches
        self._row = 0.0
        self._batch = 0.0
        self._workers = 0
        self._copies = 0

    def join(self, worker: Turn) -> None:
        """Add a worker that is there."""
        self._workers += 1
        self._free[worker.busy][worker] = None
        self._grant()

    def part(self, worker: Turn) -> None:
        """Remove a worker that is gone. What it has is given back all the same."""
        self._workers -= 1
        if worker.busy < AHEAD:
            self._free[worker.busy].pop(worker, None)

    async def take(self, other: Turn | None = None) -> Turn:
        """
        Return a worker; give it back with `leave`. With `other` it is not that one, and this batch is the next.

        Waits for as long as there is none.
        """
        if (found := self._least_busy(other)) is None:
            ready: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
            place = (ready, other)
            self._waiting.append(place) if other is None else self._waiting.appendleft(place)
            try:
                return await ready
            except BaseException:
                if ready.done() and not ready.cancelled():
                    self.leave(ready.result())  # it was given in the same moment
                elif place in self._waiting:
                    self._waiting.remove(place)
                raise
        return found

    def leave(self, worker: Turn) -> None:
        """Count one batch less for a worker."""
        self._move(worker, -1)
        self._grant()

    def took(self, rows: int, seconds: float) -> None:
        """Note how long a batch of so many rows took a worker."""
        self._seconds.append(seconds / rows)
        self._row = median(self._seconds)
        self._batch = seconds

    def patience(self, rows: int, queued: int) -> float | None:
        """Return the seconds after which a batch behind others of its worker takes too long. None: not known yet."""
        if len(self._seconds) < min(_REMEMBERED, self._workers):
            return None
        return max(_LEAST, _PATIENCE * self._row * rows) * max(1, queued)

    def may_copy(self) -> bool:
        """Say whether a batch may be tried by another worker, too: few are, while others have not been tried at all."""
        return not self._waiting or self._copies * _COPIES < self._workers

    @contextmanager
    def copy(self) -> Iterator[None]:
        """Note that a batch is tried by another worker, too."""
        self._copies += 1
        try:
            yield
        finally:
            self._copies -= 1

    def _least_busy(self, other: Turn | None) -> Turn | None:
        for free in self._free[: self._room]:
            worker = next((worker for worker in free if worker is not other), None)
            if worker is not None:
                self._move(worker, +1)
                return worker
        return None

    def _move(self, worker: Turn, step: int) -> None:
        if worker.alive and worker.busy < AHEAD:
            del self._free[worker.busy][worker]
        worker.busy += step
        if worker.alive and worker.busy < AHEAD:
            self._free[worker.busy][worker] = None

    @property
    def _room(self) -> int:
        return 1 if self._batch > _LONG else AHEAD

    def _grant(self) -> None:
        while self._waiting:
            ready, other = self._waiting[0]
            if ready.done():
                self._waiting.popleft()
                continue
            if (worker := self._least_busy(other)) is None:
                return
            self._waiting.popleft()
            ready.set_result(worker)
