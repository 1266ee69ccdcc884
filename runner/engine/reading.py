"""An async generator that is read in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

from sandboxes.host.shield import finish

T = TypeVar("T")


class Reading(Generic[T]):
    """
    Reads a generator, one item ahead.

    A loop that ends closes all generators that are open at the same time, those within others too, which fails in the
    middle of their cleanup. The tasks it cancels before, and waits for them: so what is open within belongs to one.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._queue: asyncio.Queue[T | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(1)
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))

    async def _read(self) -> None:
        async with aclosing(self._items) as items:
            async for item in items:
                self._queue.put_nowait(item)
                await self._room.acquire()

    async def next(self) -> T | None:
        """Return the next item; None after the last. Raises what the generator did."""
        item = await self._queue.get()
        self._room.release()
        if item is None:
            self._task.result()
        return item

    async def end(self) -> None:
        """Close the generator, and wait until it has ended."""
        self._task.cancel()
        if not self._task.done():
            await finish(lambda: asyncio.wait({self._task}))
        if not self._task.cancelled():
            self._task.exception()  # it was raised, or nobody waits for it
