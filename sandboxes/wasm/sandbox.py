"""CPython in WebAssembly, in worker processes, with a fresh state for every call."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import AsyncGenerator, Sequence
from functools import cache
from importlib.util import find_spec
from time import monotonic
from typing import Any, ClassVar

from sandboxes.base import (
    LOG,
    Call,
    Capabilities,
    Execution,
    GroupedProgram,
    Limits,
    Program,
    Sandbox,
    SandboxConfig,
    Script,
)
from sandboxes.errors import SandboxError, SandboxLostError, SandboxUnavailableError
from sandboxes.guest.supervisor import shortage
from sandboxes.host.cores import cores
from sandboxes.host.shield import every, finish
from sandboxes.protocol import DEATHS, Death, call_request, execution, load_request, longest
from sandboxes.refusals import refuse_language
from sandboxes.wasm.frames import Bounds, Request
from sandboxes.wasm.lanes import Lane
from sandboxes.wasm.native_code import PARTS, NativeCode, compile_part, guest_file, wasmtime_version
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.wall import NOTHING, PROTECTS, Tier
from sandboxes.wasm.wall_report import wall_here, wall_words
from sandboxes.words.hints import WASM

if find_spec("wasmtime") is None:  # only workers import it
    raise ImportError("No module named 'wasmtime'")

MOST_MEMORY = 4 << 30
"""In bytes; a 32-bit WebAssembly memory cannot be larger."""

DEATHS_HERE = DEATHS | {
    "stack": Death("crash", "StackOverflow", "its recursion used up the interpreter's stack: nested too deeply"),
    "trap": Death(
        "crash",
        "Crash",
        "the interpreter stopped ({why}): the script broke it, or asked for what this sandbox does not have "
        "(files, network, threads, processes)",
    ),
    "unreadable": Death("crash", "Crash", "the script broke the interpreter's memory: {why}"),
}

PATIENCE = 0.05
"""Seconds that a program's callers wait in sum before another lane loads it: a start costs more than a few rows."""

_SECONDS = 60.0
"""Seconds for a worker to be ready, which takes less than one; a machine under load may be slow."""

ADDRESSES = 10 << 30
"""Bytes: an instance reserves 4 GB and a guard, and a new one is made while another is there."""


class WasmConfig(SandboxConfig):
    """Settings of the wasm sandbox only."""

    reset: Reset = "auto"
    tier: Tier | None = None
    """Of the kernel's wall around a worker. None: the strongest that works here."""


_ENFORCED = (
    *("timeout", "processor time", "memory", "output", "result size"),
    *("no network", "no files", "no environment"),
)


class WasmSandbox(Sandbox):
    """CPython in WebAssembly; see docs/threat-model.md for what it protects, and docs/decisions/ for its design."""

    name: ClassVar[str] = "wasm"
    capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("python",),
        isolation=("call", "batch"),
        disk=True,
        cpu=True,
        enforced=_ENFORCED,
        tiers=(*(f"{tier}: {protects}" for tier, protects in PROTECTS.items()), f"none: {NOTHING}"),
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._reset: Reset = config.reset if isinstance(config, WasmConfig) else "auto"
        self._tier = config.tier if isinstance(config, WasmConfig) else None
        self._wall: dict[str, Any] = {}
        self._jobs = config.jobs or cores()
        self._lanes: list[Lane] = []
        self._free: list[Lane] = []
        self._given_up: list[Lane] = []
        self._room = asyncio.Semaphore(0)
        self._numbers = itertools.count(1)
        self._back = asyncio.Event()
        self._patience: dict[int, float] = {}  # seconds, by program

    @property
    def concurrency(self) -> int:
        return self._jobs

    @property
    def identity(self) -> str:
        return f"wasm/python-{self.python}/wasmtime-{wasmtime_version()}"

    @property
    def python(self) -> str:
        return _guest_python()

    @property
    def manifest(self) -> dict[str, Any]:
        return {"sandbox": self.identity} | self._wall

    @classmethod
    def check(cls) -> str:
        from sandboxes.wasm.restore import restores_pages

        fresh = "restored pages" if restores_pages() else "new instances"
        made = f"CPython {_guest_python()} in wasmtime {wasmtime_version()}; a fresh state by {fresh}"
        return f"{made}; {wall_words(wall_here())}"

    async def open(self) -> None:
        _refuse_few_addresses()
        try:
            await self._begin()
        except RuntimeError as e:
            if why := shortage.why(e):
                raise SandboxUnavailableError(f"the wasm sandbox cannot start: {why}") from e
            raise

    async def _begin(self) -> None:
        self._lanes = [Lane(self._reset, self._tier) for _ in range(self._jobs)]
        await finish(self._lanes[0].start)  # first, so that it imports what it needs meanwhile
        found = await self._compiled()
        for lane in self._lanes:
            lane.serve(found)
        await self._lanes[0].greet(_SECONDS)
        self._wall = self._lanes[0].wall
        for lane in self._lanes:  # none is ever weaker than the manifest says
            lane.tier = self._wall.get("tier") or self._tier
        self._free, self._room = list(self._lanes), asyncio.Semaphore(len(self._lanes))

    async def _compiled(self, tried: bool = False) -> NativeCode:
        stop = threading.Event()
        try:
            parts = (asyncio.to_thread(compile_part, part, self.progress, tried, stop) for part in PARTS)
            return NativeCode(*await asyncio.gather(*parts))
        finally:
            stop.set()  # for a thread that nobody waits for any more

    async def load(self, script: Script, limits: Limits) -> Program:
        refuse_language(self.name, self.language, script)
        program = WasmProgram(self, next(self._numbers), script, limits)
        try:
            async with self.lane(program.number) as lane:
                program.loaded = await program.load_on(lane)
            self._patience[program.number] = PATIENCE
        except BaseException:
            await program.close()
            raise
        return program

    @property
    def is_open(self) -> bool:
        return bool(self._lanes)

    @contextlib.asynccontextmanager
    async def lane(self, program: int) -> AsyncGenerator[Lane]:
        """
        Wait for a free lane, for one batch of the program: one that has loaded it, else the one with the fewest.

        So a program is loaded in no more lanes than run it at the same time: each of them holds its memory.
        """
        if not self.is_open:
            raise SandboxError("the wasm sandbox is not open; use it as `async with sandbox:`")
        await self._room.acquire()
        lane: Lane | None = None
        try:
            await self._wait(program)
            lane = min(self._free, key=lambda lane: (program not in lane.programs, not lane.begun, len(lane.programs)))
            self._free.remove(lane)
            yield lane
        finally:
            if lane not in self._given_up:
                self._room.release()
                if lane is not None:
                    self._free.append(lane)
                    self._back.set()

    async def _wait(self, program: int) -> None:
        """Wait until a lane that has the program is free, unless its callers have waited long enough together."""
        while (left := self._patience.get(program, 0.0)) > 0:
            if any(program in lane.programs for lane in self._free):
                return
            began = monotonic()
            self._back.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._back.wait()
            self._patience[program] = left - (monotonic() - began)

    def give_up(self, lane: Lane, program: int, why: SandboxLostError) -> bool:
        """Do without a lane that never worked, if another one has the program: rows can wait for that."""
        if lane.worked or not any(program in other.programs for other in self._lanes):
            return False
        LOG.warning("one wasm worker less: %s", why)
        self._given_up.append(lane)
        return True

    async def renew(self, lane: Lane) -> None:
        """Compile the guest again if a worker was lost because the cached code does not load here."""
        lane.serve(await self._compiled(tried=True))

    async def forget(self, program: int) -> None:
        self._patience.pop(program, None)
        for lane in self._lanes:
            await lane.forget(program)

    async def close(self) -> None:
        lanes, self._lanes = self._lanes, []
        await finish(lambda: every(lane.close for lane in lanes))


