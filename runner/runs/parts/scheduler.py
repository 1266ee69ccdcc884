"""Several workers that share tasks. One that is lost costs no row: its task is done by another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from runner.runs.parts.types import PartLostError, Task
from runner.runs.parts.work import Progress, Reply
from sandboxes.base import LOG

TRIES = 3
"""How often a task is begun: one that kills its worker each time is not the machine's fault."""

_PAUSE = 1.0
"""Seconds before a worker is started again; with each time more."""


class CrewWorker(Protocol):
    """One worker, wherever it runs."""

    name: str

    @property
    def there(self) -> bool:
        """Whether it was started, and not lost since."""

    async def start(self) -> None:
        """Start it, unless it is there. Raises PartLostError, and SandboxUnavailableError where none ever can be."""

    async def do(self, task: Task, progress: Progress) -> Reply:
        """Do a task there. Raises what it raises there, and PartLostError: then it may be started again."""

    async def close(self) -> None:
        """Stop what it does, and end it. Safe twice."""


Ready = Callable[[CrewWorker], Awaitable[object]]


async def share(
    workers: Sequence[CrewWorker],
    tasks: Sequence[Task],
    take: Callable[[int, Reply], None],
    *,
    ready: Ready | None = None,
    progress: Callable[[int, int], None] = lambda _place, _count: None,
) -> None:
    """
    Do all tasks; `take` each reply with its task's place, in any order. `ready` prepares a worker, also once more
    after it was lost. Raises the first error of a task, and PartLostError for a task that was lost too often, or
    where no worker is left.
    """
    if tasks:
        await _Share(workers, tasks, take, ready, progress).run()


class _Share:
    """Tasks on their way."""

    def __init__(
        self,
        workers: Sequence[CrewWorker],
        tasks: Sequence[Task],
        take: Callable[[int, Reply], None],
        ready: Ready | None,
        progress: Callable[[int, int], None],
    ) -> None:
        self._workers = workers[: len(tasks)]
        self._tasks = tasks
        self._take = take
        self._ready = ready
        self._progress = progress
        self._left = deque(range(len(tasks)))
        self._tries = [0] * len(tasks)
        self._open = len(tasks)
        self._back = asyncio.Event()
        self._done = asyncio.Event()
        self._alive = len(self._workers)

    async def run(self) -> None:
        running = [asyncio.create_task(self._work(worker)) for worker in self._workers]
        ended = asyncio.create_task(self._done.wait())
        try:
            left = {*running, ended}
            while not self._done.is_set():
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            for one in (*running, ended):
                one.cancel()
            await asyncio.gather(*running, ended, return_exceptions=True)

    async def _work(self, worker: CrewWorker) -> None:
        fresh, failures = True, 0
        while not self._done.is_set():
            if not self._left:
                self._back.clear()
                await self._back.wait()  # a task that is lost comes back
                continue
            if fresh:
                try:
                    await worker.start()
                    if self._ready is not None:
                        await self._ready(worker)
                except PartLostError as error:
                    failures += 1
                    if failures < TRIES:
                        await asyncio.sleep(_PAUSE * failures)
                        continue
                    self._alive -= 1
                    if not self._alive:
                        raise
                    LOG.warning("%s; the others go on without it", error)
                    return
                fresh, failures = False, 0
                continue
            place = self._left.popleft()
            try:
                self._take(place, await worker.do(self._tasks[place], partial(self._progress, place)))
            except PartLostError as error:
                fresh = True
                self._tries[place] += 1
                if self._tries[place] >= TRIES:
                    raise
                LOG.warning("%s; its part is gone on with", error)
                self._left.appendleft(place)
                self._back.set()
                continue
            self._open -= 1
            if not self._open:
                self._done.set()
                self._back.set()
