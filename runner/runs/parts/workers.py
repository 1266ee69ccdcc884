"""The workers of a run in parts: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runner.engine.request import Prepared
from runner.runs.parts.crew import Worker
from runner.runs.parts.folder import PartsFolder
from runner.runs.parts.process import ProcessWorker
from sandboxes.cluster.files import read_files
from sandboxes.cores import cores
from sandboxes.env import choose_variables
from sandboxes.shield import every


@asynccontextmanager
async def workers(prepared: Prepared, folder: PartsFolder) -> AsyncIterator[list[Worker]]:
    """As many as the request asks for, to be started, and ended with the context. Raises what a cluster does."""
    on, jobs = prepared.request.on, prepared.request.sandbox.jobs
    if on is not None:
        async with _on_cluster(on, prepared, folder) as found:
            yield found
        return
    several: list[Worker] = [ProcessWorker(number) for number in range(1, (jobs or cores()) + 1)]
    try:
        yield several
    finally:
        await every(worker.close for worker in several)


@asynccontextmanager
async def _on_cluster(on: str, prepared: Prepared, folder: PartsFolder) -> AsyncIterator[list[Worker]]:
    from runner.runs.parts.cluster import ClusterWorker  # here: most runs are on this machine
    from sandboxes.cluster.connection import Connection

    config = prepared.sandbox.config
    jobs = prepared.request.sandbox.jobs
    files, variables = read_files(config.files), choose_variables(config.env, config.env_file)
    connection = Connection(on, jobs or cores())
    try:
        await connection.open()
        count, mark = jobs or max(1, connection.cpus), folder.mark()
        found: list[Worker] = [
            ClusterWorker(connection.ray, number, mark, files, variables) for number in range(1, count + 1)
        ]
        try:
            yield found
        finally:
            await every(worker.close for worker in found)
    finally:
        await connection.close()
