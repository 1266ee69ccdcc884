"""Work that a second worker tries, too, if the first one takes too long: the first reply counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from sandboxes.shield import begin, finish

T = TypeVar("T")


class Races(Generic[T]):
    """Runs each work once or twice, and stops what came second."""

    def __init__(self) -> None:
        self._ending: set[asyncio.Task[None]] = set()

    async def first(
        self,
        work: Coroutine[Any, Any, T],
        again: Callable[[], Coroutine[Any, Any, T]],
        patience: float | None,
        allowed: Callable[[], bool],
    ) -> T:
        """
        The result of the work. After `patience` seconds, as soon as it is `allowed`, it is done `again` beside.

        Raises what the first one does, if none has a result. Being cancelled, it stops both, and waits for that.
        """
        first = asyncio.create_task(work)
        tries = {first}
        try:
            while (waiting := {task for task in tries if not task.done()}) and not any(map(_good, tries)):
                usual = patience if len(tries) == 1 else None
                done, _ = await asyncio.wait(waiting, timeout=usual, return_when=asyncio.FIRST_COMPLETED)
                if not done and allowed():
                    tries.add(asyncio.create_task(again()))
            return next((task for task in tries if _good(task)), first).result()
        except asyncio.CancelledError:
            await finish(lambda: _end(tries))
            raise
        finally:
            if not all(map(_seen, tries)):
                ending = begin(lambda: _end(tries))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    async def ended(self) -> None:
        """Wait until all that came second has stopped."""
        while self._ending:
            await asyncio.wait(self._ending)


def _good(task: asyncio.Task[T]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _seen(task: asyncio.Task[T]) -> bool:
    """Whether it is done; so that the loop does not report an error when another one was good."""
    if task.done() and not task.cancelled():
        task.exception()
    return task.done()


async def _end(tries: set[asyncio.Task[T]]) -> None:
    for task in tries:
        task.cancel()
    await asyncio.gather(*tries, return_exceptions=True)
