"""
What a supervisor asks of the place where it runs: asyncio on this host, a poll loop on a machine of others.

Both have the same coroutines, so that one text serves both. On a machine they do the waiting themselves, and never give
way to anybody.
"""

from __future__ import annotations

Told = tuple[str, bytes, float, bytes, int, bool]
"""
What became of a call, or of loading: how, the reply or why, seconds, what was printed, how much that was; and
whether it is the loading before the call that failed. `how`: `reply`, `lost`, or one of `boxes.tiers.DEATHS_HERE`.
"""

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any, Protocol

    from .pipes import Loop

    Message = tuple[dict[str, Any], bytes]

    class Driver(Protocol):
        """A box: its processes, the socket to it, and who looks at its memory."""

        longest: int
        """Bytes that may come in one message."""

        @property
        def loop(self) -> Loop:
            """What the ends of pipes are read and written by."""

        @property
        def inner(self) -> int:
            """The process that holds the script, or Deno."""

        @property
        def alive(self) -> bool: ...

        @property
        def full(self) -> str:
            """What there is too much of since `watch`: `memory` or `processes`."""

        def now(self) -> float: ...

        def wake(self) -> None:
            """Has `wait` return."""

        async def wait(self, until: float, /) -> None:
            """Until something has happened, or the time has come."""

        async def say(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
            """Raises Broken when the box does not take it."""

        async def heard(self, until: float) -> Message:
            """The next message, waiting for it. Raises TimeoutError, and Broken when the box has ended."""

        def message(self) -> Message | None:
            """The next message that has come."""

        def watch(self, limit: int) -> None:
            """Looks at the memory from now on; bytes."""

        def unwatch(self) -> None:
            """Nothing runs any more."""

        async def over(self) -> str:
            """What there is too much of at this moment."""

        def memory(self) -> int:
            """Bytes that the inner process holds."""

        def holds(self) -> Sequence[int]:
            """Bytes that a fork of the inner process has reserved, and those that it holds."""

        def short(self, killed: bool) -> str:
            """Why the machine may be to blame for what has just ended or failed; see `Shortage.since`."""

        async def why(self) -> tuple[str, bytes]:
            """How a box that has gone is told of: how, and why."""

        def swept(self) -> bool:
            """Removes what a run has left outside of its own places; whether there was any."""

        async def finish(self, work: Callable[[], Awaitable[None]]) -> None:
            """Does it to its end, whatever is cancelled meanwhile."""

        def aside(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
            """Begins it where it can be done beside; gives what waits for its end, for which `close` waits too."""

        def end(self) -> object:
            """Begins to close it, where that can be done beside."""

        async def close(self) -> None:
            """Ends every process of the box; safe twice."""


class Broken(Exception):
    """A box did not start, has ended, or does not answer."""


class Bounds:
    """What one call may take: bytes, and seconds."""

    def __init__(self, memory: int, output: int, flood: int, longest: int, timeout: float, load_timeout: float) -> None:
        """`output`: that are kept of what is printed; `flood`: that may be; `longest`: that a reply may have."""
        self.memory = memory
        self.output = output
        self.flood = flood
        self.longest = longest
        self.timeout = timeout
        self.load_timeout = load_timeout
