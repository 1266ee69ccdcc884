"""
An event loop over time alone, for awaiting without an operating system.

It is loaded right after asyncio, whoever imports that, and made its default.
"""

from __future__ import annotations

import asyncio
from asyncio import unix_events

from guest_quiet import sleep

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any


class _NoEvents:
    """A selector that only waits for time, as there are no sockets."""

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the script waits for something that cannot happen in this sandbox")
        sleep(max(0, timeout))
        return []

    def close(self) -> None:
        pass


class Loop(asyncio.BaseEventLoop):
    """An event loop over time alone: tasks, sleeps, gather and timeouts work; sockets and threads do not."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoEvents()

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


asyncio.EventLoop = asyncio.SelectorEventLoop = unix_events._DefaultEventLoopPolicy._loop_factory = Loop


def wait(awaitable: Awaitable[Any]) -> Any:
    """Return the result of an awaitable, which may use tasks, sleeps, gather and timeouts."""

    async def body() -> Any:
        return await awaitable

    with asyncio.Runner() as runner:
        return runner.run(body())
