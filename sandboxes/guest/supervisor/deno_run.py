"""
Load a script in a box with Deno, and run calls, each run in a Worker of its own.

Only the rules; a `Driver` does what they need. Also sent to providers' machines.
"""

from __future__ import annotations

from itertools import accumulate

from . import procfs
from .blame import is_well
from .deno_fifo import BEGUN, GONE, HELLO, LOADED, READY, RESULT, end_of_heap, why_not
from .driver import BoxFailure, Closing
from .processor import ProcessorTime
from .run import SupervisedRun

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import Any

    from .deno_fifo import FramePipe, RequestPipe
    from .driver import CallBounds, CallResult, Driver
    from .pipes import PrintedOutput

START = 15.0
"""Seconds for Deno to start, which takes about 50 ms."""

SETTLE = 0.5
"""Seconds for the threads of a run to end, which takes about 10 ms on an idle machine."""

ROOM = 2 << 30
"""Bytes of address space, besides the memory limit, that V8 may reserve without using them."""

SPARE = 24 << 20
"""Bytes of one more Worker, kept ready while a script runs; not counted as the script's."""

GROWTH_BYTES = 32 << 20
"""
Bytes kept from earlier calls at which a process is replaced. Each Worker leaves about 70 KB behind in Deno 2.9, so this
happens after about 450 batches.
"""

TOGETHER = 4 << 20
"""Bytes of requests that a Worker is sent at once; it and the main thread hold several copies."""


