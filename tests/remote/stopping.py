"""Cancelling a piece of work at one chosen wait: of all that its tasks wait for, counted from the first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

_TOGETHER = 60.0


class Stopping:
    """Cancels `work` at its `n`-th wait, and again at each of `again`, so many waits later."""

    def __init__(self, n: int, again: tuple[int, ...] = ()) -> None:
        self.waits = 0
        """How often any task of it waited."""
        self._when = {n, *(n + more for more in again)}
        self._first = n
        self._victim: asyncio.Task[Any] | None = None

    @property
    def struck(self) -> bool:
        return self.waits >= self._first

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """In a loop of its own. Raises what `work` does, but for its cancellation."""
        asyncio.run(asyncio.wait_for(self._main(work), _TOGETHER))

    async def _main(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(self._task)
        self._victim = loop.create_task(work())
        try:
            await asyncio.wait({self._victim})
        finally:
            loop.set_task_factory(None)
        if not self._victim.cancelled():
            self._victim.result()

    def _task(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        return asyncio.Task(self._watched(coro), loop=loop, **more)

    async def _watched(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return await _Steps(coro, self._wait)

    def _wait(self) -> None:
        self.waits += 1
        if self.waits in self._when and self._victim is not None:
            self._victim.cancel()  # where it is the task that runs now, it is cancelled as soon as it waits


class _Steps:
    """Awaits a coroutine, and tells of each wait before it begins."""

    def __init__(self, coro: Coroutine[Any, Any, Any], tell: Callable[[], None]) -> None:
        self._coro = coro
        self._tell = tell

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._coro.send, None)
        while True:
            try:
                waited = step()
            except StopIteration as end:
                return end.value
            self._tell()
            try:
                step = partial(self._coro.send, (yield waited))
            except BaseException as e:
                step = partial(self._coro.throw, e)
