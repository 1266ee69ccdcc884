"""Read a blocking iterator ahead, in a separate thread, so that a slow disk never stalls the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from contextvars import copy_context
from itertools import islice
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

from runner.inputs.datasets.buffered import AtHand, all_at_hand

T = TypeVar("T")

_AHEAD_SECONDS = 0.05  # of work in rows read ahead: fewer of the large ones, so that memory is bounded
_SOON = 0.0005  # seconds: the thread's own clock, which is slow to ask, is not asked for less
_BUNCH = 0.001  # seconds that a waiting loop leaves for more items: to wake for each costs more than the item does
_TURN = 0.005  # seconds of reading, after which others go on: the time that Python gives a thread
_FEW = 100  # items of a list, for which no thread is started
_SOME = 16  # items between two looks at the clock
_NAME = "evalcell-prefetch"
_PATIENCE = 0.5  # seconds; a thread that hangs in a read cannot be stopped, only left behind


def of_few(items: Iterable[Any]) -> AtHand | None:
    """What tells that all of a short list is at hand; None for anything else."""
    return all_at_hand if isinstance(items, list) and len(items) <= _FEW else None


class Direct(Generic[T]):
    """
    Reads what is at hand when it is taken, as to hand an item over costs more than that; the rest, and what turns out
    to take long, in a thread. As `Prefetcher`. To be made inside a running loop.
    """

    def __init__(self, source: Iterable[T], at_hand: AtHand) -> None:
        self.failure: BaseException | None = None
        self._source = iter(source)
        self._at_hand = at_hand
        self._some = 1  # items between two looks at the clock; 0 if even one takes long
        self._ended = self._long = False
        self._apart: asyncio.Future[list[T]] | None = None
        """What a thread reads, which nobody else may read beside it."""

    async def take(self, most: int) -> list[T]:
        """The next items, up to `most`; fewer of large ones, so that nothing else waits long. Empty at the end."""
        taken: list[T] = []
        if self._long:  # not after it: whoever is cancelled meanwhile would lose the items
            self._long = False
            await asyncio.sleep(0)
        until = perf_counter() + _TURN
        while not self._ended and len(taken) < most and self._apart is None:
            if some := min(self._some, most - len(taken)):
                some = self._at_hand(some)
            if not some:
                self._begin()  # others go on meanwhile, with what is there
                break
            before = perf_counter()
            self._read(taken, some)
            now = perf_counter()
            self._some = 0 if now - before > _TURN * some else min(2 * some, _SOME) if now - before < _TURN / 2 else 1
            if now > until:
                self._long = True
                break
        if not taken and self._apart is not None:
            taken = await asyncio.shield(self._apart)
            self._apart = None
        return taken

    def _read(self, taken: list[T], some: int) -> None:
        count = len(taken)
        try:
            taken.extend(islice(self._source, some))
            self._ended = len(taken) < count + some
        except Exception as e:
            self.failure, self._ended = e, True

    def _begin(self) -> None:
        """Have a thread read one item, and what else is read with it."""
        self._at_hand(1)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[T]] = loop.create_future()
        self._apart = done

        def read() -> None:
            taken: list[T] = []
            before = thread_time()
            try:
                self._read(taken, 1)
            except BaseException as e:
                self.failure, self._ended = e, True
            self._some = int(thread_time() - before < _TURN)
            with suppress(RuntimeError):  # the loop is closed: this thread was left behind
                loop.call_soon_threadsafe(done.set_result, taken)

        try:  # a daemon, as that of `Prefetcher`
            threading.Thread(target=copy_context().run, args=(read,), name=_NAME, daemon=True).start()
        except RuntimeError:  # a limit of threads
            read()

    async def close(self) -> None:
        """End the source. Waits for a thread that reads, but not for long."""
        if self._apart is not None:
            done, _ = await asyncio.wait([self._apart], timeout=_PATIENCE)
            if not done:
                return
        if isinstance(self._source, Generator):
            self._source.close()


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
        """The items read so far, up to `most`; waits for the first one. Empty at the end."""
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
