"""
A place for a supervisor where nothing runs: a clock that is set, and a box in which a list of events happens.

The pipes are real, and so is what is written to them.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sandboxes.guest import wire
from sandboxes.guest.supervisor import deno_fifo
from sandboxes.guest.supervisor.clock import now
from sandboxes.guest.supervisor.deno_fifo import FramePipe
from sandboxes.guest.supervisor.driver import BoxFailure, CallBounds

BOUNDS = CallBounds(memory=1 << 20, output=64, flood=1 << 12, longest=1 << 12, timeout=1.0, load_timeout=2.0)

NO_MEMORY = b'{"status":"memory","error":{}}'
"""A reply for which earlier requests may be to blame."""

Message = tuple[dict[str, Any], bytes]
Event = tuple[str, Any]


class Loop:
    """Calls back for what can be read or written at this moment."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], Any]] = {}
        self.writers: dict[int, Callable[[], Any]] = {}

    def add_reader(self, fd: int, callback: Callable[[], Any], /) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int, /) -> None:
        self.readers.pop(fd, None)

    def add_writer(self, fd: int, callback: Callable[[], Any], /) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int, /) -> None:
        self.writers.pop(fd, None)

    def turn(self) -> None:
        can_read, can_write, _ = select.select([*self.readers], [*self.writers], [], 0)
        for ready, callbacks in ((can_read, self.readers), (can_write, self.writers)):
            for fd in ready:
                if fd in callbacks:
                    callbacks[fd]()


class Place:
    """A `Driver`. Each `wait` lets the next of the events happen; when there is none, the time comes."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.loop = Loop()
        self.longest = 0
        self.events = [*events]
        self.happened: set[str] = set()
        self.messages: list[Message] = []
        self.full = ""
        self.gone = self.closed = False
        self.inner = 0
        self.watching = False
        self._passed = 0.0

    @property
    def tmp(self) -> None:
        return None

    @property
    def alive(self) -> bool:
        return not (self.gone or self.closed)

    def now(self) -> float:
        return now() + self._passed

    def passes(self, seconds: float) -> None:
        """So long the caller deals with something."""
        self._passed += seconds

    def wake(self) -> None:
        """Nobody sleeps."""

    async def wait(self, until: float, /, pause: float = 1e9) -> None:
        if self.events:
            self._happen(self.events.pop(0))
        else:
            self._passed += max(0.0, min(until - self.now(), pause)) + 0.001
        self.loop.turn()

    def _happen(self, event: Event) -> None:
        name, value = event
        if name == "late":
            self._passed += value
        elif name == "full":
            self.full = "memory"
        elif name == "gone":
            self.gone = True
            self.kill()
        else:
            self.act(name, value)
        self.happened.add(name)

    def act(self, name: str, value: Any) -> None:
        """What is not of every box."""

    def kill(self) -> None:
        """Ends all its processes."""

    async def send(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
        if not self.alive:
            raise BoxFailure("it has ended")
        self.hears(message, list(fds))

    def hears(self, message: dict[str, Any], fds: list[int]) -> None:
        """What the box does about it."""

    async def receive(self, until: float) -> Message:
        while (found := self.message()) is None:
            if not self.alive:
                raise BoxFailure("it has ended")
            if self.now() > until:
                raise TimeoutError
            await self.wait(until)
        return found

    async def stopped(self, until: float) -> Message:
        return await self.receive(until)

    def message(self) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def watch(self, limit: int) -> None:
        self.full, self.watching = "", True

    def unwatch(self) -> None:
        self.watching = False

    async def excess(self) -> str:
        return self.full

    def memory(self) -> int:
        return 0

    def reserved_and_held(self) -> Sequence[int]:
        return 0, 0

    def shortage(self, killed: bool) -> str:
        return ""

    async def end_reason(self) -> tuple[str, bytes]:
        return "ended", b"it has gone"

    def sweep(self) -> bool:
        return False

    async def finish(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()

    def run_aside(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        return work

    def end(self) -> None:
        self.closed = True
        self.kill()

    async def close(self) -> None:
        self.end()


class Child:
    """What the zygote forks for a run: its ends of the pipes."""

    def __init__(self, fds: Sequence[int], mark: bytes, loads: bool, calls: int) -> None:
        self.requests, self.results, self.printed = map(os.dup, fds)
        for fd in (self.requests, self.results, self.printed):
            os.set_blocking(fd, False)
        self.mark = mark
        self.place = -1 if loads else 0
        self.calls = calls
        self.rest = b""
        self._read = b""

    def request(self) -> bytes | None:
        """The next, where it has come whole."""
        with contextlib.suppress(BlockingIOError):
            self._read += os.read(self.requests, 1 << 16)
        if len(self._read) < wire.HEAD.size:
            return None
        end = wire.HEAD.size + wire.HEAD.unpack_from(self._read)[0]
        found, self._read = self._read[wire.HEAD.size : end], self._read[end:]
        return found

    def writes(self, fd: int, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(fd, data)

    def close(self) -> None:
        for fd in (self.requests, self.results, self.printed):
            os.close(fd)


class ForkingPlace(Place):
    """With a zygote, and a child that gives each request back as its result."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__(events)
        self.child: Child | None = None
        self.announced: Child | None = None
        self.deaf = self.lingers = False

    def hears(self, message: dict[str, Any], fds: list[int]) -> None:
        if message["do"] == "import":
            self.messages.append(({"loaded": 0, "left": []}, b""))
        elif message["do"] == "run":
            child = Child(fds, bytes.fromhex(message["mark"]), message["loads"], message["calls"])
            if self.child is None:
                self.child = child
            else:  # the host announces it only when the one before is done
                assert self.announced is None
                assert self.child.place == self.child.calls
                self.announced = child
                self._ended(0)
        elif message["do"] == "stop" and not self.deaf:
            self._ended(9)

    def _ended(self, status: int) -> None:
        if self.child is not None:
            self.messages.append(({"ended": status}, b""))
            self.child.close()
            self.child, self.announced = self.announced, None

    def act(self, name: str, value: Any) -> None:
        child = self.child
        if name == "deaf":
            self.deaf = True
        elif name == "lingers":
            self.lingers = True
        if child is None:
            return
        if name == "ended":
            self._ended(value)
        elif name == "wrong":
            child.writes(child.results, wire.RESULT.pack(1 << 30, 0, 0.0))
        elif name == "print":
            child.writes(child.printed, b"x" * value)
        elif name == "burst":  # several, before the host reads the first
            for _ in range(4):
                self.act("reply", None)
            return
        elif name in ("reply", "part", "no memory") and child.rest:
            child.writes(child.results, child.rest)
            child.rest = b""
        elif name in ("reply", "part", "no memory") and (request := child.request()) is not None:
            if name == "no memory" and child.place >= 0:
                request = NO_MEMORY
            whole = wire.RESULT.pack(len(request), max(0, child.place), 0.01) + request
            child.writes(child.printed, child.mark)
            cut = 7 if name == "part" else len(whole)
            child.writes(child.results, whole[:cut])
            child.rest = whole[cut:]
            child.place += 1
        if child is self.child and child.place == child.calls and not (child.rest or self.lingers):
            self._ended(0)

    def kill(self) -> None:
        for child in (self.child, self.announced):
            if child is not None:
                child.close()
        self.child = self.announced = None


