"""Cancelling a piece of work at one chosen wait: of all that its tasks wait for, counted from the first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Generator
from functools import partial
from typing import Any

import anyio

_TOGETHER = 60.0
EVERY = range(1, 1 << 20)
"""For `again`: it is cancelled at each wait until it has ended."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Stopping:
    """
    Cancels `work` at its `n`-th wait, and again at each of `again`, so many waits later.

    With `scoped` it is anyio that cancels, which by itself does so at each step of the loop.
    """

    def __init__(self, n: int, again: Collection[int] = (), scoped: bool = False) -> None:
        self.waits = 0
        """How often any task of it waited."""
        self._first = n
        self._again = again
        self._scoped = scoped
        self._strike: Callable[[], object] = bool

    @property
    def struck(self) -> bool:
        return self.waits >= self._first

    def run(self, work: Work, after: Callable[[], None] = lambda: None) -> None:
        """
        In a loop of its own, and `after` as soon as it has ended: no task may go on then.

        Raises what they do, but for the cancellation.
        """
        asyncio.run(asyncio.wait_for(self._main(work, after), _TOGETHER))

    async def _main(self, work: Work, after: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(self._task)
        others = asyncio.all_tasks()
        victim = loop.create_task(self._in_scope(work) if self._scoped else work())
        if not self._scoped:
            self._strike = victim.cancel  # where it is the task that runs now, it is cancelled as soon as it waits
        try:
            await asyncio.wait({victim})
            left = asyncio.all_tasks() - others
            assert not left, left
            after()
        finally:
            loop.set_task_factory(None)
        if not victim.cancelled():
            victim.result()

    async def _in_scope(self, work: Work) -> None:
        with anyio.CancelScope() as scope:
            self._strike = scope.cancel
            await work()

    def _task(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(self._watched(coro), loop=loop, **more)
        task.add_done_callback(lambda _: coro.close())  # where it was cancelled before it began
        return task

    async def _watched(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return await _Steps(coro, self._wait)

    def _wait(self) -> None:
        self.waits += 1
        if self.waits == self._first or self.waits - self._first in self._again:
            self._strike()


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
