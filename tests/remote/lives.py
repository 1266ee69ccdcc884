"""Lives of machines at the local server, with waits that are short."""

from __future__ import annotations

from sandboxes.remote.lifecycle import Lifecycle
from sandboxes.remote.provider import Machine
from sandboxes.remote.retry import Pauses
from tests.remote.shelf import Shelf

QUICK = Pauses(first=0.001, longest=0.002, total=20)


class Run:
    """A lifecycle over a shelf, and what it said."""

    def __init__(self, shelf: Shelf, pauses: Pauses = QUICK, start_timeout: float = 20) -> None:
        self.said: list[str] = []
        self.shelf = shelf
        self.life = Lifecycle(shelf, pauses, self.said.append, start_timeout=start_timeout, lifetime=60)

    async def create(self) -> Machine:
        return await self.life.create(network=False, memory=1)
