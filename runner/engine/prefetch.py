"""Read a blocking iterator ahead, in a separate thread, so that a slow disk never stalls the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from contextvars import copy_context
from time import perf_counter, thread_time
from typing import Generic, TypeVar

T = TypeVar("T")

_AHEAD_SECONDS = 0.05  # of work in rows read ahead: fewer of the large ones, so that memory is bounded
_SOON = 0.0005  # seconds: the thread's own clock, which is slow to ask, is not asked for less
_BUNCH = 0.001  # seconds that a waiting loop leaves for more items: to wake for each costs more than the item does
_NAME = "evalcell-prefetch"
_PATIENCE = 0.5  # seconds; a thread that hangs in a read cannot be stopped, only left behind


class Prefetcher(Generic[T]):
    """
    Reads at most `ahead` items more than were taken, fewer of large ones. To be made inside a running loop.

    `failure` is what the source raised, if it did; the items before it can still be taken.
    """

    def __init__(self, source: Iterable[T], ahead: int) -> None:
        self.failure: BaseException | None = None
        self._source = source
        self._ahead = ahead
        self._items: deque[tuple[T, float]] = deque()  # each with the CPU seconds it cost
        self._spent = self._taken = 0.0  # one is written by the thread alone, the other by the loop alone
        self._ended = self._stopped = self._hungry = False
        self._room = threading.Event()
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # A daemon, because one that waits for a terminal's next line must not hold up the exit.
        self._thread = threading.Thread(target=copy_context().run, args=(self._read,), name=_NAME, daemon=True)
        self._thread.start()

    async def take(self, most: int) -> list[T]:
        """Return the items read so far, up to `most`; waits for the first one. Empty at the end."""
        taken: list[T] = []
        while True:
            ended = self._ended  # read first: whatever came before the end is among the items by then
            items, costs = self._items, self._taken
            for _ in range(min(most, len(items))):
                item, cost = items.popleft()
                costs += cost
                taken.append(item)
            self._taken = costs
            if not self._full(0.5):
                self._room.set()
            if taken or ended:
                return taken
            self._arrived.clear()
            self._hungry = True
            if not self._items and not self._ended:
                await self._arrived.wait()
                await asyncio.sleep(_BUNCH)

    async def close(self) -> None:
        """Stop reading. Waits for the thread, but not for long."""
        self._stopped = True
        self._room.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._left.wait(), _PATIENCE)
            self._thread.join()  # telling so was the last thing it did

    def _read(self) -> None:
        source, items = iter(self._source), self._items
        try:
            began, spent = perf_counter(), thread_time()
            for item in source:
                if (cost := perf_counter() - began) > _SOON:  # it may have waited: what counts is the work since then
                    before, spent = spent, thread_time()
                    cost = spent - before
                self._spent += cost
                items.append((item, cost))
                del item
                if self._hungry:
                    self._tell()
                # As `_full` asks; to call it for each item takes longer than this.
                ahead = len(items) > self._ahead or self._spent - self._taken > _AHEAD_SECONDS
                if (ahead or self._stopped) and not self._may_go_on():
                    break
                began = perf_counter()
            if isinstance(source, Generator):
                source.close()
        except BaseException as e:
            self.failure = e
        self._ended = True
        self._tell()
        self._on_loop(self._left)

    def _may_go_on(self) -> bool:
        while self._full() and not self._stopped:
            self._room.clear()
            if self._full() and not self._stopped:
                self._room.wait()
        return not self._stopped

    def _full(self, part: float = 1.0) -> bool:
        held = len(self._items)
        return held > 0 and (held > self._ahead * part or self._spent - self._taken > _AHEAD_SECONDS * part)

    def _tell(self) -> None:
        if self._hungry:
            self._hungry = False
            self._on_loop(self._arrived)

    def _on_loop(self, event: asyncio.Event) -> None:
        with suppress(RuntimeError):  # the loop is closed: this thread was left behind
            self._loop.call_soon_threadsafe(event.set)
