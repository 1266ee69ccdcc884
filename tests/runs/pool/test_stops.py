"""Nothing goes on that nobody waits for: a client that goes away, a process that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.runs.pool.pool import WorkerPool, local_variables, provider_variables
from runner.runs.pool.types import RunJob
from sandboxes.base import SandboxConfig
from sandboxes.guest.supervisor.procfs import descendants
from tests.runs.pool.jobs import HOUR, LOOPS, Kept, dataset, dry_run, request, started, with_pool, worker_of

TICKS = 60
"""Of a processor, after which a process is taken to be one that loops: more than a lane takes to start."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")


def spent(pid: int) -> int:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])


async def looping(worker: int, count: int = 1) -> list[int]:
    """Processes below the worker, once so many of them compute on and on."""
    before: dict[int, int] = {}
    while True:
        now = {pid: spent(pid) for pid in descendants(worker)}
        before = {pid: before.get(pid, ticks) for pid, ticks in now.items()}
        found = [pid for pid, ticks in now.items() if ticks - before[pid] >= TICKS]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("backend", ["wasm", "process"])
def test_a_client_that_goes_away_takes_its_script_with_it(backend: str) -> None:
    async def body(pool: WorkerPool) -> None:
        config = SandboxConfig(backend=backend)
        quick = dry_run("def evaluate(output): return output\n", {"output": 1}, sandbox=config)
        await pool.evaluate(quick)
        trying = asyncio.create_task(pool.evaluate(dry_run(LOOPS, {"output": 1}, limits=HOUR, sandbox=config)))
        (loop,) = await looping(worker_of(pool))
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        assert not Path(f"/proc/{loop}").exists()
        assert pool.status().running == 0
        assert (await pool.evaluate(quick)).results[0].returned == 1

    with_pool(body)


