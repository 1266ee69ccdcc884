"""A box with Deno."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import LoadingBox
from sandboxes.boxes.launch import BoxSetup, Tier
from sandboxes.deno.box_folder import Folder, FolderBox
from sandboxes.deno.launch import VARIABLES, arguments, load_request
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor.deno_fifo import FramePipe, RequestPipe
from sandboxes.guest.supervisor.deno_run import DenoSupervisor
from sandboxes.guest.supervisor.driver import NOTHING, After, BoxFailure, CallBounds, CallResult
from sandboxes.guest.supervisor.pipes import PrintedOutput


class DenoBox(FolderBox, LoadingBox):
    """A Deno process that loads one script and starts a Worker for each run."""

    def __init__(self, tier: Tier, setup: BoxSetup, bwrap: str | None) -> None:
        self._line: FramePipe | None = None
        self._setup = setup
        self._pipes: list[RequestPipe | FramePipe | PrintedOutput] = []
        super().__init__(tier, setup, bwrap, Folder(pipes=("asked", "told")))

    @property
    def alive(self) -> bool:
        return super().alive if self._line is None else not (self.closed or self._line.ended)

    async def load(self, script: Script, limits: Limits) -> CallResult:
        """Load a script as `LoadingBox` does. Raises SandboxLostError if Deno does not start."""
        bounds = protocol.bounds(limits)
        printed = PrintedOutput(self.wake, bounds.output, bounds.flood)
        self._pipes.append(printed)
        self._line = FramePipe(f"{self._folder.path}/told", self.wake, now=self.now)
        self._pipes.append(self._line)
        asked = RequestPipe(f"{self._folder.path}/asked")
        self._pipes.append(asked)
        self._supervisor = DenoSupervisor(self, asked, self._line, printed)
        try:
            written = self._setup.written_in(self._plan.tier)
            net = [f"{address}:{port}" for address, port in self._plan.boot.get("listen", ())] + written.places()
            command = arguments(self._plan.boot["pipes"], bounds.memory, net)
            await self._supervisor.start(command, VARIABLES | written.variables(), bounds)
        except BoxFailure as e:
            await self.close()
            raise SandboxLostError(str(e)) from e
        finally:
            self._folder.remove()
        request = load_request(script, net, self._setup.variables)
        return await self._supervisor.load(request, bounds)

    def run(
        self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool, after: After = NOTHING
    ) -> AsyncGenerator[Sequence[CallResult]]:
        return self._supervisor.run(payloads, bounds, shared)

    async def _end(self) -> None:
        await super()._end()
        for pipe in self._pipes:
            pipe.close()
        self.wake()  # for tasks that wait for the box
        if self._beside is not None:
            await asyncio.wait({self._beside})
