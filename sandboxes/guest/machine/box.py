"""
One box, as the agent sees it: start it, watch it, end it. A supervisor handles what runs in it.

Nothing that comes from it is trusted.
"""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod

from ..supervisor import procfs, shortage
from ..supervisor.clock import now
from ..supervisor.driver import BoxFailure
from ..supervisor.run import BROKE
from .channel import GuestChannel
from .cleanup import sweep

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from ..supervisor.driver import CallBounds, CallResult, Message
    from .event_loop import Ports
    from .spawner import Spawner
    from .types import Boot

    T = TypeVar("T")

START, GRACE = 20.0, 2.0
"""Seconds to give up rights, and to end all."""

_LOOK, _CROWD = 0.05, 96
"""Seconds between two looks at the memory; most processes."""


class GuestBox(GuestChannel, ABC):
    """A box that is made, used for one script, and closed. It is the `Driver` of a supervisor, with a poll loop."""

    modules = b""
    """The modules that the script has imported, one on each line."""

    left: Sequence[str] = ()
    """What loading leaves that runs would share; such a box is not used: each run loads the script in another."""

    def __init__(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool) -> None:
        """`boot` makes the first message to the box from the walls that could be put up. Raises BoxFailure."""
        super().__init__(ports)
        self._spawner = spawner
        self._life, theirs = socket.socketpair()
        self._first = self._inner = 0
        self.closed = False
        self.tells: dict[str, str] = {}
        """What it adds to the agent's greeting."""
        self._look_at = 0.0
        self._limit = 0
        self._owner: int | None = None
        """The user whose files on the machine belong to a run, if the run has no place of its own."""
        self._full = ""
        self._shortage = shortage.Shortage()
        try:
            self._first = spawner.spawn(self.theirs, theirs, bare)
            run_steps(self._start(boot))
        except BaseException:
            run_steps(self.close())
            raise

    async def _start(self, boot: Boot) -> None:
        walls = await self._expect("words")
        self.words = walls["words"]
        alone = {"mounts", "landlock"} & set(self.words)
        self._owner = None if alone else walls["owner"]
        self._boot, program = boot(walls)
        await self.send(self._boot, [program])
        await self._expect("hello")
        below = procfs.descendants(self._first)
        self._inner = below[-1] if below else 0
        shortage.first_to_go(self._inner)
        self._scale = procfs.Scale(self._inner)

    async def _expect(self, word: str) -> dict[str, Any]:
        """Wait for a message with this word. Raises BoxFailure."""
        try:
            message, _ = await self.receive(now() + START)
        except TimeoutError as e:
            raise BoxFailure(str(e)) from e
        if word not in message:
            raise BoxFailure(str(message.get("failed")))
        return message

    @abstractmethod
    async def load(self, script: bytes, bounds: CallBounds) -> CallResult:
        """Load the script; the result. After a failure the box cannot be used."""

    async def imports(self, modules: bytes, script: bytes, bounds: CallBounds) -> bool:
        """
        Import the modules; then each run loads the script again in a child of its own.

        False: the modules too leave something behind, or cannot be imported here; then the box cannot be used.
        """
        return False

    @abstractmethod
    def run(self, payloads: Sequence[bytes], bounds: CallBounds, shared: bool) -> AsyncGenerator[Sequence[CallResult]]:
        """Return the result of each row, as soon as it is known; ends early when the box is no longer alive."""

    @property
    def watched(self) -> bool:
        """Whether its memory can be seen."""
        return self._scale.works

    @property
    def inner(self) -> int:
        return self._inner

    @property
    def tmp(self) -> str | None:
        return self._boot["tmp"][0] if self._boot["tmp"] else None

    @property
    def alive(self) -> bool:
        return not (self.gone or self.closed)

    async def stopped(self, until: float) -> Message:
        return await self.receive(until)

    @property
    def full(self) -> str:
        return self._full

    def watch(self, limit: int) -> None:
        self._limit, self._full = limit, ""
        self._look_at = now() + _LOOK

    def unwatch(self) -> None:
        """Do nothing: the memory is only looked at in `wait`."""

    async def wait(self, until: float, pause: float = 1e9) -> None:
        """
        Wait until something happens, the time has come, or a pause is over; look at the memory now and then.

        A look may take long if a script has made it hard; what it finds after the script's time does not count.
        """
        self.loop.wait(min(until, self._look_at, now() + pause))
        if now() >= self._look_at and not self._full:
            found = await self.excess()
            self._full = found if now() < until else ""
            self._look_at = now() + _LOOK

    async def excess(self) -> str:
        found = self._scale.processes()
        if len(found) > _CROWD:
            return "processes"
        return "memory" if self._scale.bytes(found, self._limit) > self._limit else ""

    def memory(self) -> int:
        return self._scale.bytes([self._inner], 1 << 62)

    def reserved_and_held(self) -> Sequence[int]:
        return self._scale.start()

    def shortage(self, killed: bool) -> str:
        return self._shortage.since(killed)

    async def end_reason(self) -> tuple[str, bytes]:
        if self.spoilt:
            return "ended", BROKE.encode()
        short = self.shortage(killed=True)
        return ("lost", short.encode()) if short else ("ended", b"it ended the process that holds the script")

    def sweep(self) -> bool:
        return self._owner is not None and sweep(self._owner)

    async def finish(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()

    def run_aside(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Do the work when it is waited for: nothing runs at the same time here."""
        return work

    def end(self) -> None:
        """Close the box."""
        run_steps(self.close())

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.hang_up()
        ended: list[bool] = []
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)  # the guardian ends all
        self.loop.add_reader(self._life.fileno(), lambda: ended.append(True))
        until = now() + GRACE
        while self._first and not ended and now() < until:
            self.loop.wait(until)
        self.loop.remove_reader(self._life.fileno())
        self._life.close()
        self._spawner.end_boxes(0.1 if ended else 0)
        self.sweep()


def run_steps(steps: Awaitable[T]) -> T:
    """Return the result of a coroutine, which does its waiting itself."""
    try:
        steps.__await__().__next__()
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("a step that waits for an event loop, where there is none")


def each(told: AsyncGenerator[T]) -> Iterator[T]:
    """Yield the items of an async generator, which is closed in any case."""
    try:
        while True:
            try:
                yield run_steps(told.__anext__())  # anext is new in 3.10
            except StopAsyncIteration:
                return
    finally:
        run_steps(told.aclose())