def test_a_client_that_goes_away_while_its_rows_are_sent_starts_nothing() -> None:
    """What is too large for the pipe's buffer waits; it may be cancelled then."""

    async def body(pool: WorkerPool) -> None:
        quick = dry_run("def evaluate(output): return len(output)\n", {"output": "x"})
        await pool.evaluate(quick)
        os.kill(worker_of(pool), signal.SIGSTOP)
        trying = asyncio.create_task(pool.evaluate(dry_run(LOOPS, {"output": "x" * (1 << 20)}, limits=HOUR)))
        while not pool._workers["local"]._jobs:
            await asyncio.sleep(0)
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        os.kill(worker_of(pool), signal.SIGCONT)
        await pool.evaluate(quick)  # it has read all before that
        before = {pid: spent(pid) for pid in descendants(worker_of(pool))}
        await asyncio.sleep(1)
        assert not [pid for pid, ticks in before.items() if spent(pid) - ticks >= TICKS // 4]

    with_pool(body)


@pytest.mark.rotating("stops of the pool", "pool")
def test_a_script_that_loops_while_it_loads_is_stopped_too() -> None:
    async def body(pool: WorkerPool) -> None:
        script = "def evaluate(output): return output\nwhile True: pass\n"
        trying = asyncio.create_task(pool.evaluate(dry_run(script, {"output": 1})))
        (loop,) = await looping(await started(pool))
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        while Path(f"/proc/{loop}").exists():  # nobody waits for a load that another could have wanted
            await asyncio.sleep(0.01)

    with_pool(body)


@pytest.mark.rotating("stops of the pool", "pool")
def test_a_run_that_is_closed_stops_and_leaves_a_lane_to_dry_runs_before(tmp_path: Path) -> None:
    async def body(pool: WorkerPool) -> None:
        asked = request(LOOPS, dataset=str(dataset(tmp_path, 500)), limits=HOUR)
        parts = pool.run(RunJob(request=asked))
        waiting = asyncio.ensure_future(anext(parts))
        loops = await looping(await started(pool), len(os.sched_getaffinity(0)))
        quick = dry_run("def evaluate(output): return output\n", {"output": 1})
        assert (await pool.evaluate(quick)).results[0].returned == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await parts.aclose()
        assert not [pid for pid in loops if Path(f"/proc/{pid}").exists()]
        assert pool.status().running == 0

    with_pool(body)


_SERVES = """
import asyncio, sys
from tests.runs.pool.jobs import HOUR, LOOPS, dry_run, started
from runner.runs.pool.pool import WorkerPool
async def main():
    async with WorkerPool() as pool:
        trying = asyncio.create_task(pool.evaluate(dry_run(LOOPS, {"output": 1}, limits=HOUR)))
        print(await started(pool), flush=True)
        await trying
asyncio.run(main())
"""


@pytest.mark.rotating("stops of the pool", "pool")
def test_killing_what_serves_leaves_no_worker_and_no_script() -> None:
    root = str(Path(__file__).parents[3])
    serves = subprocess.Popen([sys.executable, "-c", _SERVES], stdout=subprocess.PIPE, cwd=root, text=True)
    assert serves.stdout is not None
    worker = int(serves.stdout.readline())
    asyncio.run(looping(worker))
    every = [worker, *descendants(worker)]
    os.kill(serves.pid, signal.SIGKILL)
    serves.wait()
    serves.stdout.close()
    while any(Path(f"/proc/{pid}").exists() for pid in every):
        time.sleep(0.02)


@pytest.mark.rotating("stops of the pool", "pool")
def test_killing_the_worker_leaves_no_script() -> None:
    async def body(pool: WorkerPool) -> None:
        trying = asyncio.create_task(pool.evaluate(dry_run(LOOPS, {"output": 1}, limits=HOUR)))
        worker = await started(pool)
        await looping(worker)
        below = descendants(worker)
        os.kill(worker, signal.SIGKILL)
        await asyncio.gather(trying, return_exceptions=True)
        while any(Path(f"/proc/{pid}").exists() for pid in below):
            await asyncio.sleep(0.02)

    with_pool(body)


OWN = {
    "PATH": "/bin",
    "HOME": "/home/x",
    "EVALCELL_TOKEN": "t",
    "EVALCELL_DATABASE_URL": "postgresql://u:p@h/d",
    "AWS_SECRET_ACCESS_KEY": "s",
    "E2B_API_KEY": "e",
    "MODAL_TOKEN_ID": "m",
    "MODAL_TOKEN_SECRET": "m",
    "UV_INDEX_OURS_PASSWORD": "p",
    "OPENAI_API_KEY": "o",
}


def test_a_worker_gets_no_variable_that_it_does_not_need() -> None:
    assert set(local_variables(OWN)) == {"PATH", "HOME", "UV_INDEX_OURS_PASSWORD"}
    assert set(local_variables(OWN, ["OPENAI_API_KEY"])) == {
        "PATH",
        "HOME",
        "UV_INDEX_OURS_PASSWORD",
        "OPENAI_API_KEY",
    }
    index = {"PATH", "HOME", "UV_INDEX_OURS_PASSWORD"}  # packages for a machine elsewhere are resolved here
    assert set(provider_variables(OWN, "e2b")) == {*index, "E2B_API_KEY"}
    assert set(provider_variables(OWN, "modal")) == {*index, "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"}


def test_a_worker_has_what_a_keyring_helper_logs_in_with_where_there_is_one() -> None:
    own = OWN | {"UV_KEYRING_PROVIDER": "subprocess", "PIP_CONSTRAINT": "c.txt", "UV_NO_SYSTEM_CONFIG": "1"}
    index = {"UV_INDEX_OURS_PASSWORD", "UV_KEYRING_PROVIDER", "PIP_CONSTRAINT", "UV_NO_SYSTEM_CONFIG"}
    for found in (local_variables(own), provider_variables(own, "e2b")):
        assert found.keys() - {"E2B_API_KEY"} == {"PATH", "HOME", "AWS_SECRET_ACCESS_KEY", *index}


def test_no_secret_is_in_a_workers_process(tmp_path: Path) -> None:
    asked = request("def evaluate(output): return 1\n", dataset=str(dataset(tmp_path, 2)))

    async def body(pool: WorkerPool) -> bytes:
        await Kept(tmp_path).all_of(pool, asked)
        every = [worker_of(pool), *descendants(worker_of(pool))]
        return b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in every)

    secrets = {name: value for name, value in OWN.items() if name not in ("PATH", "HOME", "UV_INDEX_OURS_PASSWORD")}
    seen = with_pool(body, environment=dict(os.environ) | secrets)
    assert b"PATH=" in seen
    assert not [name for name in secrets if name.encode() in seen]
