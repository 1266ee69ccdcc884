"""A script, loaded in as many boxes as there are jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol, TypeAlias

from sandboxes import protocol
from sandboxes.base import Call, Execution, GroupedProgram, Isolation, Limits, SandboxConfig, Script
from sandboxes.boxes import tiers
from sandboxes.boxes.holder import Holder
from sandboxes.boxes.run_queue import RunQueue, RunSlot
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor import shortage
from sandboxes.guest.supervisor.driver import NOTHING, After, CallResult
from sandboxes.host.shield import every, finish
from sandboxes.protocol import Raw

BARREN = 3
"""Boxes in a row that may end before they have a result."""


_Request = tuple[int, bytes]
"""The call's number, and what is sent."""


class Holders(Protocol):
    """Makes holders of a script, and translates requests and results for them."""

    warn: Callable[[str], None]
    eager: bool
    config: SandboxConfig

    @property
    def isolation(self) -> Isolation: ...

    @property
    def boxes(self) -> int:
        """Boxes with the script."""

    @property
    def seats(self) -> int:
        """How many runs go on beside each other, in all boxes together; 0: each box does one at a time."""

    async def holder(self) -> Holder: ...

    def request(self, call: Call, limits: Limits) -> bytes | Execution:
        """Return the request for a call, or the call's execution if it cannot be sent."""

    def execution(self, raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
        """Return the execution, ready for the user."""


class BoxedProgram(GroupedProgram):
    """A script, loaded in as many boxes as there are jobs, or as run it."""

    def __init__(self, sandbox: Holders, script: Script, limits: Limits) -> None:
        self._sandbox = sandbox
        self._script, self._entrypoint = script, script.entrypoint
        self.closed = False
        boxes = [_BoxLane(sandbox, script, limits) for _ in range(sandbox.boxes)]
        seats = range(sandbox.seats)
        self._lanes: Sequence[_Lane] = [_SeatLane(boxes[n % len(boxes)], n) for n in seats] or boxes
        self._turns = RunQueue(self._lanes)

    async def load(self) -> None:
        """Load it, in all lanes at once if the sandbox is eager, as it may take long; the first has the result."""
        first, *others = self._lanes
        if self._sandbox.eager:
            for lane in others:
                lane.begin()
        self.loaded = await first.load_result()
        if first.box is not None and first.box.left:
            self._sandbox.warn(tiers.reload_warning(first.box.left, self._sandbox.isolation, self._script))

    async def run_grouped(self, calls: Sequence[Call], limits: Limits) -> AsyncGenerator[Sequence[Execution]]:
        if self.loaded.status != "ok":
            yield [self.loaded.model_copy(update={"call": call.id}) for call in calls]
            return
        requests: list[_Request] = []
        for call in calls:
            made = self._sandbox.request(call, limits)
            if isinstance(made, Execution):
                yield (made,)
            else:
                requests.append((call.id, made))
        turn: RunSlot[_Lane] = RunSlot([payload for _, payload in requests], limits)
        await self._turns.take(turn)
        try:  # nothing is waited for before a run that was begun in the lane is gone on with
            async with contextlib.aclosing(self._run_on(turn, requests)) as groups:
                async for group in groups:
                    yield group
        finally:
            self._turns.release(turn)

    async def _run_on(self, turn: RunSlot[_Lane], requests: list[_Request]) -> AsyncGenerator[Sequence[Execution]]:
        """
        Run the requests in a lane. Raises SandboxLostError if the script can no longer be loaded, and at the end if a
        call was lost.

        The caller may try that call by itself; those after it had not begun, and go on. The lane is handed on with the
        last results.
        """
        lane, limits = turn.lane, turn.limits
        assert lane is not None
        shared, bounds = self._sandbox.isolation == "batch", protocol.bounds(limits)
        barren = 0
        lost: SandboxLostError | None = None
        while requests:
            again = await lane.load_result()
            if again.status != "ok":  # the script does not always load, for example at random
                lane.forget()
                yield [again.model_copy(update={"call": number}) for number, _ in requests]
                return
            assert lane.box is not None
            done = 0
            # A later request may have ended the box before it reported anything; so try the first one alone.
            begun = requests[:1] if barren else requests
            whole = len(begun) == len(turn.payloads)
            payloads = turn.payloads if whole else [payload for _, payload in begun]
            after = _After(self._turns, turn) if len(begun) == len(requests) else NOTHING
            if judged := self._sandbox.config.judges is not None:
                after = NOTHING  # whose a request is must be known
                lane.box.begin([number for number, _ in begun[: None if shared else 1]])
            try:
                async with contextlib.aclosing(lane.box.run(payloads, bounds, shared, after)) as groups:
                    async for results in groups:
                        _refuse_lost(results[0])
                        raws = [Raw(begun[done + n][0], *result) for n, result in enumerate(results)]
                        done += len(raws)
                        if judged:
                            lane.box.begin([number for number, _ in begun[done : None if shared else done + 1]])
                        yield [self._sandbox.execution(raw, limits, self._entrypoint) for raw in raws]
            except SandboxLostError as e:
                if self.closed:
                    raise
                lost, requests, barren = e, requests[done + 1 :], 0
                continue
            except (OSError, RuntimeError) as e:  # in this process, for example no descriptor for a pipe
                if why := shortage.why(e):
                    raise SandboxLostError(why) from e
                raise
            barren = 0 if done else barren + 1
            if barren and (lane.box.alive or barren > BARREN):
                raise SandboxLostError("the sandbox ended without an execution")
            requests = requests[done:]
        if lost is not None:
            raise lost

    async def close(self) -> None:
        self.closed = True
        await finish(lambda: every(lane.close for lane in self._lanes))


class _After(After):
    """What follows a run in its lane."""

    def __init__(self, turns: RunQueue[_Lane], turn: RunSlot[_Lane]) -> None:
        self._turns, self._turn = turns, turn

    def requests(self) -> Sequence[bytes]:
        return self._turns.following(self._turn)

    def begun(self) -> None:
        self._turns.release(self._turn)


def _refuse_lost(result: CallResult) -> None:
    """Raise SandboxLostError for what was neither the script's fault nor its reply."""
    if result[0] == "lost":
        raise SandboxLostError(result[1].decode("utf-8", "replace"))


class _BoxLane:
    """A box with the script, replaced when it is lost."""

    def __init__(self, sandbox: Holders, script: Script, limits: Limits) -> None:
        self._sandbox, self._script, self._limits = sandbox, script, limits
        self._loading: asyncio.Task[Execution] | None = None
        self.box: Holder | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether it can run at once."""
        return self._loading is not None and self._loading.done()

    def begin(self) -> asyncio.Task[Execution]:
        if self._loading is None or (self._loading.done() and not self._usable()):
            self._loading = asyncio.create_task(self._load())
        return self._loading

    async def load_result(self) -> Execution:
        """Wait for the result of loading; load once more if the box was lost. Raises SandboxError."""
        try:
            return await asyncio.shield(self.begin())
        except SandboxLostError:
            return await asyncio.shield(self.begin())

    def _usable(self) -> bool:
        loading = self._loading
        assert loading is not None
        return not loading.cancelled() and loading.exception() is None and self.box is not None and self.box.alive

    async def _load(self) -> Execution:
        if self.box is not None:
            await self.box.close()
        try:
            self.box = await self._sandbox.holder()
            result = await self.box.load(self._script, self._limits)
        except (OSError, RuntimeError) as e:
            if why := shortage.why(e):
                raise SandboxLostError(why) from e
            raise
        _refuse_lost(result)
        loaded = self._sandbox.execution(Raw(0, *result), self._limits, self._script.entrypoint, loading=True)
        if loaded.status != "ok":
            await self.box.close()
        return loaded

    def forget(self) -> None:
        self._loading = None

    async def abandon(self) -> None:
        """Stop the run that was begun for one that is not wanted any more."""
        if self.box is not None:
            await self.box.abandon()

    async def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)  # its callers have got the error
        if self.box is not None:
            await self.box.close()


class _SeatLane:
    """A seat in a box that other lanes have seats in, too."""

    def __init__(self, shared: _BoxLane, number: int) -> None:
        self._shared, self._number = shared, number
        self._holder: Holder | None = None
        self.box: Holder | None = None
        """Its seat."""

    @property
    def is_loaded(self) -> bool:
        return self._shared.is_loaded

    def begin(self) -> asyncio.Task[Execution]:
        return self._shared.begin()

    async def load_result(self) -> Execution:
        loaded = await self._shared.load_result()
        if loaded.status == "ok" and self._shared.box is not None and self._holder is not self._shared.box:
            self._holder, self.box = self._shared.box, self._shared.box.seat(self._number)
        return loaded

    def forget(self) -> None:
        self._shared.forget()

    async def abandon(self) -> None:
        """Do nothing: no run is begun in advance."""

    async def close(self) -> None:
        await self._shared.close()


_Lane: TypeAlias = _BoxLane | _SeatLane
