"""The host's side of one box: start it, load a script in it, run calls in it, and end it, whatever it does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from sandboxes import replies
from sandboxes.base import Limits
from sandboxes.errors import SandboxLostError
from sandboxes.process import tree
from sandboxes.process.attempt import Attempt
from sandboxes.process.channel import Channel
from sandboxes.process.pipes import Printed, Results
from sandboxes.process.plan import Plan
from sandboxes.process.runs import Request, Run, ending
from sandboxes.process.spawned import BoxError, Spawned
from sandboxes.process.watch import Watch
from sandboxes.replies import Raw

GRACE = 2.0
"""Seconds that a box's own processes have for what takes them milliseconds; then they are ended from outside."""

PROMPT = 0.05
"""Seconds in which a run that is done has ended by itself."""

STOP = 0.3
"""Seconds that stopping a run may take, which takes some milliseconds; then the whole box is ended."""

ROOM = 1 << 30
"""Bytes, on top of the memory limit, that importing packages may reserve without using them."""

_ZYGOTE_ENDED = 70  # see inside/guardian.py


class Box:
    """One guardian with what it guards. Loads one script, then does one run at a time."""

    def __init__(self, plan: Plan) -> None:
        """Starts its first process. Raises BoxError."""
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._channel = Channel(self._event)
        self._ending: asyncio.Future[None] | None = None
        self._zygote = 0
        self._reserved = self._held = 0
        """Bytes that the zygote has reserved and holds once the script is loaded: what each child starts with."""
        self._watch = Watch(self._watched, self._event.set, self.close)
        try:
            self._first = Spawned(plan, self._channel.theirs, self._event.set)
        except BaseException:
            self._channel.close()
            raise

    @property
    def closed(self) -> bool:
        return self._ending is not None

    @property
    def alive(self) -> bool:
        return not (self._channel.gone or self.closed)

    async def start(self, seconds: float) -> None:
        """Waits until the doors are closed and the box is ready for a script. Raises BoxError."""
        try:
            await self._channel.say(self._plan.boot, [self._plan.program])
            message, _ = await self._channel.heard(self._loop.time() + seconds)
            if "hello" not in message:
                raise BoxError(str(message.get("failed")))
            self._zygote = self._find_zygote()
        except (SandboxLostError, TimeoutError) as e:
            said = await self._first.last_words()
            await self.close()
            raise BoxError(said or f"no sign of life ({type(e).__name__})") from e
        except BaseException:
            await self.close()
            raise

    async def load(self, source: str, limits: Limits) -> Raw:
        """How loading went. The box is of no more use where that was not well. Raises SandboxLostError."""
        self._channel.longest = replies.longest(limits)
        printed = Printed(self._event.set, limits.output, limits.flood)
        began = self._loop.time()
        until = began + limits.load_timeout
        try:
            message = {"do": "load", "seed": 0, "memory": limits.memory + ROOM}
            await self._channel.say(message, [source.encode("utf-8", "surrogatepass")], [printed.write])
            printed.handed_over()
            self._watch.begin(limits.memory)
            while (told := await self._loaded(printed, until)) is None:
                await self._channel.pause(until)
            kept, said = printed.cut()
            self._reserved, self._held = tree.fields(self._zygote, ("VmData", "RssAnon"))
            return Raw(0, *told, self._loop.time() - began, kept, said)
        finally:
            self._watch.end()
            printed.close()

    async def _loaded(self, printed: Printed, until: float) -> tuple[str, bytes] | None:
        if self._watch.full:
            return self._watch.full, b""
        if (heard := self._channel.message()) is not None:
            message, reply = heard
            if "loaded" not in message:
                why = message.get("failed", "it broke the process that holds the script")
                return "ended", str(why).encode("utf-8", "replace")
            return ("ended", b"it left processes behind") if self._left_behind() else ("reply", reply)
        if printed.flooded:
            return "flood", b""
        if not self.alive:
            return "ended", (await self._why()).encode()
        return ("timeout", b"") if self._loop.time() > until else None

    async def run(self, requests: Sequence[Request], limits: Limits, shared: bool) -> AsyncGenerator[Raw]:
        """
        One Raw a request, in their order, each as soon as it is known; `shared`: in one child as far as it lives.

        Ends early when the box is no longer `alive`; the rest is for another one. Raises SandboxLostError when it is
        lost for a reason that is not the script's.
        """
        rest = list(requests)
        ahead: Attempt | None = None
        while rest and self.alive:
            attempt = ahead or await self._announced(Run(rest if shared else rest[:1], shared), limits)
            following = rest[1:2] if not shared and self._plan.boot["confined"] else []
            async with contextlib.aclosing(self._attempt(attempt, following, limits)) as told:
                async for raw in told:
                    yield raw
            ahead = attempt.ahead
            rest = rest[attempt.run.place :]
        if ahead is not None:
            ahead.close()

    async def _announced(self, run: Run, limits: Limits) -> Attempt:
        """A run that the zygote knows of, and whose child waits for its requests."""
        attempt = Attempt(run, limits, self._event.set)
        message = {"do": "run", "calls": len(run.requests), "mark": run.mark.hex()}
        message["memory"] = self._reserved + max(0, limits.memory - self._held)
        try:
            await self._channel.say(message, (), attempt.theirs)
        except SandboxLostError:
            pass  # the script has ended it, which is told when the run begins
        except BaseException:
            attempt.close()
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
            while run.place < len(run.requests) and not run.broken:
                while (told := await self._told(run, results, printed, limits.timeout)) is None:
                    await self._channel.pause(run.began + limits.timeout + 0.001)
                how, payload, took = told
                if how == "again":
                    run.broken = True
                    break
                spent = self._loop.time() - run.began
                if how == "reply" and 0 <= took < spent:  # it is what the child says; coming here took time too
                    spent = took
                kept, said = printed.cut(how == "reply")
                call = run.requests[run.place].call
                run.next(how, self._loop.time())
                self._watch.next()
                if following and how == "reply" and run.ended is None:
                    attempt.ahead = await self._announced(Run(following, False), limits)
                yield Raw(call, how, payload, spent, kept, said)
            done = True
        finally:
            attempt.close()
            if attempt.ahead is not None and not done:
                attempt.ahead.close()
            await asyncio.shield(self._settle(attempt, done) if self.alive else self.close())
            self._watch.end()

    async def _told(
        self, run: Run, results: Results, printed: Printed, timeout: float
    ) -> tuple[str, bytes, float] | None:
        """
        How the request at hand has gone, by what is known so far: how, the reply or why, the seconds it says it took.

        What the child has sent counts before anything that speaks against it. `again`: nothing speaks against this
        request, but its child has to end.
        """
        if (found := results.next(run.place)) is not None:
            return "reply", *found
        if self._watch.full:  # an earlier call may have filled it, whose result was on its way
            return self._watch.full if self._watch.blames else "again", b"", 0.0
        if printed.flooded:
            return "flood", b"", 0.0
        if results.flawed:
            return "unreadable", results.flawed.encode(), 0.0
        if run.ended is not None:
            return "ended", ending(run.ended).encode(), 0.0
        if (heard := self._channel.message()) is not None:
            run.ended = heard[0]
            if "refused" in run.ended:
                raise SandboxLostError("no further process could be started on this machine; stop some, or use less -j")
            return await self._told(run, results, printed, timeout)
        if not self.alive:
            return "ended", (await self._why()).encode(), 0.0
        return ("timeout", b"", 0.0) if self._loop.time() > run.began + timeout else None

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
            if await self._watch.still_full() or "ended" not in run.ended or not await self._clean(ahead):
                await self.close()
            if ahead is not None and not done and self.alive:
                await self._settle(ahead, done)
        except (TimeoutError, SandboxLostError):
            await self.close()

    async def _clean(self, ahead: Attempt | None) -> bool:
        """Whether nothing is left of a run. The child of one that was announced may be there, and nothing else."""
        until = self._loop.time() + STOP
        while len(tree.children(self._zygote)) > (ahead is not None):
            if ahead is None or self._loop.time() > until:
                return False
            await self._channel.say({"do": "reap"})
            if "reaped" not in (await self._channel.heard(until))[0]:
                return False
        return True

    # What the host sees from outside.

    def _find_zygote(self) -> int:
        below = tree.descendants(self._first.pid)
        if not below:
            raise BoxError("its processes cannot be seen from outside")
        return below[-1]

    def _watched(self) -> list[int]:
        return [self._zygote, *tree.descendants(self._zygote)]

    def _left_behind(self) -> bool:
        """Whether there are processes that the zygote has not ended, as it should."""
        return bool(tree.children(self._zygote))

    async def _why(self) -> str:
        """Why the box has gone. Raises SandboxLostError where the script cannot have done it."""
        if self._channel.spoilt:
            await self.close()
            return "it broke the process that holds the script"
        status: int | None = None
        with contextlib.suppress(TimeoutError):
            status = await asyncio.wait_for(self._first.exit(), GRACE)
        await self.close()
        if status in (None, _ZYGOTE_ENDED):
            return "it ended the process that holds the script"
        raise SandboxLostError(f"the process sandbox was ended from outside (status {status})")

    async def close(self) -> None:
        """Ends every process of the box; safe twice."""
        if self._ending is None:
            self._channel.close()
            self._first.let_go()
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        await self._watch.close()
        await self._first.end(GRACE)
