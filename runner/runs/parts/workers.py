"""The workers of a run in parts: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

import os
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runner.engine.request import PreparedRun
from runner.runs.parts.folder import PartsFolder
from runner.runs.parts.scheduler import CrewWorker
from runner.runs.parts.types import PartLostError, Task
from runner.runs.parts.work import Progress, Reply, reply_of
from runner.runs.pool.frames import FrameError
from runner.runs.pool.process import WorkerProcess
from runner.runs.pool.types import WorkerLostError
from sandboxes.cluster.files import read_files
from sandboxes.host.cores import cores
from sandboxes.host.env import choose_variables
from sandboxes.host.shield import every, finish


@asynccontextmanager
async def workers(prepared: PreparedRun, folder: PartsFolder) -> AsyncIterator[list[CrewWorker]]:
    """Provide as many workers as the request asks for; they end with the context. Raises what a cluster does."""
    on, jobs = prepared.request.on, prepared.request.sandbox.jobs
    if on is not None:
        async with _on_cluster(on, prepared, folder) as found:
            yield found
        return
    several: list[CrewWorker] = [ProcessWorker(number) for number in range(1, (jobs or cores()) + 1)]
    try:
        yield several
    finally:
        await every(worker.close for worker in several)


@asynccontextmanager
async def _on_cluster(on: str, prepared: PreparedRun, folder: PartsFolder) -> AsyncIterator[list[CrewWorker]]:
    from runner.runs.parts.cluster import ClusterWorker  # here: most runs are on this machine
    from sandboxes.cluster.connection import Connection

    config = prepared.sandbox.config
    jobs = prepared.request.sandbox.jobs
    files, variables = read_files(config.files), choose_variables(config.env, config.env_file)
    connection = Connection(on, jobs or cores())
    try:
        await connection.open()
        count, mark = jobs or max(1, connection.cpus), folder.mark()
        found: list[CrewWorker] = [
            ClusterWorker(connection.ray, number, mark, files, variables) for number in range(1, count + 1)
        ]
        try:
            yield found
        finally:
            await every(worker.close for worker in found)
    finally:
        await connection.close()


_COUNTS = 1 << 20
"""Words on progress that may wait; they come some times a second."""


class ProcessWorker:
    """One worker. It may be started again after it was lost."""

    def __init__(self, number: int) -> None:
        self.name = f"worker {number}"
        self._number = number
        self._process: WorkerProcess | None = None
        self.pid: int | None = None
        """The process that was started. None: there is none, or it was lost."""

    @property
    def there(self) -> bool:
        return self.pid is not None

    async def start(self) -> None:
        """Start its process, unless it is there. Raises PartLostError."""
        if self.pid is None:
            # One whose start was cancelled goes on to start.
            self._process = self._process or WorkerProcess(str(self._number), os.environ, alone=False)
            try:
                await self._process.start()
            except WorkerLostError as error:
                raise PartLostError(f"{self.name} could not be started ({error.why})") from error
            self.pid = self._process.pid

    async def do(self, task: Task, progress: Progress) -> Reply:
        """Do a task there. Raises what it raises there, and PartLostError."""
        process = self._process
        if process is None or self.pid is None or process.pid != self.pid:
            await self.close()  # one that is started again has no sandbox
            raise PartLostError(f"{self.name} was lost")
        job = None
        try:
            job = await process.submit("part", pickle.dumps(task), ahead=_COUNTS)
            while (frame := await job.next()).header["kind"] == "count":
                progress(frame.header["count"])
        except (WorkerLostError, FrameError) as error:
            await self.close()
            why = error.why if isinstance(error, WorkerLostError) else str(error)
            raise PartLostError(f"{self.name} was lost ({why})") from error
        finally:
            if job is not None and not job.ended.is_set():
                await process.stop(job)
        return await reply_of(frame.payload, task, self.name)

    async def close(self) -> None:
        """Stop what it does, and end it. Safe twice."""
        process, self._process, self.pid = self._process, None, None
        if process is not None:
            await finish(process.close)
