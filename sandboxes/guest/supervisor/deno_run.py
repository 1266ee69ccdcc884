"""
A script in a box with Deno in it: how it is loaded, and its runs, each in a Worker of its own.

The rules alone; what they need done a `Driver` does. Also sent to machines of others.
"""

from __future__ import annotations

import contextlib
from itertools import accumulate

from . import procfs
from .blame import is_well
from .deno_fifo import BEGUN, GONE, HELLO, LOADED, READY, RESULT, end_of_heap, why_not
from .driver import Broken
from .run import Run

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import Any

    from .deno_fifo import Asked, Line
    from .driver import Bounds, Driver, Told
    from .pipes import Printed

START = 15.0
"""Seconds for Deno to start, which takes some 50 ms."""

SETTLE = 0.5
"""Seconds in which the threads of a run that is over have ended, which takes some 10 ms on a machine with time."""

ROOM = 2 << 30
"""Bytes, on top of the memory limit, that V8 may reserve without using them."""

SPARE = 24 << 20
"""What one more Worker takes, kept ready while a script runs; counted as nobody's."""

GROWN = 32 << 20
"""
A process that keeps so much from calls that are over is replaced. Each Worker leaves some 70 KB behind in Deno 2.9, so
that is after some 450 batches.
"""

TOGETHER = 4 << 20
"""Bytes of requests that a Worker is sent at once; it and the main thread hold them many times."""


