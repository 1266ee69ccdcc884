"""Complete work however often its caller is cancelled; all cleanup is awaited with this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def finish(work: Callable[[], Awaitable[T]]) -> T:
    """
    Return the result of `work()`, once it has ended. It runs in a task of its own; a cancelled caller is told then.

    anyio, which Starlette and FastAPI are built on, cancels again at each step of the event loop until the task has
    ended. Cleanup that is simply awaited would only get to its first wait.

    `work` must be safe to repeat, as `begin` says, and must end by itself, since nobody can stop it.
    """
    return await wait_for(begin(work))


def begin(work: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
    """
    Start `work()` in a task, which starts it once more if it is cancelled.

    A closing event loop cancels every task once, and waits for those that go on.
    """
    return asyncio.create_task(_repeat_if_cancelled(work))


async def _repeat_if_cancelled(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    except asyncio.CancelledError:
        return await work()


async def wait_for(task: asyncio.Future[T]) -> T:
    """Wait for a task as `finish` does, without ever cancelling it."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as e:
            cancelled = e
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # a cancelled caller does not need it, and the loop must not report that nobody read it
    try:
        raise cancelled
    finally:
        cancelled = None  # otherwise it and this frame would refer to each other


async def every(works: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do all at once, each to its end. Raises the error of the first that failed."""
    for result in await asyncio.gather(*(work() for work in works), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