class DenoSupervisor:
    """Start Deno, load one script, then do one run at a time."""

    def __init__(self, box: Driver, requests: RequestPipe, frames: FramePipe, printed: PrintedOutput) -> None:
        """`requests` and `frames` are the pipes to and from Deno; `printed` has its output."""
        self._box = box
        self._requests, self._frames, self._printed = requests, frames, printed
        self._held = 0
        """Bytes that the process holds once the script is loaded."""
        self._settled: Callable[[], Awaitable[None]] | None = None
        """Waits until nothing of the run before goes on."""

    async def start(self, arguments: list[str], variables: dict[str, str], bounds: CallBounds) -> bytes:
        """Let the inner process become Deno; Deno's greeting. Raises BoxFailure."""
        box = self._box
        message: dict[str, Any] = {"arguments": arguments, "variables": variables, "memory": bounds.memory + ROOM}
        await box.send(message, (), [self._printed.write])
        self._printed.hand_over()
        box.watch(bounds.memory + ROOM)
        try:
            how, payload, _ = await self._next((HELLO,), 0, box.now() + START)
        finally:
            box.unwatch()
        if how != "frame":
            said = why_not(self._printed.cut()[0])
            heard = box.message()
            why = heard[0].get("failed") if heard else said or payload.decode("utf-8", "replace") or how
            raise BoxFailure(f"Deno did not start: {why}")
        self._frames.longest = bounds.longest
        return payload

    async def load(self, setting: bytes, bounds: CallBounds) -> CallResult:
        """Load a script; the result. `setting` is the first message to main.js. A failure makes the box unusable."""
        box = self._box
        began = box.now()
        self._requests.send([setting])
        box.watch(box.memory() + bounds.memory + SPARE)
        try:
            how, payload, _ = await self._next((LOADED, GONE), 0, began + bounds.load_timeout)
            spent = box.now() - began
            result = _call_result(how, payload, spent, *self._printed.cut())
            self._held = box.memory()
            return result
        finally:
            box.unwatch()

    async def run(
        self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool
    ) -> AsyncGenerator[Sequence[CallResult]]:
        """
        Yield the results of the requests, in order, as soon as they are known, in groups of those that are there
        together; with `shared` they share a state, while it lives.

        Ends early when the box is no longer alive; another box must do the rest.
        """
        place = 0
        while place < len(payloads) and await self._quiet():
            count = _batch_size(payloads[place:]) if shared else 1
            run = SupervisedRun(payloads[place : place + count], True)
            async with Closing(self._attempt(run, bounds)) as results:
                async for each in results:
                    yield each
            place += run.place

    async def _attempt(self, run: SupervisedRun, bounds: CallBounds) -> AsyncGenerator[Sequence[CallResult]]:
        """Run calls in one Worker until one ends it. Some calls end the whole process."""
        box = self._box
        mark = run.mark.hex().encode()
        memory = box.memory()
        self._printed.expect(bounds.output, bounds.flood, mark, len(run.payloads))
        box.watch(memory + bounds.memory + SPARE)
        well = False
        try:
            sent = box.now()
            self._requests.send([mark, *run.payloads])
            how, payload, _ = await self._next((BEGUN, GONE), 0, box.now() + bounds.load_timeout)
            if how == "ended" and self._settled is not None:
                return  # the call had not begun: an earlier run left something that ended the process
            self._printed.cut()
            loads = how == "frame" and is_well("reply", payload)
            run.timing.start(self._frames.arrivals.writer_resumed, sent)
            while not run.over:
                took = -1.0
                if loads:  # otherwise this is the result of each call: the script does not always load
                    how, payload, took = await self._result(run, bounds.timeout, bounds.cpu)
                if how == "ended" and self._printed.mark_arrived():
                    return  # the call was over, and a later one ended the process before its result was read
                spent = run.timing.spend(took, box.now())
                result = _call_result(how, payload, spent, *self._printed.cut(how in ("frame", "gone")))
                known = run.next(*result[:2])
                run.timing.next(self._frames.arrivals)
                well = how == "gone" or (how == "frame" and run.place == len(run.payloads))
                if known:
                    yield (result,)
                    run.timing.look(box.now())
        finally:
            box.unwatch()
            if not well or memory > self._held + GROWTH_BYTES:
                await box.close()
            else:
                self._settled = box.run_aside(self._settle)

    async def _quiet(self) -> bool:
        """Whether another run may begin: nothing of the one before goes on."""
        if self._settled is not None and self._box.alive:
            await self._settled()
        return self._box.alive

    async def _settle(self) -> None:
        """
        Wait until the next Worker is ready and the threads of the run before are gone; else end the box.

        `terminate()` does not end a Worker in an endless chain of microtasks, nor what the engine computes for it in
        another thread, such as a key that takes hours to derive.
        """
        box = self._box
        until = box.now() + START
        while (found := self._poll((READY,), 0, until)) is None:
            await box.wait(until)
        ready, until = found[0] == "frame", box.now() + SETTLE
        while ready and not procfs.deno_is_quiet(box.inner):
            ready = box.now() < until and box.alive
            await box.wait(box.now() + 0.002)
        if not ready:
            box.end()

    async def _result(self, run: SupervisedRun, timeout: float, cpu: float | None) -> tuple[str, bytes, float]:
        found = await self._next((RESULT, GONE), run.place, run.timing.until(timeout, False), cpu)
        if found[0] == "timeout" and self._frames.has_part:
            return await self._next((RESULT, GONE), run.place, run.timing.until(timeout, True))
        return found

    async def _next(
        self, kinds: tuple[int, ...], place: int, until: float, cpu: float | None = None
    ) -> tuple[str, bytes, float]:
        """
        What happens next: `frame` with its text and seconds; `gone` with the reason why the Worker is; or how the
        process fails, such as by `cpu`, if that much of the processor is used before.

        Messages from Deno have precedence over anything that speaks against the script.
        """
        processor = ProcessorTime(self._box, cpu)
        while (found := self._poll(kinds, place, until)) is None:
            look = processor.next_look(until)
            if look < 0:
                return "cpu", b"", -1.0
            await self._box.wait(look)
        return found if found[0] != "over" else (*await self._box.end_reason(), -1.0)

    def _poll(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float] | None:
        """What `_next` returns, as far as it is known; `over`: the process has ended, for a reason not yet known."""
        if (frame := self._frames.next()) is not None:
            if frame.kind not in kinds or frame.place != place:
                return "unreadable", b"it sent an invalid result", -1.0
            return ("gone", frame.text, -1.0) if frame.kind == GONE else ("frame", frame.text, frame.seconds)
        if self._box.full:
            return self._box.full, b"", -1.0
        if self._printed.flooded:
            return "flood", b"", -1.0
        if self._frames.flawed:
            return "unreadable", self._frames.flawed.encode(), -1.0
        ended = self._frames.ended or self._printed.ended
        if not ended and self._box.now() <= until:
            return None
        if self._frames.pull():
            return self._poll(kinds, place, until)
        return ("over" if ended else "timeout"), b"", -1.0


def _call_result(how: str, payload: bytes, spent: float, kept: bytes, said: int) -> CallResult:
    """The result of a call; a full heap is recognised in what the engine printed."""
    if how == "ended" and (at := end_of_heap(kept)) >= 0:
        return "memory", b"", spent, kept[:at], said - len(kept) + at, False
    return {"frame": "reply", "gone": "ended"}.get(how, how), payload, spent, kept, said, False


def _batch_size(payloads: Sequence[bytes]) -> int:
    """How many requests to send to a Worker at once: at least one."""
    return max(1, sum(size <= TOGETHER for size in accumulate(map(len, payloads))))
