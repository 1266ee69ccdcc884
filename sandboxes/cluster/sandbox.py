"""A sandbox whose scripts run on the nodes of a Ray cluster, each in a sandbox of that machine."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sandboxes.base import Call, Execution, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.cluster.connection import Connection
from sandboxes.cluster.files import read_files
from sandboxes.cluster.pool import Workers
from sandboxes.cluster.schedule import AHEAD
from sandboxes.cluster.worker import pieces, unpack_execution
from sandboxes.errors import SandboxLostError, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.cores import cores
from sandboxes.host.env import choose_variables
from sandboxes.host.shield import finish
from sandboxes.registry import find

_BATCH = 512  # rows: a batch costs the driver as much as tens of rows
_RUN = 0.25  # seconds of a batch, and what each worker adds: with many, the driver could not keep up with short ones
_RUN_WORKER = 0.001


class ClusterProgram(Program):
    """A script that is loaded in each worker."""

    def __init__(self, workers: Workers, number: int, loaded: Execution, *, divisible: bool) -> None:
        self._workers = workers
        self._number = number
        self._divisible = divisible
        self.loaded = loaded

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncGenerator[Execution, None]:
        for part, rows in pieces(calls, divisible=self._divisible):
            async with self._workers.budget.hold(len(part)):
                reply = json.loads(await self._workers.run(self._number, part, rows, limits))
            try:
                while True:
                    if (why := reply.get("failed")) is not None:
                        raise SandboxUnavailableError(why)
                    for values in reply["executions"]:
                        yield unpack_execution(values)
                    if reply["lost"] is not None:
                        raise SandboxLostError(reply["lost"])
                    if (more := reply.get("more")) is None:
                        break
                    reply = json.loads(await self._workers.more(more))
            finally:
                if (more := reply.get("more")) is not None:
                    self._workers.drop(more)

    async def close(self) -> None:
        await self._workers.forget(self._number)


class ClusterSandbox(Sandbox):
    """
    Wraps the sandbox of the config's backend; `on_cluster` makes it.

    It has that one's name, capabilities and identity, so that results are the same as on one machine.
    """

    def __init__(self, config: SandboxConfig, on: str) -> None:
        self._inner = find(config.backend)(config)
        super().__init__(config)
        self.isolation, self.language = self._inner.isolation, self._inner.language
        self._on = on
        self._facts: dict[str, Any] = {}
        judges = config.judges
        keys = () if judges is None else [secret.variable for secret in judges.secrets]
        self._connection = Connection(on, config.jobs or cores(), keys)
        self._workers: Workers | None = None

    @property
    def concurrency(self) -> int:
        return AHEAD * max(1, self._places)

    @property
    def batch(self) -> int:
        if self.isolation == "batch":  # results depend on it
            return self._inner.batch
        return max(self._inner.batch, _BATCH)

    @property
    def run_seconds(self) -> float:
        return max(self._inner.run_seconds, _RUN, _RUN_WORKER * self._places)

    @property
    def identity(self) -> str:
        return str(self._facts.get("identity") or self._inner.identity)

    @property
    def python(self) -> str | None:
        return self._facts.get("python") or self._inner.python

    @property
    def lock(self) -> str | None:
        return self._facts.get("lock") or self._inner.lock

    @property
    def manifest(self) -> dict[str, Any]:
        workers = self._workers.members if self._workers else []
        nodes = sorted({str(member.facts["host"]) for member in workers})
        return (self._facts.get("manifest") or self._inner.manifest) | {
            "cluster": {"on": self._on, "workers": len(workers), "nodes": nodes}
        }

    @property
    def state(self) -> str:
        if self._workers is None:
            return ""
        there = sum(member.alive for member in self._workers.members)
        workers = f"{there} of {max(there, self._workers.places)} workers"
        return f"{workers}; {judges}" if (judges := super().state) else workers

    @property
    def _places(self) -> int:
        return self._workers.places if self._workers else 0

    async def open(self) -> None:
        files, variables = read_files(self.config.files), choose_variables(self.config.env, self.config.env_file)
        await self._connection.open()
        count = self.config.jobs or max(1, self._connection.cpus)
        self.progress(f"{self.name}: starting {count} worker{'s' * (count != 1)} on {self._on}")
        # Judges are asked from here alone: no worker has a key, a budget or a way to one.
        theirs = self.config.model_copy(update={"judges": None, "isolation": self.isolation})
        self._workers = Workers(self._connection.ray, theirs, self.warn)
        self._facts = await self._workers.open(count, files, variables)

    async def load(self, script: Script, limits: Limits) -> Program:
        if self._workers is None:
            raise SandboxUnavailableError("the sandbox is not open; use it as `async with sandbox:`")
        number, loaded = await self._workers.load(script, limits)
        divisible = self.isolation == "call"
        return ClusterProgram(self._workers, number, Execution.model_validate(loaded), divisible=divisible)

    async def close(self) -> None:
        await finish(self._close)

    async def _close(self) -> None:
        try:
            if self._workers is not None:
                await self._workers.close()
        finally:
            await self._connection.close()


def on_cluster(config: SandboxConfig, on: str) -> Sandbox:
    """
    Return the config's sandbox on a cluster: `ray`, or `ray://HOST:PORT`. `jobs` is the number of workers, by default
    one a processor.

    Raises:
        UnsupportedConfigError: For what is no cluster, for a sandbox of a provider, and as the sandbox itself does.
    """
    inner = find(config.backend)
    if inner.capabilities.elsewhere:
        raise UnsupportedConfigError(
            f"the {inner.name} sandbox runs at a provider, which needs no cluster; leave `on` out, "
            "or choose a sandbox of this machine"
        )
    shape = type("ClusterSandbox", (ClusterSandbox,), {"name": inner.name, "capabilities": inner.capabilities})
    made: Sandbox = shape(config, on)
    return made
