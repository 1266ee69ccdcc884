"""A box with a Python in it that forks: load a script or what it imports, and do each run in a child of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from sandboxes import protocol
from sandboxes.base import Limits, Script
from sandboxes.boxes import tiers
from sandboxes.boxes.holder import LoadingBox
from sandboxes.boxes.launch import Plan
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor import procfs, shortage
from sandboxes.guest.supervisor.blame import is_error, was_killed
from sandboxes.guest.supervisor.pipes import Printed, Results
from sandboxes.guest.supervisor.run import Request, Run, ending
from sandboxes.process.attempt import Attempt
from sandboxes.protocol import Raw
from sandboxes.shield import finish

PROMPT = 0.05
"""Seconds in which a run that is done has ended by itself."""

STOP = 0.3
"""Seconds that stopping a run may take, which takes some milliseconds; then the whole box is ended."""

ENDING = 0.1
"""Seconds in which a thread that Python has joined is gone for the kernel too."""

MODULES = 1 << 18
"""Bytes of the names of all modules that a script imports, at most."""

_OF_MODULES = frozenset(("descriptors", "threads", "processes", "files", "memory"))
"""What matters where no script has run, only what it imports: hooks and patches of packages are none of a row's."""

ROOM = 1 << 30
"""Bytes, on top of the memory limit, that importing packages may reserve without using them."""


