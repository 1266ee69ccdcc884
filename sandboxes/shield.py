"""Work that comes to its end, however often whoever waits for it is cancelled. All cleanup is awaited by this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def finish(work: Callable[[], Awaitable[T]]) -> T:
    """
    What `work()` gives, once it has ended. It runs in a task of its own; who is cancelled meanwhile is told so then.

    anyio, which Starlette and FastAPI are built on, cancels again at each step of the event loop until the task has
    ended. Cleanup that is simply awaited goes no further than to its first wait.

    `work` must be safe to do again, as `begun` says, and must end by itself, for nobody can stop it.
    """
    return await ended(begun(work))


def begun(work: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
    """
    `work()` in a task, begun once more where that is cancelled.

    A loop that ends cancels every task once, and waits for those that do not obey.
    """
    return asyncio.create_task(_begun(work))


async def _begun(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    except asyncio.CancelledError:
        return await work()


async def ended(task: asyncio.Future[T]) -> T:
    """As `finish`, for what goes on already; it is never cancelled from here."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as e:
            cancelled = e
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # who is cancelled does not want to know; nor shall the loop tell that nobody did
    try:
        raise cancelled
    finally:
        cancelled = None  # it would hold this frame, which holds it


async def every(works: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Does all at once, each to its end. Raises what the first of those that failed raised."""
    for result in await asyncio.gather(*(work() for work in works), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
