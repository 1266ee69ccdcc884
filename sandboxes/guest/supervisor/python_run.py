"""
Run calls of a script in a box with a Python that forks, each run in a child of its own.

Only the rules; a `Driver` does what they need. Also sent to providers' machines.
"""

from __future__ import annotations

from .attempt import Attempt
from .blame import is_error, is_well, was_killed
from .driver import NOTHING, After, BoxFailure, Closing
from .processor import ProcessorTime
from .python_load import ROOM, PythonLoader
from .run import ending
from .shortage import PROCESSES

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any

    from .driver import CallBounds, CallResult, Driver


class PythonSupervisor(PythonLoader):
    """Load one script, then do one run at a time."""

    def __init__(self, box: Driver, ahead: bool) -> None:
        """
        With `ahead` a run's child is forked while the one before ends. For boxes whose zygote is confined, and ends all
        that a child leaves.
        """
        super().__init__(box)
        self._forks_ahead = ahead
        self._begun: Attempt | None = None
        """A run that was begun in advance, and that nobody goes on with yet."""

    async def run(
        self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool, after: After = NOTHING
    ) -> AsyncGenerator[Sequence[CallResult]]:
        """
        Yield the results of the requests, in order, as soon as they are known, in groups of those that are there
        together; with `shared` they share a state, while it lives.

        Ends early when the box is no longer alive; another box must do the rest. Where state is shared, the run `after`
        this one may be begun before the last results are told: `run` of its requests goes on with it.
        """
        if (ahead := self._begun) is not None and ahead.run.payloads is payloads:
            self._begun = None
        else:
            ahead = None
            await self.abandon()
        place = 0
        while place < len(payloads) and self._box.alive:
            last = len(payloads) if shared else place + 1
            attempt = ahead or await self._announce(payloads[place:last], bounds)
            following = after if shared else _Rest(payloads[last : last + 1])
            async with Closing(self._attempt(attempt, following, bounds, shared)) as told:
                async for each in told:
                    yield each
            ahead = attempt.ahead
            place += attempt.run.place
        if ahead is not None:
            ahead.close()

    async def abandon(self) -> None:
        """Stop the run that was begun in advance, if there is one."""
        if (begun := self._begun) is not None:
            self.forget()
            await self._box.finish(lambda: begun.settle(False))

    def forget(self) -> None:
        """Close the pipes to a run that was begun in advance, as the box ends."""
        if self._begun is not None:
            self._begun.close()
            self._begun = None

    async def _announce(self, payloads: Sequence[bytes], bounds: CallBounds) -> Attempt:
        """A run that the zygote knows of, and whose child waits for its requests."""
        attempt = Attempt(self._box, payloads, bounds, self._script, self.is_clean)
        message: dict[str, Any] = {"do": "run", "calls": len(payloads), "mark": attempt.run.mark.hex()}
        message["loads"] = attempt.loads
        message["memory"] = self._reserved + max(0, bounds.memory - self._held)
        if attempt.loads or not self._reserved:  # it imports, or the kernel does not show it
            message["memory"] += ROOM
        try:
            await self._box.send(message, (), attempt.theirs)
        except BoxFailure:
            pass  # the script has ended it, which is reported when the run begins
        except BaseException:  # the zygote may have received half of it
            attempt.close()
            await self._box.close()
            raise
        return attempt

    async def _announce_ahead(self, after: After, bounds: CallBounds) -> Attempt | None:
        """The run that follows, if there is one and room for it: results that are there wait for neither."""
        if not (requests := after.requests()):
            return None
        try:
            return await self._announce(requests, bounds)
        except OSError:  # no descriptor for its pipes; when its turn comes, it is told
            return None

    async def _attempt(
        self, attempt: Attempt, after: After, bounds: CallBounds, shared: bool
    ) -> AsyncGenerator[Sequence[CallResult]]:
        """
        Run requests in one child until one ends it.

        When it is done, the run `after` it is announced, so that its child is forked meanwhile; otherwise nothing of
        the run is left when the result of its last request is returned.
        """
        box, run, printed = self._box, attempt.run, attempt.printed
        done = False
        try:
            if not attempt.begun:
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
                spent = run.timing.spend(took, since := box.now())
                kept, said = printed.cut(how == "reply")
                if not run.next(how, payload):
                    break
                run.timing.next(attempt.results.arrivals)
                told = [(how, payload, spent, kept, said, False)]
                if not run.over:
                    told += self._arrived(attempt)
                if run.over:
                    # Only after a reply that leaves no request of this run: the others go first, in a new state.
                    if self._forks_ahead and how == "reply" and run.done and run.ended is None:
                        attempt.ahead = await self._announce_ahead(after, bounds)
                    # The caller deals with these meanwhile.
                    kept_back = -(-len(told) // 2) if attempt.ahead is not None else 1
                    if early := told[:-kept_back]:
                        yield early
                        told = told[-kept_back:]
                    if attempt.ahead is None or shared:
                        await box.finish(lambda: attempt.settle(True))
                    if shared:
                        await self._begin_ahead(attempt, after, bounds)
                yield told
                if not run.over:
                    await attempt.pause(told[-1], since, bounds.timeout)
                run.timing.look(box.now())
            done = True
        finally:
            attempt.close()
            if (ahead := attempt.ahead) is not None and not done:
                ahead.close()
            if not attempt.settled:
                try:
                    await box.finish(lambda: attempt.settle(done))
                except BaseException:
                    if ahead is not None and done:
                        await box.finish(ahead.give_up)
                    raise
            elif ahead is not None and not done:
                await box.finish(ahead.give_up)

    async def _begin_ahead(self, attempt: Attempt, after: After, bounds: CallBounds) -> None:
        """Begin the run that was announced, unless it is not wanted any more; nothing is left of the one before."""
        ahead, attempt.ahead = attempt.ahead, None
        if ahead is None:
            return
        if not self._box.alive:
            ahead.close()
        elif after.requests() is not ahead.run.payloads:
            await self._box.finish(ahead.give_up)
        else:
            self._box.watch(bounds.memory)
            ahead.begin(self._box.now())
            self._begun = ahead
            after.begun()

    def _arrived(self, attempt: Attempt) -> list[CallResult]:
        """The values that have arrived as well."""
        run, cut, now = attempt.run, attempt.printed.cut, self._box.now()
        spend = run.timing.spend
        values = attempt.results.values(run.place, len(run.payloads))
        run.place += len(values)
        run.timing.next(attempt.results.arrivals)
        return [("reply", payload, spend(took, now), *cut(), False) for payload, took in values]

    async def _load_failure(self, attempt: Attempt, bounds: CallBounds) -> CallResult | None:
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


class _Rest(After):
    """The next request of the same run."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = requests

    def requests(self) -> Sequence[bytes]:
        return self._requests
