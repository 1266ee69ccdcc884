"""The pool from outside: dry runs in a worker process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runner.core.errors import ColumnsError, InputError
from runner.runs.pool.pool import WorkerPool
from runner.runs.pool.types import PoolBusyError, PoolClosedError
from runner.runs.pool.worker.dry_run import prepared_of
from sandboxes.base import SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from tests.runs.pool.jobs import HOUR, LOOPS, dry_run, with_pool

EQUAL = """
def evaluate(output, reference):
    print("seen")
    if output == "bad":
        found = {"a": 1}
        return 1.0 + found["nothing"]
    return {"score": float(output == reference), "explanation": "as is"}
"""


def test_a_dry_run_shows_what_is_between_a_row_and_its_result() -> None:
    job = dry_run(EQUAL, {"output": "a", "reference": "a"}, {"output": "bad", "reference": 1}, {"output": "a"})
    reply = with_pool(lambda pool: pool.evaluate(job))
    good, bad, lacking = reply.results
    assert (good.result.score, good.result.stdout, good.line) == (1.0, "seen\n", None)
    assert good.arguments == {"output": "a", "reference": "a"}
    assert good.returned == {"score": 1.0, "explanation": "as is"}
    assert bad.result.error is not None
    assert bad.result.error.kind == "raised"
    assert (bad.line, bad.column) == (6, 22)
    assert lacking.result.error is not None
    assert lacking.result.error.kind == "mapping"
    assert reply.sandbox.startswith("wasm/")
    assert reply.why == "no packages declared -> wasm"


def test_the_callers_faults_come_back_as_they_are() -> None:
    async def body(pool: WorkerPool) -> None:
        with pytest.raises(ColumnsError) as found:
            await pool.evaluate(dry_run(EQUAL, {"outputs": "a", "reference": "a"}))
        assert found.value.paths == {"output": "outputs"}
        with pytest.raises(UnsupportedConfigError, match="does not run Python"):
            await pool.evaluate(dry_run(EQUAL, {}, sandbox=SandboxConfig(backend="deno")))
        with pytest.raises(UnsupportedConfigError, match="env_file"):
            await pool.evaluate(dry_run(EQUAL, {}, sandbox=SandboxConfig(env_file="/etc/passwd")))
        with pytest.raises(InputError, match="larger than 64 MB together; try fewer rows"):
            await pool.evaluate(dry_run(EQUAL, *[{"output": "a" * (1 << 20), "reference": "a"}] * 65))
        deep: Any = 1
        for _ in range(400):
            deep = [deep]
        with pytest.raises(InputError, match="nested too deeply, or has a number of thousands of digits; flatten"):
            await pool.evaluate(dry_run(EQUAL, {"output": "a"}, literals={"reference": deep}))
        half = dry_run(EQUAL, {"output": "\ud800"}, literals={"reference": "\ud800"})
        assert (await pool.evaluate(half)).results[0].result.score == 1
        assert (await pool.evaluate(dry_run(EQUAL, {"output": "a", "reference": "a"}))).results[0].result.score == 1

    with_pool(body)


def test_a_request_is_remembered_only_if_it_is_small() -> None:
    small, large = (
        dry_run(EQUAL, literals={"reference": "x" * length}).request.model_dump_json().encode()
        for length in (9, 100_000)
    )
    assert prepared_of(small) is prepared_of(small)
    assert prepared_of(large) is not prepared_of(large)


def test_one_dry_run_too_many_is_refused_and_told_when_to_come_back() -> None:
    async def body(pool: WorkerPool) -> None:
        loops = dry_run(LOOPS, {"output": 1}, limits=HOUR)
        first = asyncio.create_task(pool.evaluate(loops))
        await asyncio.sleep(0)
        with pytest.raises(PoolBusyError, match="try again in") as found:
            await pool.evaluate(loops)
        assert found.value.retry_after >= 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    with_pool(body, waiting=1)


async def test_a_closed_pool_says_so() -> None:
    async with WorkerPool() as pool:
        pass
    with pytest.raises(PoolClosedError):
        await pool.evaluate(dry_run(EQUAL, {"output": "a", "reference": "a"}))
