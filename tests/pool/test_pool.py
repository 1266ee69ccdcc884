"""The pool from outside: dry runs in a worker process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from runner.errors import ColumnsError
from runner.evaluators.load import parse_evaluator
from runner.pool.pool import Pool
from runner.pool.types import BusyError, PoolClosedError, TryJob
from runner.request import RunRequest
from sandboxes.base import Limits, SandboxConfig
from sandboxes.errors import UnsupportedConfigError

T = TypeVar("T")

EQUAL = """
def evaluate(output, reference):
    print("seen")
    if output == "bad":
        found = {"a": 1}
        return 1.0 + found["nothing"]
    return {"score": float(output == reference), "explanation": "as is"}
"""


def with_pool(body: Callable[[Pool], Awaitable[T]], **settings: Any) -> T:
    async def run() -> T:
        async with Pool(**settings) as pool:
            return await body(pool)

    return asyncio.run(run())


def job(
    source: str, *rows: dict[str, Any], limits: Limits | None = None, sandbox: SandboxConfig | None = None
) -> TryJob:
    request = RunRequest(
        evaluator=parse_evaluator(source, "script"), limits=limits or Limits(), sandbox=sandbox or SandboxConfig()
    )
    return TryJob(request=request, rows=list(rows))


def test_a_dry_run_shows_what_is_between_a_row_and_its_result() -> None:
    rows: list[dict[str, Any]] = [{"output": "a", "reference": "a"}, {"output": "bad", "reference": 1}, {"output": "a"}]
    reply = with_pool(lambda pool: pool.evaluate(job(EQUAL, *rows)))
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
    async def body(pool: Pool) -> None:
        with pytest.raises(ColumnsError) as found:
            await pool.evaluate(job(EQUAL, {"outputs": "a", "reference": "a"}))
        assert found.value.paths == {"output": "outputs"}
        with pytest.raises(UnsupportedConfigError, match="does not run Python"):
            await pool.evaluate(job(EQUAL, {}, sandbox=SandboxConfig(backend="deno")))
        with pytest.raises(UnsupportedConfigError, match="env_file"):
            await pool.evaluate(job(EQUAL, {}, sandbox=SandboxConfig(env_file="/etc/passwd")))

    with_pool(body)


def test_one_dry_run_too_many_is_refused_and_told_when_to_come_back() -> None:
    async def body(pool: Pool) -> None:
        loops = job("def evaluate(output):\n    while True: pass\n", {"output": 1}, limits=Limits(timeout=3600))
        first = asyncio.create_task(pool.evaluate(loops))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="try again in") as found:
            await pool.evaluate(loops)
        assert found.value.retry_after >= 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    with_pool(body, waiting=1)


def test_a_closed_pool_says_so() -> None:
    async def body() -> None:
        pool = Pool()
        await pool.close()
        async with pool:
            await pool.evaluate(job(EQUAL, {"output": "a", "reference": "a"}))
        with pytest.raises(PoolClosedError):
            await pool.evaluate(job(EQUAL, {"output": "a", "reference": "a"}))

    asyncio.run(body())
