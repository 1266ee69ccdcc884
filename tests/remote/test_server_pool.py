"""A server's pool at a provider: a worker of its own, which alone has the key, and ends its machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.runs.pool.pool import WorkerPool
from sandboxes.base import SandboxConfig
from tests.remote.trying import Trying
from tests.runs.pool.jobs import dry_run, with_pool

pytestmark = [pytest.mark.timeout(60), pytest.mark.rotating("faults at a provider", "remote", "pool")]

ONE = "def evaluate(output): return output + 1\n"


def test_dry_runs_share_warm_machines_that_end_with_the_pool(trying: Trying) -> None:
    there = SandboxConfig(backend=trying.name, jobs=2)

    async def body(pool: WorkerPool) -> tuple[list[float | None], int, dict[str, bytes]]:
        scores: list[float | None] = []
        for number in (1, 2):
            reply = await pool.evaluate(dry_run(ONE, {"output": number}, sandbox=there))
            scores.append(reply.results[0].result.score)
        machines = len(trying.server.state().machines)
        await pool.evaluate(dry_run(ONE, {"output": 1}))
        seen = {name: Path(f"/proc/{worker.pid}/environ").read_bytes() for name, worker in pool._workers.items()}
        return scores, machines, seen

    own = dict(os.environ) | trying.server.environment
    scores, machines, seen = with_pool(body, environment=own)
    assert scores == [2, 3]
    assert 1 <= machines <= 2
    assert trying.server.state().machines == []
    keys = [value.encode() for name, value in trying.server.environment.items() if "KEY" in name or "TOKEN" in name]
    assert keys
    assert all(key in seen[trying.name] and key not in seen["local"] for key in keys)
