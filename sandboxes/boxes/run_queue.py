"""Runs that wait for one of a program's lanes, in their order; the next one may be prepared while another ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from sandboxes.base import Limits
from sandboxes.host.shield import finish


class BoxLane(Protocol):
    """What runs one turn at a time."""

    @property
    def is_loaded(self) -> bool:
        """Whether it can run at once."""

    def abandon(self) -> Awaitable[None]:
        """Stop the run that was begun in it for a turn that is given up."""


L = TypeVar("L", bound=BoxLane)


class RunSlot(Generic[L]):
    """A run that waits for a lane, or has one."""

    def __init__(self, payloads: Sequence[bytes], limits: Limits) -> None:
        self.payloads = payloads
        self.limits = limits
        self.lane: L | None = None
        """The lane that it has, or will have."""
        self.arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class RunQueue(Generic[L]):
    """Hands lanes to turns."""

    def __init__(self, lanes: Iterable[L]) -> None:
        self._free = list(lanes)
        self._waiting: deque[RunSlot[L]] = deque()

    async def take(self, turn: RunSlot[L]) -> None:
        """Wait for a lane, and set it. A turn that is cancelled leaves nothing that was begun for it."""
        if self._free:
            turn.lane = min(self._free, key=lambda lane: not lane.is_loaded)
            self._free.remove(turn.lane)
            return
        self._waiting.append(turn)
        try:
            await turn.arrived
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif turn.lane is not None:  # it was handed over a moment ago
                try:
                    await finish(turn.lane.abandon)
                finally:
                    self.release(turn)
            raise

    def following(self, turn: RunSlot[L]) -> Sequence[bytes]:
        """
        Return the requests of the turn that will have this one's lane, with the same limits; empty if there is none.
        """
        found = self._next(turn.lane)
        if found is None or found.limits != turn.limits:
            return ()
        found.lane = turn.lane
        return found.payloads

    def release(self, turn: RunSlot[L]) -> None:
        """Hand the lane on. Safe twice."""
        lane, turn.lane = turn.lane, None
        if lane is None:
            return
        following = self._next(lane) or next(self._wanting(), None)  # one that another lane is kept for waits no longer
        if following is None:
            self._free.append(lane)
            return
        self._waiting.remove(following)
        following.lane = lane
        following.arrived.set_result(None)

    def _next(self, lane: L | None) -> RunSlot[L] | None:
        """The first turn that waits for this lane, or else for any."""
        mine = (each for each in self._wanting() if each.lane is lane)
        others = (each for each in self._wanting() if each.lane is None)
        return next(mine, None) or next(others, None)

    def _wanting(self) -> Iterator[RunSlot[L]]:
        """The turns that wait, but for those that are cancelled and do not know it yet."""
        return (each for each in self._waiting if not each.arrived.done())
