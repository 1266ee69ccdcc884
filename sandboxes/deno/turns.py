"""Two boxes that take turns: while a call runs in one, the other gets its next Worker ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from sandboxes.base import Limits
from sandboxes.deno.box import DenoBox, is_well
from sandboxes.errors import SandboxError
from sandboxes.kernel.program import Holder
from sandboxes.kernel.runs import Request
from sandboxes.replies import Raw
from sandboxes.shield import every, finish


class Turns(Holder):
    """
    A box, and another that is started when the script has loaded in the first.

    Starting a Worker blocks Deno's main thread for some 8 ms, in which no call of its process could begin.
    """

    def __init__(self, first: DenoBox, another: Callable[[], Awaitable[DenoBox]]) -> None:
        self._box = first
        self._other: DenoBox | None = None
        self._another = another
        self._coming: asyncio.Task[DenoBox | None] | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        other = self._other is not None and self._other.alive
        return not self._closed and (self._box.alive or other or self._coming is not None)

    @property
    def closed(self) -> bool:
        return self._closed

    async def load(self, source: str, limits: Limits) -> Raw:
        self._source, self._limits = source, limits
        raw = await self._box.load(source, limits)
        if is_well(raw):
            self._coming = asyncio.create_task(self._loaded())
        return raw

    async def _loaded(self) -> DenoBox | None:
        """Another box with the script in it; None where it did not load this time."""
        box = await self._another()
        try:
            if is_well(await box.load(self._source, self._limits)):
                return box
        except BaseException:
            await box.close()
            raise
        await box.close()
        return None

    async def run(self, requests: Sequence[Request], limits: Limits, shared: bool) -> AsyncGenerator[Raw]:
        done = 0
        while done < len(requests):
            await self._turn()
            if not self._box.alive:
                return
            async with contextlib.aclosing(self._box.run(requests[done : done + 1], limits, False)) as told:
                async for raw in told:
                    done += 1
                    yield raw

    async def _turn(self) -> None:
        """Makes the other box the one to use, if it is there or must be waited for, and replaces one that has ended."""
        if self._coming is not None and (self._coming.done() or not self._box.alive):
            coming, self._coming = self._coming, None
            await self._drop()
            with contextlib.suppress(*((SandboxError,) if self._box.alive else ())):
                self._other = await coming
        if self._other is not None and self._other.alive:
            self._box, self._other = self._other, self._box
        if self._coming is None and self._box.alive and not (self._other is not None and self._other.alive):
            await self._drop()
            self._coming = asyncio.create_task(self._loaded())

    async def _drop(self) -> None:
        """Lets go of a box that has ended, or never came."""
        other, self._other = self._other, None
        if other is not None:
            await other.close()

    async def close(self) -> None:
        self._closed = True
        await finish(self._close)

    async def _close(self) -> None:
        boxes = [self._box, self._other]
        if self._coming is not None:
            self._coming.cancel()
            (came,) = await asyncio.gather(self._coming, return_exceptions=True)
            boxes += [came] if isinstance(came, DenoBox) else []
        await every(box.close for box in boxes if box is not None)
