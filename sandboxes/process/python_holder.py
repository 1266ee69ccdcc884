"""A script in a box that forks: loaded once for all runs, or by each, where loading leaves what runs would share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import Holder
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor.blame import is_well
from sandboxes.guest.supervisor.driver import Bounds, Told
from sandboxes.process.python_box import ForkingBox
from sandboxes.shield import every, finish


class ForkingHolder(Holder):
    """
    The script is loaded in a box. Where that leaves what forks share, or what would act in the process that forks, a
    second box takes its place, in which the script has never run: it imports what the script imported, and each run
    loads the script in its own child.
    """

    def __init__(self, first: ForkingBox, another: Callable[[], Awaitable[ForkingBox]]) -> None:
        self._box = first
        self._boxes = [first]
        self._another = another
        self.left: frozenset[str] = frozenset()

    @property
    def alive(self) -> bool:
        return self._box.alive

    @property
    def closed(self) -> bool:
        return self._box.closed

    async def load(self, script: Script, limits: Limits) -> Told:
        first = self._box
        told = await first.load(script, limits)
        if not is_well(*told[:2]):
            return told
        threads = 1 if first.left else await first.threads()
        if not first.left and threads == 1:
            return told
        fresh = await self._imported(first.modules, script, limits)
        if not first.left and await fresh.threads() >= threads:  # they are of the packages, which cope with forks
            await fresh.close()
            return told
        self._box, self.left = fresh, first.left or frozenset(("threads",))
        await first.close()
        return told

    async def _imported(self, modules: bytes, script: Script, limits: Limits) -> ForkingBox:
        """A box with the modules imported, or with none, where these leave something too. Raises SandboxLostError."""
        for names in (modules, b""):
            box = await self._another()
            self._boxes.append(box)
            if await box.imports(names, script, limits):
                return box
            await box.close()
        raise SandboxLostError("a box without the script could not be made ready for it")

    def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        return self._box.run(payloads, bounds, shared)

    async def close(self) -> None:
        await finish(lambda: every(box.close for box in self._boxes))
