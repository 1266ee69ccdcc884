"""Looks at a box's memory as long as there is a script in it, whether it runs or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sandboxes.guest.supervisor import procfs

LOOK = 0.05
"""Seconds between two looks."""

CROWD = 96
"""Processes at most. The kernel's limit is lower, but where a user's processes are counted together it cannot be."""


class Watch:
    """
    Tells when the processes hold more memory than they may, or are too many: by `wake`; with nothing under way, by
    `end`.

    A look may take long where a script has made it hard, so that it happens in a thread, and another run may have
    begun when it is done. It counts for the run that it found.
    """

    def __init__(
        self,
        processes: Callable[[], list[int]],
        wake: Callable[[], None],
        end: Callable[[], object],
    ) -> None:
        self.full = ""
        """What there is too much of in this run: `memory` or `processes`."""
        self._processes, self._wake, self._end = processes, wake, end
        self._limit = 0
        self._run = 0
        self._idle = True
        self._task: asyncio.Task[None] | None = None

    def begin(self, limit: int) -> None:
        """A run, or the load, has begun; bytes."""
        self._limit, self._idle, self.full = limit, False, ""
        self._run += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._looks())

    def end(self) -> None:
        """The run has ended, and its processes with it."""
        self._idle = True

    async def over(self) -> str:
        """What there is too much of at this moment; nothing where all is well."""
        try:
            return await asyncio.to_thread(self._over)
        except RuntimeError:  # the machine has no room for the thread; what must not happen is that nobody looks
            return self._over()

    async def _looks(self) -> None:
        while not self.full:
            await asyncio.sleep(LOOK)
            run = self._run
            over = await self.over()
            if run == self._run:
                self.full = over
        self._wake()
        if self._idle:
            self._end()

    def _over(self) -> str:
        found = self._processes()
        if len(found) > CROWD:
            return "processes"
        return "memory" if procfs.memory(found, self._limit) > self._limit else ""

    async def close(self) -> None:
        """Safe twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
