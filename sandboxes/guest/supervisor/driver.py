"""
The interface of a supervisor to where it runs: asyncio on this host, a poll loop on a provider's machine.

Both have the same coroutines, so that one source serves both. On a machine they do the waiting themselves, and never
yield to other tasks.
"""

from __future__ import annotations

CallResult = tuple[str, bytes, float, bytes, int, bool]
"""
The result of a call, or of loading: how, the reply or the reason, seconds, output kept, bytes printed; and whether it
is the loading before the call that failed. `how`: `reply`, `lost`, or one of `boxes.tiers.DEATHS_HERE`.
"""

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import Any, Protocol

    from .pipes import Loop

    Message = tuple[dict[str, Any], bytes]

    class Driver(Protocol):
        """A box: its processes, the socket to it, and the watch over its memory."""

        longest: int
        """Most bytes of a message."""

        @property
        def loop(self) -> Loop:
            """What reads and writes the pipes."""

        @property
        def inner(self) -> int:
            """The process that holds the script, or Deno."""

        @property
        def tmp(self) -> str | None:
            """The private folder, if it has one, as its processes see it."""

        @property
        def alive(self) -> bool: ...

        @property
        def full(self) -> str:
            """What there is too much of since `watch`: `memory` or `processes`."""

        def now(self) -> float: ...

        def wake(self) -> None:
            """Make `wait` return."""

        async def wait(self, until: float, /, pause: float = ...) -> None:
            """
            Wait until something has happened, the time has come, or the seconds of a pause are over.

            The time is the script's: what is found after it does not count.
            """

        async def send(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
            """Send a message. Raises BoxFailure if the box does not take it."""

        async def receive(self, until: float) -> Message:
            """Wait for the next message. Raises TimeoutError, and BoxFailure if the box has ended."""

        async def stopped(self, until: float) -> Message:
            """Wait for the end of a run that was told to stop, as `receive` does; end it where the box cannot."""

        def message(self) -> Message | None:
            """The next message that has arrived."""

        def watch(self, limit: int) -> None:
            """Watch the memory from now on; bytes."""

        def unwatch(self) -> None:
            """Stop watching, as nothing runs any more."""

        async def excess(self) -> str:
            """What there is too much of at this moment."""

        def memory(self) -> int:
            """Bytes that the inner process holds."""

        def reserved_and_held(self) -> Sequence[int]:
            """Bytes that a fork of the inner process has reserved, and those that it holds."""

        def shortage(self, killed: bool) -> str:
            """Why the machine may be to blame for what has just ended or failed; see `Shortage.since`."""

        async def end_reason(self) -> tuple[str, bytes]:
            """How a box has ended, and why."""

        def sweep(self) -> bool:
            """Remove what a run has left outside its own folders; whether there was anything."""

        async def finish(self, work: Callable[[], Awaitable[None]]) -> None:
            """Do the work to its end, whatever is cancelled meanwhile."""

        def run_aside(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
            """Begin the work in another task, if there are tasks; what waits for its end, as `close` does too."""

        def end(self) -> object:
            """Begin to close the box, if that can be done in another task."""

        async def close(self) -> None:
            """End every process of the box. Safe twice."""


class After:
    """What follows a run: nothing, unless a class of it says otherwise."""

    def requests(self) -> Sequence[bytes]:
        """Return those of the next run, which has the same bounds; empty if there is none, or none any more."""
        return ()

    def begun(self) -> None:
        """Take note that this run has begun: from now on the box is its own."""


NOTHING = After()


class Closing:
    """`contextlib.aclosing`, which is new in Python 3.10."""

    def __init__(self, told: AsyncGenerator[Any]) -> None:
        self._told = told

    async def __aenter__(self) -> AsyncGenerator[Any]:
        return self._told

    async def __aexit__(self, *error: object) -> None:
        await self._told.aclose()


class BoxFailure(Exception):
    """A box did not start, has ended, or does not answer."""


class CallBounds:
    """The limits of one call, in bytes and seconds."""

    def __init__(
        self,
        memory: int,
        output: int,
        flood: int,
        longest: int,
        timeout: float,
        load_timeout: float,
        cpu: float | None = None,
    ) -> None:
        """`output`: bytes kept of what is printed; `flood`: most bytes printed; `longest`: most bytes of a reply."""
        self.memory = memory
        self.output = output
        self.flood = flood
        self.longest = longest
        self.timeout = timeout
        self.load_timeout = load_timeout
        self.cpu = cpu
