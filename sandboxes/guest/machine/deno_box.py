"""A box with Deno, on a provider's machine. With isolation `call` there is no second box."""

from __future__ import annotations

import contextlib
import os

from ..box import init
from ..deno import exec as deno
from ..supervisor import deno_fifo
from ..supervisor.deno_fifo import FramePipe, RequestPipe
from ..supervisor.deno_run import DenoSupervisor
from ..supervisor.driver import BoxFailure, CallBounds
from ..supervisor.pipes import PrintedOutput
from . import host_facts
from .box import GuestBox, run_steps
from .event_loop import nothing

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any

    from ..supervisor.driver import CallResult
    from .event_loop import Ports
    from .spawner import Spawner
    from .types import Boot


_PIPES = ("asked", "told")


class DenoRuntime:
    """What boxes with Deno need: the program, and a folder for two named pipes."""

    folders: Sequence[str] = ()
    serve = staticmethod(deno.serve)
    """What a box does once its rights are given up."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.processes, self.descriptors = deno_fifo.THREADS + 3 * (os.cpu_count() or 1), deno_fifo.DESCRIPTORS
        self.program = host_facts.program("deno", host_facts.packages(settings["packages"]))
        self.missing = "" if self.program else "Deno is not where it should be installed"
        self.pipes = f"{host_facts.TMP}/evalcell-{os.getrandom(8).hex()}"
        try:
            os.mkdir(self.pipes)
            # Not closed to the box's user, whoever that will be. Nobody else is there, and a frame has a key besides.
            os.chmod(self.pipes, 0o755)
        except OSError as error:
            self.missing = f"no named pipes can be made in {host_facts.TMP}: {error.strerror}"
        self.readable = [] if self.missing or not self.program else [self.program, self.pipes]

    def boot(self, walls: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the first message that all boxes share. There is no folder to write to."""
        program, pipes = (init.moved_path(path, walls["moved"]) for path in (self.program or "", self.pipes))
        return {"program": program, "pipes": pipes, "tmp": None}

    def open(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool) -> GuestBox:
        """Open a box with Deno and no script yet. Raises BoxFailure."""
        if self.missing:
            raise BoxFailure(self.missing)
        self.clear()
        for name in _PIPES:
            os.mkfifo(f"{self.pipes}/{name}")
            os.chmod(f"{self.pipes}/{name}", 0o666)
        return GuestDenoBox(spawner, ports, boot, bare, self)

    def clear(self) -> None:
        """Remove the pipes, so that nobody can open them."""
        for name in _PIPES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.pipes}/{name}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.clear()
            os.rmdir(self.pipes)


class GuestDenoBox(GuestBox):
    """A Deno process that loads one script and starts a Worker for each run."""

    def __init__(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool, runtime: DenoRuntime) -> None:
        self._line: FramePipe | None = None
        self._pipes: list[RequestPipe | FramePipe | PrintedOutput] = []
        super().__init__(spawner, ports, boot, bare)
        try:
            run_steps(self._launch(runtime))
        except BaseException:
            run_steps(self.close())
            raise

    async def _launch(self, runtime: DenoRuntime) -> None:
        """Let the inner process become Deno. Raises BoxFailure."""
        bounds, deno = runtime.settings["limits"], runtime.settings["deno"]
        self._line = FramePipe(f"{runtime.pipes}/told", nothing, self.loop)
        self._pipes.append(self._line)
        printed = PrintedOutput(nothing, bounds.output, bounds.flood, loop=self.loop)
        self._pipes.append(printed)
        asked = RequestPipe(f"{runtime.pipes}/asked", self.loop)
        self._pipes.append(asked)
        self._supervisor = DenoSupervisor(self, asked, self._line, printed)
        arguments = [word.replace(deno["pipes"], self._boot["pipes"]) for word in deno["arguments"]]
        try:
            greeting = await self._supervisor.start(arguments, deno["variables"], bounds)
        finally:
            runtime.clear()
        self.tells = {"deno": greeting.decode("utf-8", "replace")[:32]}

    @property
    def alive(self) -> bool:
        return super().alive if self._line is None else not (self.closed or self._line.ended)

    async def load(self, script: bytes, bounds: CallBounds) -> CallResult:
        """Load a script as `Box` does; `script` is the first message to main.js."""
        return await self._supervisor.load(script, bounds)

    def run(self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool) -> AsyncGenerator[Sequence[CallResult]]:
        return self._supervisor.run(payloads, bounds, shared)

    async def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        await super().close()


make_runtime = DenoRuntime