_HEAD = struct.Struct("<16sIIdI")
_SIZE = struct.Struct("<I")


class DenoPlace(Place):
    """With a Deno whose Workers give each request back as its result."""

    def __init__(self, events: Sequence[Event], folder: str) -> None:
        """`folder`: has the two named pipes."""
        super().__init__(events)
        self.told, self.asked = f"{folder}/told", f"{folder}/asked"
        self._out = self._in = self._printed = -1
        self._read = b""
        self._calls: list[bytes] = []
        self._place = 0
        self._mark = b""
        self.line: FramePipe | None = None

    @property
    def alive(self) -> bool:
        return not (self.closed or (self.line is not None and self.line.ended))

    def hears(self, message: dict[str, Any], fds: list[int]) -> None:
        self._printed = os.dup(fds[0])
        self._in = os.open(self.asked, os.O_RDONLY | os.O_NONBLOCK)
        self._out = os.open(self.told, os.O_WRONLY | os.O_NONBLOCK)
        self._tells(deno_fifo.HELLO, b"2.9.8")

    def _tells(self, kind: int, text: bytes, place: int = 0, cut: int = 1 << 20) -> None:
        whole = _HEAD.pack(b"k" * 16, kind, place, 0.01, len(text)) + text
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._out, whole[:cut])

    def _texts(self) -> list[bytes]:
        """What was said to it, where it has come whole."""
        with contextlib.suppress(BlockingIOError):
            self._read += os.read(self._in, 1 << 16)
        if len(self._read) < _SIZE.size:
            return []
        end = _SIZE.size + _SIZE.unpack_from(self._read)[0]
        whole, self._read = self._read[_SIZE.size : end], self._read[end:]
        found = []
        while whole:
            after = _SIZE.size + _SIZE.unpack_from(whole)[0]
            found.append(whole[_SIZE.size : after])
            whole = whole[after:]
        return found

    async def wait(self, until: float, /, pause: float = 1e9) -> None:
        if self._out >= 0 and not self._calls and (texts := self._texts()):
            self._mark, *self._calls = texts
            self._place = 0
            self._prints(self._mark if self._calls else b"")
            self._tells(deno_fifo.BEGUN if self._calls else deno_fifo.LOADED, b'{"status":"ok"}')
            self.loop.turn()
        elif self._out >= 0:
            await super().wait(until, pause)
        else:
            self._passed += max(0.0, min(until - self.now(), pause)) + 0.001
            self.loop.turn()

    def _prints(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._printed, data)

    def act(self, name: str, value: Any) -> None:
        if name == "print":
            self._prints(b"x" * value)
        elif name == "wrong":
            self._tells(deno_fifo.RESULT, b"{}", 77)
        elif name == "ended":
            self.kill()
        elif self._calls and name in ("reply", "worker gone"):
            last = self._place + 1 == len(self._calls) or name != "reply"
            self._prints(self._mark)
            kind = deno_fifo.RESULT if name == "reply" else deno_fifo.GONE
            self._tells(kind, self._calls[self._place], self._place)
            self._place += 1
            if last:
                self._calls = []
                self._tells(deno_fifo.READY, b"")

    def kill(self) -> None:
        for fd in (self._in, self._out, self._printed):
            if fd >= 0:
                os.close(fd)
        self._in = self._out = self._printed = -1
