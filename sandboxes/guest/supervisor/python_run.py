"""
Load a script in a box with a Python that forks, and run calls, each run in a child of its own.

Only the rules; a `Driver` does what they need. Also sent to providers' machines.
"""

from __future__ import annotations

import contextlib

from . import procfs
from .attempt import Attempt
from .blame import is_error, is_well, was_killed
from .driver import Broken
from .pipes import Printed
from .processor import ProcessorTime
from .run import BROKE, ending
from .shortage import PROCESSES

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any

    from .driver import Bounds, CallResult, Driver

MODULES = 1 << 18
"""Most bytes of the names of all modules that a script imports."""

_IMPORTED = ("descriptors", "threads", "processes", "files", "memory")
"""What counts where no script has run, only what it imports: hooks and patches of packages are none of a row's."""

_LEFT = (*_IMPORTED, "signals", "hooks", "patches")
"""All that can be left of loading, by the words of `guest.python.leftovers`."""

ROOM = 1 << 30
"""Bytes of address space, besides the memory limit, that importing packages may reserve without using them."""


class PythonSupervisor:
    """Load one script, then do one run at a time."""

    def __init__(self, box: Driver, ahead: bool) -> None:
        """
        With `ahead`, if each call has a child of its own, that child is forked while the one before ends. For boxes
        whose zygote is confined, and ends all that a child leaves.
        """
        self._box = box
        self._forks_ahead = ahead
        self._reserved = self._held = 0
        """
        Bytes that the inner process has reserved and holds when the script is loaded, with which each child starts.
        """
        self._script: bytes | None = None
        """The request to load it, if each run does."""
        self.left: list[str] = []
        """What loading left that runs would share, by the words of `leftovers`."""
        self.modules = b""
        """The modules that the script has imported, one on each line."""

    async def load(self, script: bytes, bounds: Bounds) -> CallResult:
        """Load the script; the result. After a failure the box cannot be used."""
        return await self._begin("load", script, bounds)

    async def imports(self, modules: bytes, script: bytes, bounds: Bounds) -> CallResult:
        """
        Import the modules in the box; then each run loads the script again in a child of its own.

        The box cannot be used if they cannot be imported, or if something is `shared`.
        """
        self._script = script
        return await self._begin("import", modules, bounds)

    @property
    def shared(self) -> bool:
        """Whether the modules leave something that runs would share."""
        return not {*_IMPORTED}.isdisjoint(self.left)

    async def _begin(self, do: str, what: bytes, bounds: Bounds) -> CallResult:
        box = self._box
        box.longest = bounds.longest + MODULES
        printed = Printed(box.wake, bounds.output, bounds.flood, loop=box.loop)
        began = box.now()
        until = began + bounds.load_timeout
        try:
            await box.send({"do": do, "seed": 0, "memory": bounds.memory + ROOM}, [what], [printed.write])
            printed.hand_over()
            box.watch(bounds.memory)
            while (told := self._load_result(printed, until)) is None:
                await box.wait(until)
            how, payload = told if told[0] != "gone" else await box.end_reason()
            if how == "reply" and (full := await box.excess()):  # it filled up between two looks
                how, payload = full, b""
            spent = box.now() - began
            kept, said = printed.cut()
            self._reserved, self._held = box.reserved_and_held()
            if box.sweep() and how == "reply" and "files" not in self.left:
                self.left.append("files")
            return how, payload, spent, kept, said, False
        except Broken as e:
            return "lost", str(e).encode(), 0.0, b"", 0, False
        finally:
            box.unwatch()
            printed.close()

    def _load_result(self, printed: Printed, until: float) -> tuple[str, bytes] | None:
        """The result of loading, as far as it is known: how, and the reply or the reason; `gone`: the box has ended."""
        box = self._box
        if box.full:
            return box.full, b""
        if (heard := box.message()) is not None:
            message, reply = heard
            if ("loaded" not in message or is_error(reply)) and (short := box.shortage(True)):
                return "lost", short.encode()
            if "loaded" not in message:
                return "ended", str(message.get("failed", BROKE))[:200].encode("utf-8", "replace")
            if procfs.children(box.inner):
                return "ended", b"it left processes behind"
            left, end = message.get("left"), message["loaded"]
            if type(end) is not int or not isinstance(left, list):
                return "ended", BROKE.encode()
            self.left = [word for word in _LEFT if word in left]
            if "memory" not in self.left and procfs.shares_memory(box.inner):
                self.left.append("memory")
            self.modules = reply[end:]
            return "reply", reply[:end]
        if printed.flooded:
            return "flood", b""
        if not box.alive:
            return "gone", b""
        return ("timeout", b"") if box.now() > until else None

    async def run(
        self, payloads: Sequence[bytes], bounds: Bounds, shared: bool
    ) -> AsyncGenerator[Sequence[CallResult]]:
        """
        The results of the requests, in order, as soon as they are known, in groups of those that are there together;
        with `shared` they share a state, while it lives.

        Ends early when the box is no longer alive; another box must do the rest.
        """
        place, ahead = 0, None
        while place < len(payloads) and self._box.alive:
            last = len(payloads) if shared else place + 1
            attempt = ahead or await self._announce(payloads[place:last], bounds)
            following = payloads[last : last + 1] if self._forks_ahead else ()
            async with contextlib.aclosing(self._attempt(attempt, following, bounds)) as told:
                async for each in told:
                    yield each
            ahead = attempt.ahead
            place += attempt.run.place
        if ahead is not None:
            ahead.close()

    async def _announce(self, payloads: Sequence[bytes], bounds: Bounds) -> Attempt:
        """A run that the zygote knows of, and whose child waits for its requests."""
        attempt = Attempt(self._box, payloads, bounds, self._script)
        message: dict[str, Any] = {"do": "run", "calls": len(payloads), "mark": attempt.run.mark.hex()}
        message["loads"] = attempt.loads
        message["memory"] = self._reserved + max(0, bounds.memory - self._held)
        if attempt.loads or not self._reserved:  # it imports, or the kernel does not show it
            message["memory"] += ROOM
        try:
            await self._box.send(message, (), attempt.theirs)
        except Broken:
            pass  # the script has ended it, which is reported when the run begins
        except BaseException:  # the zygote may have received half of it
            attempt.close()
            await self._box.close()
            raise
        return attempt

    async def _attempt(
        self, attempt: Attempt, following: Sequence[bytes], bounds: Bounds
    ) -> AsyncGenerator[Sequence[CallResult]]:
        """
        Run requests in one child until one ends it.

        When it is done, the run of the `following` request is announced, so that its child is forked meanwhile;
        otherwise nothing of the run is left when the result of its last request is returned.
        """
        box, run, printed = self._box, attempt.run, attempt.printed
        done = False
        try:
            box.watch(bounds.memory)
            attempt.begin(box.now())
            failed = await self._load_failure(attempt, bounds) if attempt.loads else None
            if failed is not None:  # the script does not always load, for example at random
                # If it was lost, the others had not begun.
                run.broken, run.place = True, 1 if failed[0] == "lost" else len(run.payloads)
                await box.finish(lambda: attempt.settle(True))
                yield (failed,) * run.place
            while not run.over:
                how, payload, took = await self._next(attempt, bounds.timeout, bounds.cpu)
                spent = run.timing.spend(took, box.now())
                kept, said = printed.cut(how == "reply")
                if not run.next(how, payload):
                    break
                run.timing.next(attempt.results.arrivals)
                if run.over:
                    if following and how == "reply" and run.ended is None:
                        attempt.ahead = await self._announce(following, bounds)
                    else:
                        await box.finish(lambda: attempt.settle(True))
                told = (how, payload, spent, kept, said, False), *(() if run.over else self._arrived(attempt))
                yield told
                if not run.over:
                    await attempt.pause(told[-1], bounds.timeout)
                run.timing.look(box.now())
            done = True
        finally:
            attempt.close()
            if attempt.ahead is not None and not done:
                attempt.ahead.close()
            if not attempt.settled:
                try:
                    await box.finish(lambda: attempt.settle(done))
                except BaseException:
                    if (ahead := attempt.ahead) is not None and done:
                        await box.finish(ahead.give_up)
                    raise

    def _arrived(self, attempt: Attempt) -> list[CallResult]:
        """The values that have arrived as well, without the result of the last request, which ends the run."""
        run, cut, now = attempt.run, attempt.printed.cut, self._box.now()
        spend = run.timing.spend
        values = attempt.results.values(run.place, len(run.payloads) - 1)
        run.place += len(values)
        run.timing.next(attempt.results.arrivals)
        return [("reply", payload, spend(took, now), *cut(), False) for payload, took in values]

    async def _load_failure(self, attempt: Attempt, bounds: Bounds) -> CallResult | None:
        """The result of loading the script in the run's child; None if it succeeded."""
        run = attempt.run
        how, payload, took = await self._next(attempt, bounds.load_timeout)
        spent = run.timing.spend(took, self._box.now())
        kept, said = attempt.printed.cut(how == "reply")
        if is_well(how, payload):
            run.timing.next(attempt.results.arrivals)
            return None
        return how, payload, spent, kept, said, True

    async def _next(self, attempt: Attempt, timeout: float, cpu: float | None = None) -> tuple[str, bytes, float]:
        """What `_poll` returns, as soon as it is known; or `cpu`, if that much of the processor is used before."""
        run, results = attempt.run, attempt.results
        processor = ProcessorTime(self._box, cpu)
        while (found := self._poll(attempt, timeout)) is None:
            until = processor.next_look(run.timing.until(timeout, results.has_part))
            if until < 0:
                return "cpu", b"", -1.0
            await self._box.wait(until)
        return found if found[0] != "gone" else (*await self._box.end_reason(), -1.0)

    def _poll(self, attempt: Attempt, timeout: float) -> tuple[str, bytes, float] | None:
        """
        The result of the present request: how, the reply or the reason, the seconds that it reports. `gone`: the box
        has ended.

        What the child has sent has precedence over anything that speaks against it.
        """
        box, run, results = self._box, attempt.run, attempt.results
        if (found := results.next(run.place)) is not None:
            if is_error(found[0]) and (
                short := box.shortage(True)
            ):  # for example a helper process was killed, or a thread refused
                return "lost", short.encode(), -1.0
            return "reply", *found
        if box.full:
            return box.full, b"", -1.0
        if attempt.printed.flooded:
            return "flood", b"", -1.0
        if results.flawed:
            return "unreadable", results.flawed.encode(), -1.0
        if run.ended is not None:
            if short := box.shortage(was_killed(run.ended.get("ended"))):
                return "lost", short.encode(), -1.0
            return "ended", ending(run.ended).encode(), -1.0
        if (heard := box.message()) is not None:
            run.ended = heard[0]
            if "refused" in run.ended:
                return "lost", PROCESSES.encode(), -1.0
            return self._poll(attempt, timeout)
        if not box.alive:
            return "gone", b"", -1.0
        return ("timeout", b"", -1.0) if box.now() > run.timing.until(timeout, results.has_part) else None
