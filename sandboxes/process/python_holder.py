"""A Python script in a box: loaded once, or by each run if loading leaves something that runs would share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from sandboxes.base import Isolation, Limits, Script
from sandboxes.boxes.holder import Holder
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor.blame import is_well
from sandboxes.guest.supervisor.driver import NOTHING, After, CallBounds, CallResult
from sandboxes.host.shield import every, finish
from sandboxes.process.python_box import PythonBox
from sandboxes.reach import reach


class PythonHolder(Holder):
    """
    A script in a box that forks for each run.

    If loading leaves what forks would share, or threads in the process that forks, or if the script could reach that
    process, a second box takes its place in which the script has never run: it imports what the script imported, and
    each run loads the script in its own child.
    """

    def __init__(self, first: PythonBox, another: Callable[[], Awaitable[PythonBox]], isolation: Isolation) -> None:
        self._isolation = isolation
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

    async def load(self, script: Script, limits: Limits) -> CallResult:
        first = self._box
        told = await first.load(script, limits)
        if not is_well(*told[:2]):
            return told
        left = {*first.left, *(("reach",) if reach(script, self._isolation) else ())}
        threads = 1 if first.left else await first.threads()
        if not left and threads == 1:
            return told
        fresh = await self._box_with_imports(first.modules, script, limits)
        if threads > 1 and await fresh.threads() < threads:  # others are the packages', which are prepared for forks
            left.add("threads")
        if not left:
            await fresh.close()
            return told
        self._box, self.left = fresh, frozenset(left)
        await first.close()
        return told

    async def _box_with_imports(self, modules: bytes, script: Script, limits: Limits) -> PythonBox:
        """A box with the modules imported, or with none if they too leave something. Raises SandboxLostError."""
        for names in (modules, b""):
            box = await self._another()
            self._boxes.append(box)
            if await box.imports(names, script, limits):
                return box
            await box.close()
        raise SandboxLostError("a second box for the script could not be prepared")

    def run(
        self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool, after: After = NOTHING
    ) -> AsyncGenerator[Sequence[CallResult]]:
        return self._box.run(payloads, bounds, shared, after)

    def seat(self, number: int) -> Holder:
        return self._box.seat(number)

    def begin(self, calls: Sequence[int]) -> None:
        self._box.begin(calls)

    async def abandon(self) -> None:
        await self._box.abandon()

    async def close(self) -> None:
        await finish(lambda: every(box.close for box in self._boxes))
