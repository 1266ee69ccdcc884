"""Several workers that share tasks. One that is lost costs no row: its task is done by another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from runner.parts.types import PartLostError, Task
from runner.parts.work import Progress, Reply
from sandboxes.base import LOG
from sandboxes.shield import every

TRIES = 3
"""How often a task is begun: one that kills its worker each time is not the machine's fault."""

T = TypeVar("T", bound=Task)


class Worker(Protocol):
    """One worker, wherever it runs."""

    name: str

    async def do(self, task: Task, progress: Progress) -> Reply:
        """Do a task there. Raises what it raises there, and PartLostError."""

    async def close(self) -> None:
        """Stop what it does, and end it. Safe twice; the next task starts it again."""


Ready = Callable[[Worker], Awaitable[object]]


class Crew(Generic[T]):
    """The workers of one run."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = list(workers)

    async def all(
        self,
        tasks: Sequence[T],
        take: Callable[[int, Reply], None],
        *,
        ready: Ready | None = None,
        progress: Callable[[int, int], None] = lambda _place, _count: None,
    ) -> None:
        """
        Do all tasks; `take` each reply with its task's place, in any order. `ready` prepares a worker, also once more
        after it was lost. Raises the first error of a task, and PartLostError for one that was lost too often.
        """
        left, tries = deque(range(len(tasks))), [0] * len(tasks)
        under_way = 0
        changed = asyncio.Condition()

        async def work(worker: Worker) -> None:
            nonlocal under_way
            fresh = True
            while True:
                async with changed:
                    while not left and under_way:  # a task that is lost comes back
                        await changed.wait()
                    if not left:
                        return
                    place = left.popleft()
                    under_way += 1
                try:
                    if fresh and ready is not None:
                        await ready(worker)
                    fresh = False
                    take(place, await worker.do(tasks[place], partial(progress, place)))
                except PartLostError as error:
                    fresh = True
                    tries[place] += 1
                    if tries[place] >= TRIES:
                        raise
                    LOG.warning("%s; another goes on with its part", error)
                    left.appendleft(place)
                finally:
                    async with changed:
                        under_way -= 1
                        changed.notify_all()

        running = [asyncio.create_task(work(worker)) for worker in self.workers[: max(1, len(tasks))]]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def close(self) -> None:
        """End all workers. Safe twice."""
        await every(worker.close for worker in self.workers)
