"""Runs through the pool: their parts, how they go on after a stop, and how they end."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from runner.runs.pool.pool import WorkerPool
from runner.runs.pool.types import RunEnded, RunJob, RunSegment, RunStarted, WorkerLostError
from sandboxes.base import Isolation, SandboxConfig
from tests.runs.pool.jobs import COUNTS, HOUR, LOOPS, Kept, dataset, dry_run, request, with_pool, worker_of

SLOW = "import time\ndef evaluate(output):\n    time.sleep(0.02)\n    return int(output[1:])\n"


@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_a_run_that_goes_on_gives_what_it_would_have_given(tmp_path: Path, isolation: Isolation) -> None:
    asked = request(
        COUNTS,
        dataset=str(dataset(tmp_path, 300)),
        seed=1,
        sandbox=SandboxConfig(isolation=isolation),
        require=("mean>0.5",),
        max_failed="5%",
    )
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()

    async def body(pool: WorkerPool) -> tuple[Kept, Kept]:
        whole = await Kept(tmp_path / "whole").all_of(pool, asked)
        part = Kept(tmp_path / "part")
        lines = b"".join(path.read_bytes() for path in whole.paths).splitlines(keepends=True)
        for first, last in ((1, 5), (6, 101)):  # neither ends where a batch ends
            path = tmp_path / "part" / f"{first}.jsonl"
            path.write_bytes(b"".join(lines[first - 1 : last]))
            part.paths.append(path)
            part.next = last + 1
        return whole, await part.all_of(pool, asked)

    whole, part = with_pool(body)
    assert whole.started == part.started
    assert whole.started[0].total == 300
    assert len(whole.rows) == 300
    assert whole.rows == part.rows
    assert whole.figures == part.figures
    assert [gate["verdict"] for gate in whole.figures["gates"]] == ["passed", "passed"]
    assert whole.rows[1]["row"] == {"output": "o2", "reference": "o2"}


@pytest.mark.rotating("stops of the pool", "pool", "server", "engine")
def test_a_run_survives_its_worker_and_a_dry_run_beside_it_is_told(tmp_path: Path) -> None:
    asked = request(SLOW, dataset=str(dataset(tmp_path, 150)))

    async def body(pool: WorkerPool) -> Kept:
        began = asyncio.Event()
        running = asyncio.create_task(Kept(tmp_path).all_of(pool, asked, began.set))
        await began.wait()
        beside = asyncio.create_task(pool.evaluate(dry_run(LOOPS, {"output": 1}, limits=HOUR)))
        while pool.status().running < 2:
            await asyncio.sleep(0.01)
        os.kill(worker_of(pool), signal.SIGKILL)
        with pytest.raises(WorkerLostError, match="may be sent again"):
            await beside
        return await running

    found = with_pool(body)
    assert [row["score"] for row in found.rows] == list(range(1, 151))
    assert found.ended is not None
    assert found.ended.state == "finished"
    assert found.figures["rows"] == 150
    assert len(found.started) == 1


def test_without_a_word_on_what_is_kept_a_lost_worker_is_told(tmp_path: Path) -> None:
    async def body(pool: WorkerPool) -> None:
        parts = pool.run(RunJob(request=request(SLOW, dataset=str(dataset(tmp_path, 150)))))
        assert isinstance(await anext(parts), RunStarted)
        os.kill(worker_of(pool), signal.SIGKILL)
        with pytest.raises(WorkerLostError, match="may be sent again"):
            async for _ in parts:
                pass

    with_pool(body)


@pytest.mark.rotating("stops of the pool", "pool", "server", "engine")
def test_closing_the_pool_parks_a_run_with_all_that_it_has(tmp_path: Path) -> None:
    asked = request(SLOW, dataset=str(dataset(tmp_path, 150)))
    found = Kept(tmp_path)

    async def first(pool: WorkerPool) -> str:
        began = asyncio.Event()
        running = asyncio.create_task(found.all_of(pool, asked, began.set))
        await began.wait()
        await pool.close()
        ended = (await running).ended
        return "" if ended is None else ended.state

    assert with_pool(first) == "parked"
    assert 0 < len(found.rows) < 150
    with_pool(lambda pool: found.all_of(pool, asked))
    assert [row["score"] for row in found.rows] == list(range(1, 151))
    assert found.ended is not None
    assert found.ended.state == "finished"
    assert found.figures["rows"] == 150


def test_as_many_runs_are_under_way_as_are_allowed(tmp_path: Path) -> None:
    asked = request(LOOPS, dataset=str(dataset(tmp_path, 1)), limits=HOUR)

    async def body(pool: WorkerPool) -> None:
        running = [asyncio.create_task(Kept(tmp_path).all_of(pool, asked)) for _ in range(6)]
        await asyncio.sleep(0)
        assert (pool.status().running, pool.status().waiting) == (5, 1)
        assert pool._room.locked()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    with_pool(body, runs=5)


def test_what_goes_wrong_is_the_last_part(tmp_path: Path) -> None:
    rows = dataset(tmp_path, 3)

    async def body(pool: WorkerPool) -> list[RunStarted | RunSegment | RunEnded]:
        asked = (
            request("def evaluate(nothing): return 1\n", dataset=str(rows)),
            request(COUNTS, dataset=str(tmp_path / "none.jsonl")),
        )
        return [part for one in asked async for part in pool.run(RunJob(request=one))]

    lacking, missing = with_pool(body)
    assert isinstance(lacking, RunEnded)
    assert isinstance(missing, RunEnded)
    assert (lacking.state, lacking.kind) == ("failed", "columns")
    assert "no column for `nothing`" in str(lacking.error)
    assert (missing.state, missing.kind) == ("failed", "dataset")


def test_stored_rows_of_another_script_stop_the_run(tmp_path: Path) -> None:
    asked = request(COUNTS, dataset=str(dataset(tmp_path, 5)))
    other = request(COUNTS + "\n# changed\n", dataset=asked.dataset)
    found = Kept(tmp_path)

    async def body(pool: WorkerPool) -> RunEnded | None:
        await found.all_of(pool, asked)
        return (await found.all_of(pool, other)).ended

    ended = with_pool(body)
    assert ended is not None
    assert ended.kind == "resume"
    assert "`version` is" in str(ended.error)
