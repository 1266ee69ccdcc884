"""Lanes of one sandbox, shared in fair turns: between runs, and with one lane kept for dry runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import monotonic


class Party:
    """A run, or all dry runs together, that takes turns with others."""

    def __init__(self, dry: bool) -> None:
        self.dry = dry
        self.busy = 0
        self.spent = 0.0
        """Seconds of lanes so far, so that whoever had the least is next."""
        self.waiting: deque[asyncio.Future[None]] = deque()


class Turns:
    """
    Gives out `lanes`: neither runs nor dry runs ever hold all of them. With equal claims, the least served is next.

    A turn is one batch: what runs is never interrupted for another's turn.
    """

    def __init__(self, lanes: int, clock: Callable[[], float] = monotonic) -> None:
        self._most = max(1, lanes - 1)
        self._lanes = max(2, lanes)
        self._clock = clock
        self._dry = Party(dry=True)
        self._parties: list[Party] = [self._dry]

    @property
    def waiting(self) -> int:
        """Batches that wait."""
        return sum(len(party.waiting) for party in self._parties)

    def join(self, dry: bool) -> Party:
        """A new run, or the dry runs' one party. A new one has had as much as the least served of the others."""
        if dry:
            return self._dry
        party = Party(dry=False)
        party.spent = min((other.spent for other in self._parties if not other.dry), default=0.0)
        self._parties.append(party)
        return party

    def leave(self, party: Party) -> None:
        """A run is over. Safe twice."""
        if not party.dry and party in self._parties:
            self._parties.remove(party)

    @asynccontextmanager
    async def turn(self, party: Party) -> AsyncGenerator[None]:
        """Wait for a lane, and hold it."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        party.waiting.append(ready)
        self._grant()
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self._release(party)  # it was granted in the same moment
            elif ready in party.waiting:
                party.waiting.remove(ready)
            raise
        began = self._clock()
        try:
            yield
        finally:
            party.spent += self._clock() - began
            self._release(party)

    def _release(self, party: Party) -> None:
        party.busy -= 1
        self._grant()

    def _grant(self) -> None:
        while sum(party.busy for party in self._parties) < self._lanes:
            able = [party for party in self._parties if party.waiting and self._may(party)]
            if not able:
                return
            party = min(able, key=lambda one: (not one.dry, one.spent))
            ready = party.waiting.popleft()
            if not ready.done():
                party.busy += 1
                ready.set_result(None)

    def _may(self, party: Party) -> bool:
        return sum(other.busy for other in self._parties if other.dry is party.dry) < self._most
