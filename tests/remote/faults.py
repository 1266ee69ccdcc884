"""What a local server is told to do wrong, at which request."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tests.remote.machine import Machine, Machines

_LOG = 2000


class Fault(BaseModel):
    """
    At the `nth` request of an operation from now on, and at those that follow as often as `times` says.

        status:503     answers so; with `headers`, `text`, `code`. Nothing is done
        rate           the provider's answer to who asks too often; `after` seconds
        full           its answer to who has all the machines that he may
        garbage        answers something unusable. Nothing is done
        cut-before     the connection breaks, nothing is done
        cut-after      all is done, then the connection breaks
        late:2.5       all is done at once, and answered so many seconds later
        slow:2.5       it begins so many seconds later, whether or not anybody still waits
        cut-frame:3    the stream breaks before its third frame; what runs goes on running
        die-frame:3    the machine dies there
        kill-frame:3   all that runs in the machine is killed there; the machine lives on
        freeze-frame:3 all that runs in the machine is stopped there, and goes on never
        stall-frame:3  nothing is sent there for `after` seconds
    """

    model_config = ConfigDict(extra="forbid")

    op: str
    do: str
    nth: int = 1
    times: int = 1
    after: float | None = None
    headers: dict[str, str] = {}
    text: str = ""
    code: str = ""
    seen: int = 0
    struck: int = 0
    """How often it took effect."""

    @property
    def kind(self) -> str:
        return self.do.partition(":")[0]

    @property
    def number(self) -> float:
        return float(self.do.partition(":")[2])

    def begins(self) -> bool:
        """Whether the request that comes now is one of those; counts it."""
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


class Fail(Exception):
    """An answer that is a failure; the server has its own form of it."""

    def __init__(self, kind: Literal["status", "rate", "full", "garbage"], status: int, fault: Fault) -> None:
        super().__init__(f"{fault.op}: {fault.do}")
        self.kind = kind
        self.status = status
        """For `rate` and `full` 429; the server knows better."""
        self.headers = fault.headers
        self.text = fault.text or f"told to fail with {fault.do}"
        self.code = fault.code
        self.after = fault.after
        """Seconds, for `rate`."""


class Cut(Exception):
    """The connection breaks off here."""


class Faults:
    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        if fault.kind not in {*_BEFORE, *_AFTER, *_FRAMES}:
            raise ValueError(f"there is no fault {fault.do!r}")
        self._waiting.append(fault)

    def clear(self) -> None:
        self._waiting.clear()

    def pending(self) -> list[str]:
        """Those that have not taken effect."""
        return [f"{fault.op} {fault.do}" for fault in self._waiting if not fault.struck]

    def of(self, op: str) -> list[Fault]:
        """Those of the request that comes now."""
        return [fault for fault in self._waiting if fault.op == op and fault.begins()]


_BEFORE = ("status", "rate", "full", "garbage", "cut-before", "slow")
_AFTER = ("cut-after", "late")
_FRAMES = ("cut-frame", "die-frame", "kill-frame", "freeze-frame", "stall-frame")
_NOW: ContextVar[tuple[Fault, ...]] = ContextVar("faults of this request", default=())


class Front:
    """What every local server has: its machines, what it counts, and what it is told to do wrong."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self.options = options or {}
        """What the test started the server with."""
        self.machines = Machines()
        self.faults = Faults()
        self.latency = 0.0
        """Seconds that every request waits."""
        self.requests: Counter[str] = Counter()
        self.frames: Counter[str] = Counter()
        """The highest number of a frame, by operation."""
        self.log: deque[tuple[str, str]] = deque(maxlen=_LOG)
        self.extra: dict[str, Any] = {}
        """What the test is to know of the server besides its address."""
        self.environment: Callable[[str], dict[str, str]] = lambda url: {}
        """The variables that lead a client to the server at this address."""

    @property
    def created(self) -> int:
        return self.machines.created

    async def operation(self, op: str) -> None:
        """
        Counts a request; waits, or fails, before anything is done.

        Call it once for each request, in the task that later calls `done` and `frame`. Raises Fail and Cut.
        """
        self.requests[op] += 1
        found = self.faults.of(op)
        _NOW.set(tuple(found))
        self.log.append((op, " ".join(fault.do for fault in found)))
        await asyncio.sleep(self.latency)
        for fault in found:
            fault.struck += fault.kind in _BEFORE
            match fault.kind:
                case "slow":
                    await asyncio.sleep(fault.number)
                case "cut-before":
                    raise Cut
                case "status":
                    raise Fail("status", int(fault.number), fault)
                case "rate" | "full":
                    raise Fail("rate" if fault.kind == "rate" else "full", 429, fault)
                case "garbage":
                    raise Fail("garbage", 200, fault)

    async def done(self, op: str) -> None:
        """After all is done, before it is answered. Raises Cut."""
        for fault in _NOW.get():
            fault.struck += fault.kind in _AFTER
            if fault.kind == "late":
                await asyncio.sleep(fault.number)
            elif fault.kind == "cut-after":
                raise Cut

    async def frame(self, op: str, number: int, machine: Machine | None = None) -> None:
        """
        Before the frame of this number, from 1, of a stream is sent. Raises Cut.

        After `die-frame` it returns, and the machine is gone: the server then says what the provider would.
        """
        self.frames[op] = max(self.frames[op], number)
        for fault in _NOW.get():
            if fault.kind in _FRAMES and int(fault.number) == number:
                fault.struck += 1
                await self._struck(fault, [machine] if machine else self.machines.live())

    async def _struck(self, fault: Fault, machines: list[Machine]) -> None:
        match fault.kind:
            case "cut-frame":
                raise Cut
            case "stall-frame":
                await asyncio.sleep(fault.after or 0)
            case "kill-frame" | "freeze-frame":
                for machine in machines:
                    await machine.kill_all(signal.SIGKILL if fault.kind == "kill-frame" else signal.SIGSTOP)
            case "die-frame":
                for machine in machines:
                    await machine.end("told to die")

    async def state(self) -> dict[str, Any]:
        told = ("id", "key", "tags", "network", "first")
        return {
            "machines": [{name: getattr(machine, name) for name in told} for machine in self.machines.live()],
            "processes": await self.machines.processes(),
            "requests": dict(self.requests),
            "created": self.created,
            "log": list(self.log),
            "frames": dict(self.frames),
            "pending": self.faults.pending(),
        }

    async def clear(self) -> None:
        """As at the start."""
        self.faults.clear()
        self.latency = 0.0
        await self.machines.end_all()
        self.requests.clear()
        self.frames.clear()
        self.log.clear()
        self.machines.created = 0

    async def die(self, id: str) -> None:
        with contextlib.suppress(LookupError):
            await self.machines.get(id).end("told to die")
