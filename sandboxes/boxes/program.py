"""A script in boxes, loaded in as many as there are jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple, Protocol

from sandboxes import protocol
from sandboxes.base import Call, Execution, Isolation, Limits, Program, Script
from sandboxes.boxes import tiers
from sandboxes.boxes.holder import Holder
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor import shortage
from sandboxes.guest.supervisor.driver import Told
from sandboxes.protocol import Raw
from sandboxes.shield import every, finish

BARREN = 3
"""Boxes in a row that end before they have told of a call."""


class _Request(NamedTuple):
    call: int
    payload: bytes


class Holders(Protocol):
    """What makes holders of a script, and puts what they are told and tell into words."""

    warn: Callable[[str], None]

    @property
    def isolation(self) -> Isolation: ...

    @property
    def concurrency(self) -> int: ...

    async def holder(self) -> Holder: ...

    def request(self, call: Call, limits: Limits) -> bytes | Execution:
        """What a holder is told of a call, or the call's execution where it cannot be told."""

    def told(self, raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
        """The execution, as it may be shown."""


class BoxedProgram(Program):
    """A script, loaded in as many boxes as there are jobs."""

    def __init__(self, sandbox: Holders, script: Script, limits: Limits) -> None:
        self._sandbox = sandbox
        self._entrypoint = script.entrypoint
        self.closed = False
        self._free: asyncio.Queue[_Lane] = asyncio.Queue()
        self._lanes = [_Lane(sandbox, script, limits) for _ in range(sandbox.concurrency)]
        for lane in self._lanes:
            self._free.put_nowait(lane)

    async def load(self) -> None:
        """In all lanes at once, for it may take long; the first says how it went."""
        first, *others = self._lanes
        for lane in others:
            lane.begin()
        self.loaded = await first.loaded()
        if first.box is not None and first.box.left:
            self._sandbox.warn(tiers.reload(first.box.left, self._sandbox.isolation, self._entrypoint))

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncGenerator[Execution]:
        if self.loaded.status != "ok":
            for call in calls:
                yield self.loaded.model_copy(update={"call": call.id})
            return
        requests: list[_Request] = []
        for call in calls:
            made = self._sandbox.request(call, limits)
            if isinstance(made, Execution):
                yield made
            else:
                requests.append(_Request(call.id, made))
        lane = await self._free.get()
        try:
            async with contextlib.aclosing(self._on(lane, requests, limits)) as told:
                async for execution in told:
                    yield execution
        finally:
            self._free.put_nowait(lane)

    async def _on(self, lane: _Lane, requests: list[_Request], limits: Limits) -> AsyncGenerator[Execution]:
        """
        Raises SandboxLostError when the script cannot be loaded any more, and at the end where a call was lost.

        That one the caller may try by itself; those after it had not begun, and go on.
        """
        shared, bounds = self._sandbox.isolation == "batch", protocol.bounds(limits)
        barren = 0
        lost: SandboxLostError | None = None
        while requests:
            again = await lane.loaded()
            if again.status != "ok":  # it loads once and not always: a script that draws lots
                lane.forget()
                for request in requests:
                    yield again.model_copy(update={"call": request.call})
                return
            assert lane.box is not None
            done = 0
            # What comes later in the run may be what ended the box before anything could be told.
            begun = requests[:1] if barren else requests
            payloads = [request.payload for request in begun]
            try:
                async with contextlib.aclosing(lane.box.run(payloads, bounds, shared)) as all_told:
                    async for told in all_told:
                        _refuse_lost(told)
                        raw = Raw(begun[done].call, *told)
                        done += 1
                        yield self._sandbox.told(raw, limits, self._entrypoint)
            except SandboxLostError as e:
                if self.closed:
                    raise
                lost, requests, barren = e, requests[done + 1 :], 0
                continue
            except (OSError, RuntimeError) as e:  # in this process: no descriptor for a pipe, say
                if why := shortage.why(e):
                    raise SandboxLostError(why) from e
                raise
            barren = 0 if done else barren + 1
            if barren and (lane.box.alive or barren > BARREN):
                raise SandboxLostError("the sandbox gave no execution")
            requests = requests[done:]
        if lost is not None:
            raise lost

    async def close(self) -> None:
        self.closed = True
        await finish(lambda: every(lane.close for lane in self._lanes))


def _refuse_lost(told: Told) -> None:
    """Raises SandboxLostError for what was neither the script's doing nor its reply."""
    if told[0] == "lost":
        raise SandboxLostError(told[1].decode("utf-8", "replace"))


class _Lane:
    """A box with the script in it, made anew when it is lost."""

    def __init__(self, sandbox: Holders, script: Script, limits: Limits) -> None:
        self._sandbox, self._script, self._limits = sandbox, script, limits
        self._loading: asyncio.Task[Execution] | None = None
        self.box: Holder | None = None

    def begin(self) -> asyncio.Task[Execution]:
        if self._loading is None or (self._loading.done() and not self._usable()):
            self._loading = asyncio.create_task(self._load())
        return self._loading

    async def loaded(self) -> Execution:
        """How loading went, waiting for it; once more where the box was lost. Raises SandboxError."""
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
            told = await self.box.load(self._script, self._limits)
        except (OSError, RuntimeError) as e:
            if why := shortage.why(e):
                raise SandboxLostError(why) from e
            raise
        _refuse_lost(told)
        loaded = self._sandbox.told(Raw(0, *told), self._limits, self._script.entrypoint, loading=True)
        if loaded.status != "ok":
            await self.box.close()
        return loaded

    def forget(self) -> None:
        self._loading = None

    async def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)  # who waited for it was told why
        if self.box is not None:
            await self.box.close()
