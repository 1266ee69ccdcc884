"""Looks at a box's memory as long as there is a script in it, whether it runs or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sandboxes.kernel import tree

LOOK = 0.05
"""Seconds between two looks."""

CROWD = 96
"""Processes at most. The kernel's limit is lower, but where a user's processes are counted together it cannot be."""


class Watch:
    """
    Tells when the processes hold more memory than they may, or are too many: by `wake`; with nothing under way, by
    `close`.

    A look may take long where a script has made it hard, so that it happens in a thread, and another call may have
    begun when it is done. It counts for the call that it found, and for a run when it comes to the same twice.
    """

    def __init__(
        self,
        processes: Callable[[], list[int]],
        wake: Callable[[], None],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.full = ""
        """What there is too much of: `memory` or `processes`."""
        self._found = 0
        self._processes, self._wake, self._close = processes, wake, close
        self._limit = 0
        self._run = self._call = 0
        self._idle = True
        self._task: asyncio.Task[None] | None = None

    def begin(self, limit: int) -> None:
        """A run, or the load, has begun; bytes."""
        self._limit, self._idle = limit, False
        self._run += 1
        self._call += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._looks())

    def next(self) -> None:
        """The next call of the run has begun."""
        self._call += 1

    @property
    def blames(self) -> bool:
        """Whether it was found full by the call that goes on now, and by no earlier one."""
        return bool(self.full) and self._found == self._call

    def end(self) -> None:
        """The run has ended, and its processes with it."""
        self._idle = True

    async def still_full(self) -> bool:
        """Whether it was found full, and is so even now that the run has ended."""
        self.full = self.full and await asyncio.to_thread(self._over)
        return bool(self.full)

    async def _looks(self) -> None:
        suspect = 0
        while not self.full:
            await asyncio.sleep(LOOK)
            run, call = self._run, self._call
            over = await asyncio.to_thread(self._over)
            self._found = call
            self.full = over if call == self._call or run == suspect == self._run else ""
            suspect = run if over else 0
        self._wake()
        if self._idle:
            await self._close()

    def _over(self) -> str:
        found = self._processes()
        if len(found) > CROWD:
            return "processes"
        return "memory" if tree.memory(found, self._limit) > self._limit else ""

    async def close(self) -> None:
        """Safe twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
