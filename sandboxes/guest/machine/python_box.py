"""A box with a Python that forks for each run, on a provider's machine."""

from __future__ import annotations

import os

from ..box import init
from ..python import zygote
from ..supervisor.python_run import PythonSupervisor
from . import host_facts
from .box import GuestBox

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any

    from ..supervisor.driver import CallBounds, CallResult
    from .event_loop import Ports
    from .spawner import Spawner
    from .types import Boot


class PythonRuntime:
    """What boxes with Python need."""

    processes, descriptors = 48, 64  # as in the process sandbox: a numeric library needs a handful
    program: str | None = None
    pipes: str | None = None
    serve = staticmethod(zygote.serve)
    """What a box does once its rights are given up."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.folders = host_facts.packages(settings["packages"])
        """Folders of packages; whoever starts a box adds all but the last."""
        self._files, self._variables = settings["files"], settings["variables"]
        self.readable = [*self.folders, *{os.path.dirname(path) for path in self._files.values()}]

    def boot(self, walls: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the first message that all boxes share."""
        moved = walls["moved"]
        files = {name: init.moved_path(path, moved) for name, path in self._files.items()}
        packages = init.moved_path(self.folders[-1], moved) if self.folders else None
        return {"packages": packages, "variables": files | self._variables}

    def open(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool) -> GuestBox:
        """Open a box without a script. Raises BoxFailure."""
        return GuestPythonBox(spawner, ports, boot, bare)

    def close(self) -> None:
        """Do nothing, as nothing was made."""


class GuestPythonBox(GuestBox):
    """A Python process that loads one script and forks a child for each run."""

    def __init__(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool) -> None:
        super().__init__(spawner, ports, boot, bare)
        self._supervisor = PythonSupervisor(self, ahead=False)

    async def load(self, script: bytes, bounds: CallBounds) -> CallResult:
        told = await self._supervisor.load(script, bounds)
        self.left, self.modules = self._supervisor.left, self._supervisor.modules
        return told

    async def imports(self, modules: bytes, script: bytes, bounds: CallBounds) -> bool:
        told = await self._supervisor.imports(modules, script, bounds)
        return told[0] == "reply" and not self._supervisor.shared

    def run(self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool) -> AsyncGenerator[Sequence[CallResult]]:
        return self._supervisor.run(payloads, bounds, shared)


make_runtime = PythonRuntime
