"""A box with a Python in it that forks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import LoadingBox
from sandboxes.boxes.launch import Plan
from sandboxes.guest.supervisor import procfs
from sandboxes.guest.supervisor.driver import Bounds, Told
from sandboxes.guest.supervisor.python_run import PythonSupervisor

ENDING = 0.1
"""Seconds in which a thread that Python has joined is gone for the kernel too."""


class ForkingBox(LoadingBox):
    """Loads one script, then does one run at a time."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._supervisor = PythonSupervisor(self, ahead=plan.boot["confined"])

    @property
    def modules(self) -> bytes:
        """Those that the script has imported, a line each."""
        return self._supervisor.modules

    async def load(self, script: Script, limits: Limits) -> Told:
        told = await self._supervisor.load(protocol.load_request(script, limits), protocol.bounds(limits))
        self.left = frozenset(self._supervisor.left)
        return told

    async def imports(self, modules: bytes, script: Script, limits: Limits) -> bool:
        """
        Has it import the modules, after which each run loads the script anew in a child of its own.

        False: something is left of them too, or they cannot be imported here; the box is of no more use.
        """
        request = protocol.load_request(script, limits)
        told = await self._supervisor.imports(modules, request, protocol.bounds(limits))
        return told[0] == "reply" and not self._supervisor.shared

    async def threads(self) -> int:
        """Of the inner process, when it has loaded or imported; one that ends has some time for it."""
        until = self.now() + ENDING
        while (found := procfs.threads(self.inner)) > 1 and self.now() < until:
            await asyncio.sleep(0.002)
        return found

    def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        return self._supervisor.run(payloads, bounds, shared)
