"""Runs beside each other in one box, each in a child of its own: for scripts whose own clients wait for judges."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sandboxes.boxes.channel import Waiter
from sandboxes.boxes.memory_watch import LOOK
from sandboxes.guest.supervisor import procfs

if TYPE_CHECKING:
    from sandboxes.boxes.box import Box
    from sandboxes.guest.supervisor.driver import Message
    from sandboxes.judges.door import Caller, Ends

_LOOKED_AT = 200
"""Runs whose memory is looked at in a second."""

MOST_THREADS = 48
"""Of one run; those of all are bounded by the kernel, together."""

_PATIENCE = 10.0
"""Seconds in which a box must end a run."""


class Seats:
    """
    All that run in one box.

    Args:
        box: Their box, with a door to judges.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self.running: set[Seat] = set()
        self.together = False
        """Whether several ran when the box ended, so that none of them is to blame for sure."""
        self._known: dict[int, Seat] = {}
        self._watch: asyncio.Task[None] | None = None
        if box.door is not None:
            box.door.owners = self.owners

    def add(self, number: int) -> Seat:
        """Return a seat for one run at a time."""
        seat = self._known[number] = Seat(self, number, self.box.door.caller() if self.box.door else None)
        return seat

    def owners(self) -> tuple[dict[Ends, Caller], list[Caller]]:
        """
        Return whose each connection is, and those of whom the kernel does not tell. From any thread.

        A run whose descriptors are seen has none of another's: it can hide its own alone, in a message to itself.
        """
        ends = procfs.connections(self.box.inner)
        owned: dict[Ends, Caller] = {}
        unknown: list[Caller] = []
        for one in self.running.copy():
            found = procfs.descriptors(one.inner).values() if one.inner else ()
            if one.caller is not None:
                owned |= {ends[place]: one.caller for place in found if place in ends}
                unknown += [] if found else [one.caller]
        return owned, unknown

    def deliver(self) -> None:
        """Hand on what the box has said, or that it is gone."""
        while (heard := self.box.message()) is not None:
            number = heard[0].get("seat")
            if type(number) is int and (seat := self._known.get(number)) is not None:
                seat.hear(heard)
        if self.box.gone:
            self.together = self.together or len(self.running) > 1
            for seat in self.running:
                seat.wake()

    def find(self, inner: int) -> int:
        """Return the number by which this machine knows a child of the box's."""
        known = {seat.inner for seat in self.running}
        others = (pid for pid in reversed(procfs.children(self.box.inner)) if pid not in known)
        return next((pid for pid in others if procfs.inner_pid(pid) == inner), 0)

    def watch(self) -> None:
        """Look at the memory and the threads of all that run, from now on."""
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._loop())

    async def _loop(self) -> None:
        while self.running:
            await asyncio.sleep(max(LOOK, len(self.running) / _LOOKED_AT))
            running = {seat: seat.inner for seat in self.running if seat.inner}
            over = await asyncio.to_thread(self._over, running)
            for seat, what in over.items():
                if seat.inner == running[seat]:
                    seat.full = what
                    seat.wake()
            if len(procfs.children(self.box.inner)) > len(self._known):
                self.box.end()  # a script in the process that forks started what nobody asked for

    def _over(self, running: dict[Seat, int]) -> dict[Seat, str]:
        found = {seat: "memory" for seat, pid in running.items() if procfs.memory([pid], seat.limit) > seat.limit}
        return found | {seat: "processes" for seat, pid in running.items() if procfs.threads(pid) > MOST_THREADS}

    async def close(self) -> None:
        """Stop watching. Safe twice."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)


class Seat(Waiter):
    """One run at a time beside others; the `Driver` of its supervisor, as the box is of one that runs alone."""

    def __init__(self, seats: Seats, number: int, caller: Caller | None) -> None:
        super().__init__()
        self._seats, self._number = seats, number
        box = self._box = seats.box
        self.memory, self.reserved_and_held, self.shortage = box.memory, box.reserved_and_held, box.shortage
        self.finish, self.run_aside, self.end = box.finish, box.run_aside, box.end
        self._heard: deque[Message] = deque()
        self.caller = caller
        """Who its run is for the door."""
        self.inner = 0
        """The process of the run, once it is known."""
        self.limit = 0
        self.full = ""
        self.tmp: str | None = None
        self.longest = box.longest
        if caller is not None:
            self.now = caller.clock.now

    @property
    def alive(self) -> bool:
        return self._box.alive

    @property
    def gone(self) -> bool:
        return self._box.gone

    def hear(self, message: Message) -> None:
        if "began" in message[0]:
            self.inner = self._seats.find(message[0]["began"])
        else:
            self._heard.append(message)
        self.wake()

    def message(self) -> Message | None:
        return self._heard.popleft() if self._heard else None

    async def send(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
        if message["do"] == "run":
            self.inner = 0
            self._heard.clear()
        await self._box.send({**message, "seat": self._number}, parts, fds)

    async def stopped(self, until: float) -> Message:
        """Wait longer than for a run that is alone: the process that ends it may be forking others."""
        return await self.receive(until + _PATIENCE)

    def watch(self, limit: int) -> None:
        self.limit, self.full = limit, ""
        self._seats.running.add(self)
        self._seats.watch()

    def unwatch(self) -> None:
        self._seats.running.discard(self)

    async def excess(self) -> str:
        """Return nothing: a run that has ended has left nothing."""
        return ""

    async def end_reason(self) -> tuple[str, bytes]:
        how, why = await self._box.end_reason()
        return ("lost" if self._seats.together else how), why

    def sweep(self) -> bool:
        return False

    async def close(self) -> None:
        """End the box, as what is left of a run cannot be ended otherwise."""
        self._seats.together = self._seats.together or len(self._seats.running) > 1
        await self._box.close()
