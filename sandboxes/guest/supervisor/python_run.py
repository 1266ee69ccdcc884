"""
A script in a box with a Python that forks: how it is loaded, and its runs, each in a child of its own.

The rules alone; what they need done a `Driver` does. Also sent to machines of others.
"""

from __future__ import annotations

import contextlib

from . import procfs
from .attempt import Attempt
from .blame import is_error, is_well, was_killed
from .driver import Broken
from .pipes import Printed
from .run import BROKE, ending
from .shortage import PROCESSES

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any

    from .driver import Bounds, Driver, Told

MODULES = 1 << 18
"""Bytes of the names of all modules that a script imports, at most."""

_IMPORTED = ("descriptors", "threads", "processes", "files", "memory")
"""What counts where no script has run, only what it imports: hooks and patches of packages are none of a row's."""

_LEFT = (*_IMPORTED, "signals", "hooks", "patches")
"""All that can be left of loading, by the words of `guest.python.leftovers`."""

ROOM = 1 << 30
"""Bytes, on top of the memory limit, that importing packages may reserve without using them."""


class PythonSupervisor:
    """Loads one script, then does one run at a time."""

    def __init__(self, box: Driver, ahead: bool) -> None:
        """
        `ahead`: where each call has a child of its own, it is forked while the one before ends. For boxes whose zygote
        is confined, and ends all that a child leaves.
        """
        self._box = box
        self._forks_ahead = ahead
        self._reserved = self._held = 0
        """Bytes that the inner process has reserved and holds when the script is loaded: what a child starts with."""
        self._script: bytes | None = None
        """The request to load it, where each run does."""
        self.left: list[str] = []
        """What is left of loading that runs would share, by the words of `leftovers`."""
        self.modules = b""
        """Those that the script has imported, a line each."""

    async def load(self, script: bytes, bounds: Bounds) -> Told:
        """How loading went. The box is of no more use where that was not well."""
        return await self._begin("load", script, bounds)

    async def imports(self, modules: bytes, script: bytes, bounds: Bounds) -> Told:
        """
        Has the box import the modules, after which each run loads the script anew in a child of its own.

        It is of no more use where they cannot be imported, or where something is `shared`.
        """
        self._script = script
        return await self._begin("import", modules, bounds)

    @property
    def shared(self) -> bool:
        """Whether something is left of the modules that runs would share."""
        return not {*_IMPORTED}.isdisjoint(self.left)

    async def _begin(self, do: str, what: bytes, bounds: Bounds) -> Told:
        box = self._box
        box.longest = bounds.longest + MODULES
        printed = Printed(box.wake, bounds.output, bounds.flood, loop=box.loop)
        began = box.now()
        until = began + bounds.load_timeout
        try:
            await box.say({"do": do, "seed": 0, "memory": bounds.memory + ROOM}, [what], [printed.write])
            printed.handed_over()
            box.watch(bounds.memory)
            while (told := self._loaded(printed, until)) is None:
                await box.wait(until)
            how, payload = told if told[0] != "gone" else await box.why()
            if how == "reply" and (full := await box.over()):  # it was quicker than the looks
                how, payload = full, b""
            spent = box.now() - began
            kept, said = printed.cut()
            self._reserved, self._held = box.holds()
            if box.swept() and how == "reply" and "files" not in self.left:
                self.left.append("files")
            return how, payload, spent, kept, said, False
        except Broken as e:
            return "lost", str(e).encode(), 0.0, b"", 0, False
        finally:
            box.unwatch()
            printed.close()

    def _loaded(self, printed: Printed, until: float) -> tuple[str, bytes] | None:
        """How loading went, as far as is known: how, and the reply or why; `gone`: the box has, why takes a while."""
        box = self._box
        if box.full:
            return box.full, b""
        if (heard := box.message()) is not None:
            message, reply = heard
            if ("loaded" not in message or is_error(reply)) and (short := box.short(True)):
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

    async def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        """
        What became of each request, in their order, as soon as it is known; `shared`: with one state, while it lives.

        Ends early when the box is no longer alive; the rest is for another one.
        """
        place, ahead = 0, None
        while place < len(payloads) and self._box.alive:
            last = len(payloads) if shared else place + 1
            attempt = ahead or await self._announced(payloads[place:last], bounds)
            following = payloads[last : last + 1] if self._forks_ahead else ()
            async with contextlib.aclosing(self._attempt(attempt, following, bounds)) as told:
                async for each in told:
                    yield each
            ahead = attempt.ahead
            place += attempt.run.place
        if ahead is not None:
            ahead.close()

    async def _announced(self, payloads: Sequence[bytes], bounds: Bounds) -> Attempt:
        """A run that the zygote knows of, and whose child waits for its requests."""
        attempt = Attempt(self._box, payloads, bounds, self._script)
        message: dict[str, Any] = {"do": "run", "calls": len(payloads), "mark": attempt.run.mark.hex()}
        message["loads"] = attempt.loads
        message["memory"] = self._reserved + max(0, bounds.memory - self._held)
        if attempt.loads or not self._reserved:  # it imports, or the kernel does not tell
            message["memory"] += ROOM
        try:
            await self._box.say(message, (), attempt.theirs)
        except Broken:
            pass  # the script has ended it, which is told when the run begins
        except BaseException:  # the zygote may have heard half of it
            attempt.close()
            await self._box.close()
            raise
        return attempt

    async def _attempt(self, attempt: Attempt, following: Sequence[bytes], bounds: Bounds) -> AsyncGenerator[Told]:
        """
        One child: the requests it came through, and the one that ended it.

        When it is done the run of the `following` request is announced, so that its child is forked meanwhile; else
        nothing of the run is left when its last request is told of.
        """
        box, run, printed = self._box, attempt.run, attempt.printed
        done = False
        try:
            box.watch(bounds.memory)
            attempt.begin(box.now())
            failed = await self._loading(attempt, bounds) if attempt.loads else None
            if failed is not None:  # it loads once and not always: a script that draws lots
                # Where it was lost the others had not begun.
                run.broken, run.place = True, 1 if failed[0] == "lost" else len(run.payloads)
                await box.finish(lambda: attempt.settle(True))
                for _ in range(run.place):
                    yield failed
            while not run.over:
                how, payload, took = await self._happens(attempt, bounds.timeout)
                spent = run.timing.took(took, box.now())
                kept, said = printed.cut(how == "reply")
                if not run.next(how, payload):
                    break
                run.timing.next(attempt.results.arrivals)
                if run.over:
                    if following and how == "reply" and run.ended is None:
                        attempt.ahead = await self._announced(following, bounds)
                    else:
                        await box.finish(lambda: attempt.settle(True))
                yield how, payload, spent, kept, said, False
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

    async def _loading(self, attempt: Attempt, bounds: Bounds) -> Told | None:
        """How loading the script went in the run's child; None where well."""
        run = attempt.run
        how, payload, took = await self._happens(attempt, bounds.load_timeout)
        spent = run.timing.took(took, self._box.now())
        kept, said = attempt.printed.cut(how == "reply")
        if is_well(how, payload):
            run.timing.next(attempt.results.arrivals)
            return None
        return how, payload, spent, kept, said, True

    async def _happens(self, attempt: Attempt, timeout: float) -> tuple[str, bytes, float]:
        """What `_known` knows, as soon as it does."""
        run, results = attempt.run, attempt.results
        while (found := self._known(attempt, timeout)) is None:
            await self._box.wait(run.timing.until(timeout, results.begun))
        return found if found[0] != "gone" else (*await self._box.why(), -1.0)

    def _known(self, attempt: Attempt, timeout: float) -> tuple[str, bytes, float] | None:
        """
        How the request at hand has gone: how, the reply or why, the seconds it says it took. `gone`: the box has.

        What the child has sent counts before anything that speaks against it.
        """
        box, run, results = self._box, attempt.run, attempt.results
        if (found := results.next(run.place)) is not None:
            if is_error(found[0]) and (short := box.short(True)):  # of a helper that was ended, a thread refused
                return "lost", short.encode(), -1.0
            return "reply", *found
        if box.full:
            return box.full, b"", -1.0
        if attempt.printed.flooded:
            return "flood", b"", -1.0
        if results.flawed:
            return "unreadable", results.flawed.encode(), -1.0
        if run.ended is not None:
            if short := box.short(was_killed(run.ended.get("ended"))):
                return "lost", short.encode(), -1.0
            return "ended", ending(run.ended).encode(), -1.0
        if (heard := box.message()) is not None:
            run.ended = heard[0]
            if "refused" in run.ended:
                return "lost", PROCESSES.encode(), -1.0
            return self._known(attempt, timeout)
        if not box.alive:
            return "gone", b"", -1.0
        return ("timeout", b"", -1.0) if box.now() > run.timing.until(timeout, results.begun) else None
