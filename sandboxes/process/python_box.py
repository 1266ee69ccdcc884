"""A box with a Python that forks for each run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import Holder, LoadingBox
from sandboxes.boxes.launch import Plan
from sandboxes.boxes.seats import Seat
from sandboxes.guest.supervisor import procfs
from sandboxes.guest.supervisor.driver import NOTHING, After, CallBounds, CallResult
from sandboxes.guest.supervisor.python_run import PythonSupervisor

ENDING = 0.1
"""Seconds until a thread that Python has joined is gone for the kernel too."""


class PythonBox(LoadingBox):
    """A box that loads one Python script, then does one run at a time."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._supervisor = PythonSupervisor(self, ahead=plan.boot["confined"])

    @property
    def modules(self) -> bytes:
        """The modules that the script has imported, one on each line."""
        return self._supervisor.modules

    async def load(self, script: Script, limits: Limits) -> CallResult:
        told = await self._supervisor.load(protocol.load_request(script, limits), protocol.bounds(limits))
        self.left = frozenset(self._supervisor.left)
        return told

    async def imports(self, modules: bytes, script: Script, limits: Limits) -> bool:
        """
        Import the modules; then each run loads the script again in a child of its own.

        False: the modules too leave something behind, or cannot be imported here; then the box cannot be used.
        """
        request = protocol.load_request(script, limits)
        told = await self._supervisor.imports(modules, request, protocol.bounds(limits))
        return told[0] == "reply" and not self._supervisor.shared

    def seat(self, number: int) -> PythonSeat:
        return PythonSeat(self, self.add_seat(number), self._supervisor)

    async def threads(self) -> int:
        """
        Return the number of threads of the inner process after loading or importing, without those that are ending.
        """
        until = self.now() + ENDING
        while (found := procfs.threads(self.inner)) > 1 and self.now() < until:
            await asyncio.sleep(0.002)
        return found

    def run(
        self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool, after: After = NOTHING
    ) -> AsyncGenerator[Sequence[CallResult]]:
        return self._supervisor.run(payloads, bounds, shared, after)

    async def abandon(self) -> None:
        await self._supervisor.abandon()

    async def _end(self) -> None:
        self._supervisor.forget()
        await super()._end()


class PythonSeat(Holder):
    """One run at a time in a box, beside others."""

    def __init__(self, box: PythonBox, seat: Seat, loaded: PythonSupervisor) -> None:
        self._box, self._seat = box, seat
        self._supervisor = PythonSupervisor(seat, ahead=False)
        self._supervisor.load_as(loaded)

    @property
    def alive(self) -> bool:
        return self._box.alive

    @property
    def closed(self) -> bool:
        return self._box.closed

    def begin(self, calls: Sequence[int]) -> None:
        if self._seat.caller is not None:
            self._seat.caller.calls = calls

    async def load(self, script: Script, limits: Limits) -> CallResult:
        return await self._box.load(script, limits)

    def run(
        self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool, after: After = NOTHING
    ) -> AsyncGenerator[Sequence[CallResult]]:
        return self._supervisor.run(payloads, bounds, shared, after)

    async def close(self) -> None:
        await self._box.close()