class DenoSupervisor:
    """Starts Deno, loads one script, then does one run at a time."""

    def __init__(self, box: Driver, asked: Asked, told: Line, printed: Printed) -> None:
        """`asked`, `told`: the two ends of the line to Deno; `printed`: what it prints."""
        self._box = box
        self._asked, self._told, self._printed = asked, told, printed
        self._held = 0
        """Bytes that the process holds once the script is loaded."""
        self._settled: Callable[[], Awaitable[None]] | None = None
        """Waits until nothing of the run before goes on."""

    async def start(self, arguments: list[str], variables: dict[str, str], bounds: Bounds) -> bytes:
        """Has the inner process become Deno, and gives what that says of itself. Raises Broken."""
        box = self._box
        message: dict[str, Any] = {"arguments": arguments, "variables": variables, "memory": bounds.memory + ROOM}
        await box.say(message, (), [self._printed.write])
        self._printed.handed_over()
        box.watch(bounds.memory + ROOM)
        try:
            how, payload, _ = await self._next((HELLO,), 0, box.now() + START)
        finally:
            box.unwatch()
        if how != "frame":
            said = why_not(self._printed.cut()[0])
            heard = box.message()
            why = heard[0].get("failed") if heard else said or payload.decode("utf-8", "replace") or how
            raise Broken(f"Deno does not start: {why}")
        self._told.longest = bounds.longest
        return payload

    async def load(self, setting: bytes, bounds: Bounds) -> Told:
        """How loading went; `setting`: what main.js is told first. Without success the box is of no more use."""
        box = self._box
        began = box.now()
        self._asked.say([setting])
        box.watch(box.memory() + bounds.memory + SPARE)
        try:
            how, payload, _ = await self._next((LOADED,), 0, began + bounds.load_timeout)
            spent = box.now() - began
            told = _told(how, payload, spent, *self._printed.cut())
            self._held = box.memory()
            return told
        finally:
            box.unwatch()

    async def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        """
        What became of each request, in their order, as soon as it is known; `shared`: with one state, while it lives.

        Ends early when the box is no longer alive; the rest is for another one.
        """
        place = 0
        while place < len(payloads) and await self._quiet():
            count = _together(payloads[place:]) if shared else 1
            run = Run(payloads[place : place + count], True)
            async with contextlib.aclosing(self._attempt(run, bounds)) as told:
                async for each in told:
                    yield each
            place += run.place

    async def _attempt(self, run: Run, bounds: Bounds) -> AsyncGenerator[Told]:
        """One Worker: the calls it came through, and the one that ended it. The whole process ends with some."""
        box = self._box
        mark = run.mark.hex().encode()
        memory = box.memory()
        self._printed.expect(bounds.output, bounds.flood, mark, len(run.payloads))
        box.watch(memory + bounds.memory + SPARE)
        well = False
        try:
            sent = box.now()
            self._asked.say([mark, *run.payloads])
            how, payload, _ = await self._next((BEGUN, GONE), 0, box.now() + bounds.load_timeout)
            if how == "ended" and self._settled is not None:
                return  # the call had not begun: a run before it has left what ended the process
            self._printed.cut()
            loads = how == "frame" and is_well("reply", payload)
            run.timing.start(self._told.arrivals.onward, sent)
            while not run.over:
                took = -1.0
                if loads:  # else that is what became of each call: a script that loads once and not always
                    how, payload, took = await self._result(run, bounds.timeout)
                if how == "ended" and self._printed.passed():
                    return  # the call was over, and a later one ended the process before it could be told
                spent = run.timing.took(took, box.now())
                told = _told(how, payload, spent, *self._printed.cut(how in ("frame", "gone")))
                known = run.next(*told[:2])
                run.timing.next(self._told.arrivals)
                well = how == "gone" or (how == "frame" and run.place == len(run.payloads))
                if known:
                    yield told
                    run.timing.look(box.now())
        finally:
            box.unwatch()
            if not well or memory > self._held + GROWN:
                await box.close()
            else:
                self._settled = box.aside(self._settle)

    async def _quiet(self) -> bool:
        """Whether another run may begin: nothing of the one before goes on."""
        if self._settled is not None and self._box.alive:
            await self._settled()
        return self._box.alive

    async def _settle(self) -> None:
        """
        Waits until the next Worker is ready and the threads of the run before are gone; else has the box end.

        `terminate()` does not end a Worker in an endless chain of microtasks, nor what the engine computes for it in
        another thread, such as a key that takes hours to derive.
        """
        box = self._box
        until = box.now() + START
        while (found := self._happened((READY,), 0, until)) is None:
            await box.wait(until)
        ready, until = found[0] == "frame", box.now() + SETTLE
        while ready and not procfs.deno_is_quiet(box.inner):
            ready = box.now() < until and box.alive
            await box.wait(box.now() + 0.002)
        if not ready:
            box.end()

    async def _result(self, run: Run, timeout: float) -> tuple[str, bytes, float]:
        found = await self._next((RESULT, GONE), run.place, run.timing.until(timeout, False))
        if found[0] == "timeout" and self._told.begun:
            return await self._next((RESULT, GONE), run.place, run.timing.until(timeout, True))
        return found

    async def _next(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float]:
        """
        What happens next: `frame` with its text and seconds; `gone` with why the Worker is; or how the process fails.

        What Deno has told counts before anything that speaks against the script.
        """
        while (found := self._happened(kinds, place, until)) is None:
            await self._box.wait(until)
        return found if found[0] != "over" else (*await self._box.why(), -1.0)

    def _happened(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float] | None:
        """What `_next` tells, as far as is known; `over`: the process has ended, why takes a while to be known."""
        if (frame := self._told.next()) is not None:
            if frame.kind not in kinds or frame.place != place:
                return "unreadable", b"what came from it is no result", -1.0
            return ("gone", frame.text, -1.0) if frame.kind == GONE else ("frame", frame.text, frame.seconds)
        if self._box.full:
            return self._box.full, b"", -1.0
        if self._printed.flooded:
            return "flood", b"", -1.0
        if self._told.flawed:
            return "unreadable", self._told.flawed.encode(), -1.0
        ended = self._told.ended or self._printed.ended
        if not ended and self._box.now() <= until:
            return None
        if self._told.pull():
            return self._happened(kinds, place, until)
        return ("over" if ended else "timeout"), b"", -1.0


def _told(how: str, payload: bytes, spent: float, kept: bytes, said: int) -> Told:
    """As a call is told of; a heap that was full is found in what the engine said of it."""
    if how == "ended" and (at := end_of_heap(kept)) >= 0:
        return "memory", b"", spent, kept[:at], said - len(kept) + at, False
    return {"frame": "reply", "gone": "ended"}.get(how, how), payload, spent, kept, said, False


def _together(payloads: Sequence[bytes]) -> int:
    """How many requests a Worker is sent at once: one at least."""
    return max(1, sum(size <= TOGETHER for size in accumulate(map(len, payloads))))
