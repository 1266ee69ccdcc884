"""A script in a box that forks: loaded once for all runs, or by each, where loading leaves what runs would share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import Holder
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor.run import Request
from sandboxes.process.python_box import ForkingBox
from sandboxes.protocol import Raw
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

    async def load(self, script: Script, limits: Limits) -> Raw:
        first = self._box
        raw = await first.load(script, limits)
        if not protocol.is_well(raw.how, raw.payload):
            return raw
        threads = 1 if first.left else await first.threads()
        if not first.left and threads == 1:
            return raw
        fresh = await self._imported(first.modules, script, limits)
        if not first.left and await fresh.threads() >= threads:  # they are of the packages, which cope with forks
            await fresh.close()
            return raw
        self._box, self.left = fresh, first.left or frozenset(("threads",))
        await first.close()
        return raw

    async def _imported(self, modules: bytes, script: Script, limits: Limits) -> ForkingBox:
        """A box with the modules imported, or with none, where these leave something too. Raises SandboxLostError."""
        for names in (modules, b""):
            box = await self._another()
            self._boxes.append(box)
            try:
                if await box.imports(names, script, limits):
                    return box
            except SandboxLostError:
                if not names:
                    raise
            await box.close()
        raise SandboxLostError("a box without the script could not be made ready for it")

    async def run(self, requests: Sequence[Request], limits: Limits, shared: bool) -> AsyncGenerator[Raw]:
        async with contextlib.aclosing(self._box.run(requests, limits, shared)) as told:
            async for raw in told:
                yield raw

    async def close(self) -> None:
        await finish(lambda: every(box.close for box in self._boxes))
