"""A box with Deno in it: load a script, run calls, and end it all where a limit is exceeded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes.holder import LoadingBox
from sandboxes.boxes.launch import Shown, Tier
from sandboxes.deno.box_folder import Folder, FolderBox
from sandboxes.deno.launch import VARIABLES, arguments, setting
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor import deno_fifo, procfs
from sandboxes.guest.supervisor.deno_fifo import (
    BEGUN,
    GONE,
    GROWN,
    HELLO,
    LOADED,
    READY,
    RESULT,
    ROOM,
    SETTLE,
    SPARE,
    START,
    Asked,
    Told,
    end_of_heap,
)
from sandboxes.guest.supervisor.pipes import Arrivals, Printed
from sandboxes.guest.supervisor.run import Request, Run
from sandboxes.protocol import Raw


class DenoBox(FolderBox, LoadingBox):
    """One Deno process, which loads one script. A Worker for each run."""

    def __init__(self, tier: Tier, shown: Shown, bwrap: str | None) -> None:
        self._asked: Asked | None = None
        self._told: Told | None = None
        self._output: Printed | None = None
        self._settling: asyncio.Task[None] | None = None
        self._held = 0
        """Bytes that the process holds once the script is loaded."""
        super().__init__(tier, shown, bwrap, Folder(pipes=("asked", "told")))

    @property
    def alive(self) -> bool:
        if self._told is None:
            return super().alive
        return not (self.closed or self._told.ended)

    async def load(self, script: Script, limits: Limits) -> Raw:
        """As `LoadingBox` says. Raises SandboxLostError where Deno does not start."""
        await self._launch(limits)
        began = self._loop.time()
        self._say([setting(script)])
        self._watch.begin(self._memory() + limits.memory + SPARE)
        try:
            how, payload, _ = await self._next((LOADED,), 0, began + limits.load_timeout)
            kept, said = self._printed.cut()
            self._held = self._memory()
            return self._raw(0, how, payload, self._loop.time() - began, kept, said)
        finally:
            self._watch.end()

    async def _launch(self, limits: Limits) -> None:
        """Has the inner process become Deno. Raises SandboxLostError."""
        self._output = Printed(self._event.set, limits.output, limits.flood)
        self._told = Told(f"{self._folder.path}/told", self._event.set)
        self._asked = Asked(f"{self._folder.path}/asked")
        boot = self._plan.boot
        message = {
            "arguments": arguments(boot["pipes"], limits),
            "variables": VARIABLES,
            "memory": limits.memory + ROOM,
        }
        await self._channel.say(message, (), [self._printed.write])
        self._printed.handed_over()
        how, payload, _ = await self._next((HELLO,), 0, self._loop.time() + START)
        self._folder.remove()
        if how != "frame":
            said = deno_fifo.why_not(self._printed.cut()[0])
            heard = self._channel.message()
            why = heard[0].get("failed") if heard else said or payload.decode("utf-8", "replace") or how
            await self.close()
            raise SandboxLostError(f"Deno does not start: {why}")
        self._told.longest = protocol.longest(limits)

    @property
    def _printed(self) -> Printed:
        assert self._output is not None
        return self._output

    @property
    def _arrivals(self) -> Arrivals:
        assert self._told is not None
        return self._told.arrivals

    def _say(self, texts: Sequence[bytes]) -> None:
        assert self._asked is not None
        self._asked.say(texts)

    def _memory(self) -> int:
        return procfs.memory([self._inner], 1 << 62)

    async def run(self, requests: Sequence[Request], limits: Limits, shared: bool) -> AsyncGenerator[Raw]:
        rest = list(requests)
        while rest and await self._quiet():
            count = deno_fifo.together([len(request.payload) for request in rest]) if shared else 1
            run = Run(rest[:count], True)
            async with contextlib.aclosing(self._attempt(run, limits)) as told:
                async for raw in told:
                    yield raw
            rest = rest[run.place :]

    async def _attempt(self, run: Run, limits: Limits) -> AsyncGenerator[Raw]:
        """One Worker: the calls it came through, and the one that ended it. The whole process ends with some."""
        mark = run.mark.hex().encode()
        memory = self._memory()
        self._printed.expect(limits.output, limits.flood, mark, len(run.requests))
        self._watch.begin(memory + limits.memory + SPARE)
        well = False
        try:
            sent = self._loop.time()
            self._say([mark, *(request.payload for request in run.requests)])
            how, payload, _ = await self._next((BEGUN, GONE), 0, self._loop.time() + limits.load_timeout)
            if how == "ended" and self._settling is not None:
                return  # the call had not begun: a run before it has left what ended the process
            self._printed.cut()
            loads = how == "frame" and deno_fifo.is_well(payload)
            run.timing.start(self._arrivals.onward, sent)
            while run.place < len(run.requests) and not run.broken:
                took = -1.0
                if loads:  # else that is what became of each call: a script that loads once and not always
                    how, payload, took = await self._result(run, limits.timeout)
                if how == "ended" and self._printed.passed():
                    return  # the call was over, and a later one ended the process before it could be told
                spent = run.timing.took(took, self._loop.time())
                kept, said = self._printed.cut(how in ("frame", "gone"))
                raw = self._raw(run.requests[run.place].call, how, payload, spent, kept, said)
                known = run.next(raw.how, raw.payload)
                run.timing.next(self._arrivals)
                well = how == "gone" or (how == "frame" and run.place == len(run.requests))
                if known:
                    yield raw
                    run.timing.look(self._loop.time())
        finally:
            self._watch.end()
            if not well or memory > self._held + GROWN:
                await self.close()
            else:
                self._settling = asyncio.create_task(self._settle())

    async def _quiet(self) -> bool:
        """Whether another run may begin: nothing of the one before goes on."""
        if self._settling is not None:
            await asyncio.shield(self._settling)
        return self.alive

    async def _settle(self) -> None:
        """
        Waits until the next Worker is ready and the threads of the run before are gone; else closes the box.

        `terminate()` does not end a Worker in an endless chain of microtasks, nor what the engine computes for it in
        another thread, such as a key that takes hours to derive.
        """
        ready = False
        with contextlib.suppress(SandboxLostError):  # the box may be closed meanwhile
            ready = (await self._next((READY,), 0, self._loop.time() + START))[0] == "frame"
        until = self._loop.time() + SETTLE
        while ready and not procfs.deno_is_quiet(self._inner):
            ready = self._loop.time() < until and self.alive
            await asyncio.sleep(0.002)
        if not ready:
            await self.close()

    async def _result(self, run: Run, timeout: float) -> tuple[str, bytes, float]:
        assert self._told is not None
        found = await self._next((RESULT, GONE), run.place, run.timing.until(timeout, False))
        if found[0] == "timeout" and self._told.begun:
            return await self._next((RESULT, GONE), run.place, run.timing.until(timeout, True))
        return found

    async def _next(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float]:
        """
        What happens next: `frame` with its text and seconds; `gone` with why the Worker is; or how the process fails.

        What Deno has told counts before anything that speaks against the script.
        """
        while (found := await self._happened(kinds, place, until)) is None:
            await self._channel.pause(until + 0.001)
        return found

    async def _happened(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float] | None:
        assert self._told is not None
        if (frame := self._told.next()) is not None:
            if frame.kind not in kinds or frame.place != place:
                return "unreadable", b"what came from it is no result", -1.0
            if frame.kind == GONE:
                return "gone", frame.text, -1.0
            return "frame", frame.text, frame.seconds
        if self._watch.full:
            return self._watch.full, b"", -1.0
        if self._printed.flooded:
            return "flood", b"", -1.0
        if self._told.flawed:
            return "unreadable", self._told.flawed.encode(), -1.0
        if self._told.ended or self._printed.ended:
            if self._told.pull():
                return await self._happened(kinds, place, until)
            return "ended", (await self._why()).encode(), -1.0
        if self._loop.time() <= until:
            return None
        return await self._happened(kinds, place, until) if self._told.pull() else ("timeout", b"", -1.0)

    def _raw(self, call: int, how: str, payload: bytes, spent: float, kept: bytes, said: int) -> Raw:
        if how == "frame":
            return Raw(call, "reply", payload, spent, kept, said)
        if how == "ended" and (at := end_of_heap(kept)) >= 0:
            return Raw(call, "memory", b"", spent, kept[:at], said - len(kept) + at)
        return Raw(call, "ended" if how == "gone" else how, payload, spent, kept, said)

    async def _end(self) -> None:
        await super()._end()
        for pipe in (self._asked, self._told, self._output):
            if pipe is not None:
                pipe.close()
        self._event.set()  # for who waits for what will not come


def is_well(loaded: Raw) -> bool:
    """Whether the script has loaded, as far as the host believes what it is told."""
    return loaded.how == "reply" and deno_fifo.is_well(loaded.payload)