class ForkingBox(LoadingBox):
    """Loads one script, then does one run at a time."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._reserved = self._held = 0
        """Bytes that the inner process has reserved and holds when the script is loaded: what a child starts with."""
        self._script: bytes | None = None
        """The request to load it, where each run does."""
        self.left: frozenset[str] = frozenset()
        """What is left of loading that runs would share; see `tiers.LEFT`."""
        self.modules = b""
        """Those that the script has imported, a line each."""

    async def load(self, script: Script, limits: Limits) -> Raw:
        return await self._begin("load", protocol.load_request(script, limits), limits)

    async def imports(self, modules: bytes, script: Script, limits: Limits) -> bool:
        """
        Has it import the modules, after which each run loads the script anew in a child of its own.

        False: something is left of them too, or they cannot be imported here; the box is of no more use.
        """
        self._script = protocol.load_request(script, limits)
        raw = await self._begin("import", modules, limits)
        return raw.how == "reply" and not self.left & _OF_MODULES

    async def threads(self) -> int:
        """Of the inner process, when it has loaded or imported; one that ends has some time for it."""
        until = self._loop.time() + ENDING
        while (found := procfs.threads(self._inner)) > 1 and self._loop.time() < until:
            await asyncio.sleep(0.002)
        return found

    async def _begin(self, do: str, what: bytes, limits: Limits) -> Raw:
        self._channel.longest = protocol.longest(limits) + MODULES
        printed = Printed(self._event.set, limits.output, limits.flood)
        began = self._loop.time()
        until = began + limits.load_timeout
        try:
            message = {"do": do, "seed": 0, "memory": limits.memory + ROOM}
            await self._channel.say(message, [what], [printed.write])
            printed.handed_over()
            self._watch.begin(limits.memory)
            while (told := await self._loaded(printed, until)) is None:
                await self._channel.pause(until)
            if told[0] == "reply" and (full := await self._watch.over()):  # it was quicker than the looks
                told = full, b""
            kept, said = printed.cut()
            self._reserved, self._held = procfs.fields(self._inner, ("VmData", "RssAnon"))
            return Raw(0, *told, self._loop.time() - began, kept, said)
        finally:
            self._watch.end()
            printed.close()

    async def _loaded(self, printed: Printed, until: float) -> tuple[str, bytes] | None:
        if self._watch.full:
            return self._watch.full, b""
        if (heard := self._channel.message()) is not None:
            message, reply = heard
            if "loaded" not in message or is_error(reply):
                self._unless_short(killed=True)
            if "loaded" not in message:
                why = message.get("failed", "it broke the process that holds the script")
                return "ended", str(why).encode("utf-8", "replace")
            if self._left_behind():
                return "ended", b"it left processes behind"
            left, end = message.get("left"), message["loaded"]
            if type(end) is not int or not isinstance(left, list):
                return "ended", b"it broke the process that holds the script"
            self.left = frozenset(tiers.LEFT.keys() & {*map(str, left)})
            if procfs.shares_memory(self._inner):
                self.left |= {"memory"}
            self.modules = reply[end:]
            return "reply", reply[:end]
        if printed.flooded:
            return "flood", b""
        if not self.alive:
            return "ended", (await self._why()).encode()
        return ("timeout", b"") if self._loop.time() > until else None

    async def run(self, requests: Sequence[Request], limits: Limits, shared: bool) -> AsyncGenerator[Raw]:
        rest = list(requests)
        ahead: Attempt | None = None
        while rest and self.alive:
            attempt = ahead or await self._announced(self._run(rest if shared else rest[:1], shared), limits)
            following = rest[1:2] if not shared and self._plan.boot["confined"] else []
            async with contextlib.aclosing(self._attempt(attempt, following, limits)) as told:
                async for raw in told:
                    yield raw
            ahead = attempt.ahead
            rest = rest[attempt.run.place :]
        if ahead is not None:
            ahead.close()

    def _run(self, requests: list[Request], shared: bool) -> Run:
        return Run(requests, shared, self._script is not None)

    async def _announced(self, run: Run, limits: Limits) -> Attempt:
        """A run that the zygote knows of, and whose child waits for its requests."""
        attempt = Attempt(run, limits, self._event.set, self._script)
        message = {"do": "run", "calls": len(run.requests), "mark": run.mark.hex(), "loads": run.loads}
        message["memory"] = self._reserved + max(0, limits.memory - self._held) + (ROOM if run.loads else 0)
        try:
            await self._channel.say(message, (), attempt.theirs)
        except SandboxLostError:
            pass  # the script has ended it, which is told when the run begins
        except BaseException:  # the zygote may have heard half of it
            attempt.close()
            await self.close()
            raise
        return attempt

    async def _attempt(self, attempt: Attempt, following: list[Request], limits: Limits) -> AsyncGenerator[Raw]:
        """
        One child: the requests it came through, and the one that ended it.

        When it is done the run of the `following` request is announced, so that its child is forked meanwhile.
        """
        run, results, printed = attempt.run, attempt.results, attempt.printed
        done = False
        try:
            self._watch.begin(limits.memory)
            attempt.begin(self._loop.time())
            failed = await self._loading(attempt, limits) if run.loads else None
            if failed is not None:  # it loads once and not always: a script that draws lots
                run.broken, run.place = True, len(run.requests)
                for request in run.requests:
                    yield failed._replace(call=request.call)
            while run.place < len(run.requests) and not run.broken:
                how, payload, took = await self._happens(attempt, limits.timeout)
                spent = run.timing.took(took, self._loop.time())
                kept, said = printed.cut(how == "reply")
                call = run.requests[run.place].call
                if not run.next(how, payload):
                    break
                run.timing.next(results.arrivals)
                if following and how == "reply" and run.ended is None:
                    attempt.ahead = await self._announced(self._run(following, False), limits)
                yield Raw(call, how, payload, spent, kept, said)
                run.timing.look(self._loop.time())
            done = True
        finally:
            attempt.close()
            if attempt.ahead is not None and not done:
                attempt.ahead.close()
            try:
                await finish(lambda: self._settled(attempt, done))
            except BaseException:
                if (ahead := attempt.ahead) is not None and done:
                    await finish(lambda: self._given_up(ahead))
                raise

    async def _loading(self, attempt: Attempt, limits: Limits) -> Raw | None:
        """How loading the script went in the run's child; None where well."""
        run = attempt.run
        how, payload, took = await self._happens(attempt, limits.load_timeout)
        spent = run.timing.took(took, self._loop.time())
        kept, said = attempt.printed.cut(how == "reply")
        if protocol.is_well(how, payload):
            run.timing.next(attempt.results.arrivals)
            return None
        return Raw(0, how, payload, spent, kept, said, loading=True)

    async def _happens(self, attempt: Attempt, timeout: float) -> tuple[str, bytes, float]:
        """What `_told` tells, as soon as it does."""
        run, results = attempt.run, attempt.results
        while (told := await self._told(run, results, attempt.printed, timeout)) is None:
            await self._channel.pause(run.timing.until(timeout, results.begun) + 0.001)
        return told

    async def _told(
        self, run: Run, results: Results, printed: Printed, timeout: float
    ) -> tuple[str, bytes, float] | None:
        """
        How the request at hand has gone, by what is known so far: how, the reply or why, the seconds it says it took.

        What the child has sent counts before anything that speaks against it.
        """
        if (found := results.next(run.place)) is not None:
            if is_error(found[0]):  # of a helper process that was ended, of a thread that could not be started
                self._unless_short(killed=True)
            return "reply", *found
        if self._watch.full:
            return self._watch.full, b"", -1.0
        if printed.flooded:
            return "flood", b"", -1.0
        if results.flawed:
            return "unreadable", results.flawed.encode(), -1.0
        if run.ended is not None:
            self._unless_short(was_killed(run.ended.get("ended")))
            return "ended", ending(run.ended).encode(), -1.0
        if (heard := self._channel.message()) is not None:
            run.ended = heard[0]
            if "refused" in run.ended:
                raise SandboxLostError(shortage.PROCESSES)
            return await self._told(run, results, printed, timeout)
        if not self.alive:
            return "ended", (await self._why()).encode(), -1.0
        return ("timeout", b"", -1.0) if self._loop.time() > run.timing.until(timeout, results.begun) else None

    async def _settled(self, attempt: Attempt, done: bool) -> None:
        try:
            await (self._settle(attempt, done) if self.alive else self.close())
        finally:
            self._watch.end()

    async def _given_up(self, ahead: Attempt) -> None:
        """Ends what was announced, and whose turn never comes."""
        ahead.close()
        if self.alive:
            await self._settle(ahead, True)

    async def _settle(self, attempt: Attempt, done: bool) -> None:
        """
        Waits for the run's end, or stops it where it goes on; what was announced too, unless all is `done`.

        A box that does not answer, or not as it should, or that holds more than it may, is closed.
        """
        run, ahead = attempt.run, attempt.ahead
        try:
            if ahead is not None:
                run.ended, _ = await self._channel.heard(self._loop.time() + STOP)
            elif run.ended is None and run.place == len(run.requests) and not run.broken:
                with contextlib.suppress(TimeoutError):
                    run.ended, _ = await self._channel.heard(self._loop.time() + PROMPT)
            if run.ended is None:
                await self._channel.say({"do": "stop"})
                run.ended, _ = await self._channel.heard(self._loop.time() + STOP)
            full = self._watch.full and await self._watch.over()
            if full or "ended" not in run.ended or not await self._clean(ahead):
                await self.close()
            if ahead is not None and not done and self.alive:
                await self._settle(ahead, done)
        except (TimeoutError, SandboxLostError):
            await self.close()

    async def _clean(self, ahead: Attempt | None) -> bool:
        """Whether nothing is left of a run. The child of one that was announced may be there, and nothing else."""
        until = self._loop.time() + STOP
        while len(procfs.children(self._inner)) > (ahead is not None):
            if ahead is None or self._loop.time() > until:
                return False
            await self._channel.say({"do": "reap"})
            if "reaped" not in (await self._channel.heard(until))[0]:
                return False
        return True

    def _left_behind(self) -> bool:
        """Whether there are processes that the inner one has not ended, as it should."""
        return bool(procfs.children(self._inner))
