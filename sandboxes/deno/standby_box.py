"""Two boxes that take turns: while calls run in one, the other gets ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import Holder
from sandboxes.boxes.program import BARREN
from sandboxes.deno.deno_box import DenoBox
from sandboxes.errors import SandboxError, SandboxLostError
from sandboxes.guest.supervisor.blame import is_well
from sandboxes.guest.supervisor.driver import Bounds, Told
from sandboxes.shield import every, finish


class Turns(Holder):
    """
    A box, and another one with the same script.

    Where they `alternate`, the other is started when the script has loaded in the first: starting a Worker blocks
    Deno's main thread for some 8 ms, in which no call of its process could begin. Else it is started when a call has
    ended its box, and stands ready from then on: the script may do so again, and a box takes some 80 ms to be made.
    """

    def __init__(self, first: DenoBox, another: Callable[[], Awaitable[DenoBox]], alternate: bool) -> None:
        self._box = first
        self._other: DenoBox | None = None
        self._another = another
        self._alternate = self._spare = alternate
        self._coming: asyncio.Task[DenoBox | None] | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        other = self._other is not None and self._other.alive
        return not self._closed and (self._box.alive or other or self._coming is not None)

    @property
    def closed(self) -> bool:
        return self._closed

    async def load(self, script: Script, limits: Limits) -> Told:
        self._script, self._limits = script, limits
        told = await self._box.load(script, limits)
        if is_well(*told[:2]) and self._spare:
            self._order()
        return told

    def _order(self) -> None:
        """Has another box made, unless one is on its way or there."""
        if self._coming is None and not (self._other is not None and self._other.alive):
            self._coming = asyncio.create_task(self._loaded())

    async def _loaded(self) -> DenoBox | None:
        """Another box with the script in it; None where it did not load this time."""
        box = await self._another()
        try:
            if is_well(*(await box.load(self._script, self._limits))[:2]):
                return box
        except BaseException:
            await box.close()
            raise
        await box.close()
        return None

    async def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        done = barren = 0
        while done < len(payloads):
            await self._turn()
            if not self._box.alive:
                return
            before = done
            # What comes later in the run may be what ended a box before anything could be told.
            until = len(payloads) if shared and not barren else done + 1
            async with contextlib.aclosing(self._box.run(payloads[done:until], bounds, shared)) as all_told:
                async for told in all_told:
                    done += 1
                    self._spare = self._spare or told[0] != "reply"
                    yield told
            if not self._box.alive:
                self._order()  # at once: it is made while the caller looks at what was told
            barren = 0 if done > before else barren + 1
            if barren > BARREN:
                raise SandboxLostError("the sandbox gave no execution")

    async def _turn(self) -> None:
        """Makes the other box the one to use, if it is its turn or must be waited for; has another one made."""
        if not self._box.alive:
            self._order()
        if self._coming is not None and (self._coming.done() or not self._box.alive):
            coming, self._coming = self._coming, None
            await self._drop()
            with contextlib.suppress(*((SandboxError,) if self._box.alive else ())):
                self._other = await coming
        if self._other is not None and self._other.alive and (self._alternate or not self._box.alive):
            self._box, self._other = self._other, self._box
        if self._spare and self._box.alive and not (self._other is not None and self._other.alive):
            if self._coming is None:
                await self._drop()
            self._order()

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
