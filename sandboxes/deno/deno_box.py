"""A box with Deno in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import LoadingBox
from sandboxes.boxes.launch import Shown, Tier
from sandboxes.deno.box_folder import Folder, FolderBox
from sandboxes.deno.launch import VARIABLES, arguments, setting
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor.deno_fifo import Asked, Line
from sandboxes.guest.supervisor.deno_run import DenoSupervisor
from sandboxes.guest.supervisor.driver import Bounds, Broken, Told
from sandboxes.guest.supervisor.pipes import Printed


class DenoBox(FolderBox, LoadingBox):
    """One Deno process, which loads one script. A Worker for each run."""

    def __init__(self, tier: Tier, shown: Shown, bwrap: str | None) -> None:
        self._line: Line | None = None
        self._pipes: list[Asked | Line | Printed] = []
        super().__init__(tier, shown, bwrap, Folder(pipes=("asked", "told")))

    @property
    def alive(self) -> bool:
        return super().alive if self._line is None else not (self.closed or self._line.ended)

    async def load(self, script: Script, limits: Limits) -> Told:
        """As `LoadingBox` says. Raises SandboxLostError where Deno does not start."""
        bounds = protocol.bounds(limits)
        printed = Printed(self.wake, bounds.output, bounds.flood)
        self._pipes.append(printed)
        self._line = Line(f"{self._folder.path}/told", self.wake)
        self._pipes.append(self._line)
        asked = Asked(f"{self._folder.path}/asked")
        self._pipes.append(asked)
        self._supervisor = DenoSupervisor(self, asked, self._line, printed)
        try:
            await self._supervisor.start(arguments(self._plan.boot["pipes"], bounds.memory), VARIABLES, bounds)
        except Broken as e:
            await self.close()
            raise SandboxLostError(str(e)) from e
        finally:
            self._folder.remove()
        return await self._supervisor.load(setting(script), bounds)

    def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        return self._supervisor.run(payloads, bounds, shared)

    async def _end(self) -> None:
        await super()._end()
        for pipe in self._pipes:
            pipe.close()
        self.wake()  # for who waits for what will not come
        if self._beside is not None:
            await asyncio.wait({self._beside})