def _refuse_few_addresses() -> None:
    """Raise SandboxUnavailableError if the limit of addresses (not of memory) leaves no room for two instances."""
    try:
        import resource
    except ImportError:
        return  # on Windows, which has no such limit
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY and most < ADDRESSES:
        raise SandboxUnavailableError(
            f"the wasm sandbox reserves {ADDRESSES >> 30} GB of addresses, which takes no memory, and this process "
            f"may have {most / 2**30:.1f} GB; raise the limit: ulimit -v unlimited"
        )


def bounds(limits: Limits, loading: bool = False) -> Bounds:
    """Return the limits, as a worker keeps them."""
    timeout = limits.load_timeout if loading else limits.timeout
    return Bounds(timeout, min(limits.memory, MOST_MEMORY), longest(limits), None if loading else limits.cpu)


class WasmProgram(GroupedProgram):
    """A script; each lane loads it when it first runs a batch of it."""

    def __init__(self, sandbox: WasmSandbox, number: int, script: Script, limits: Limits) -> None:
        self._sandbox, self.number, self._limits = sandbox, number, limits
        self._text = load_request(script, limits)
        self._entrypoint = script.entrypoint

    async def load_on(self, lane: Lane) -> Execution:
        """Return the result of loading; load once more if the lane was lost. Raises SandboxError."""
        limits = bounds(self._limits, loading=True)
        try:
            raw = await lane.load(self.number, self._text, limits)
        except SandboxLostError:
            if not self._sandbox.is_open:
                raise
            await self._sandbox.renew(lane)
            raw = await lane.load(self.number, self._text, limits)
        return execution(raw, self._limits, self._entrypoint, loading=True, deaths=DEATHS_HERE, place=WASM)

    async def run_grouped(self, calls: Sequence[Call], limits: Limits) -> AsyncGenerator[Sequence[Execution]]:
        if self.loaded.status != "ok":
            yield [self.loaded.model_copy(update={"call": call.id}) for call in calls]
            return
        requests: list[Request] = []
        for call in calls:
            text = call_request(call, limits)
            if isinstance(text, Execution):
                yield (text,)
            else:
                requests.append(Request(call.id, call.seed, text))
        lost: SandboxLostError | None = None
        while requests:
            async with self._sandbox.lane(self.number) as lane:
                if self.number not in lane.programs:
                    try:
                        again = await self.load_on(lane)
                    except SandboxLostError as e:
                        if not self._sandbox.give_up(lane, self.number, e):
                            raise
                        continue
                    if again.status != "ok":  # the script does not always load, for example at random
                        await lane.forget(self.number)
                        yield [again.model_copy(update={"call": request.call}) for request in requests]
                        return
                shared = self._sandbox.isolation == "batch"
                run = lane.run(self.number, requests, bounds(limits), shared)
                done = 0
                try:
                    async with contextlib.aclosing(run) as groups:
                        async for raws in groups:
                            done += len(raws)
                            yield [
                                execution(raw, limits, self._entrypoint, deaths=DEATHS_HERE, place=WASM) for raw in raws
                            ]
                except SandboxLostError as e:  # the caller may try that call by itself; those after it had not begun
                    if not self._sandbox.is_open:
                        raise
                    lost, done = e, done + 1
                requests = requests[done:]
        if lost is not None:
            raise lost

    async def close(self) -> None:
        await self._sandbox.forget(self.number)


@cache
def _guest_python() -> str:
    try:
        return str(json.loads(guest_file("guest.json"))["python"])
    except (ValueError, KeyError) as e:
        raise SandboxUnavailableError(f"the wasm guest's manifest is damaged ({e}); reinstall evalcell") from e
