"""Whatever dies during a run on a cluster: no row is lost or doubled, results stay the same, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate, stream
from runner.core.types import Result
from runner.engine.request import RunRequest, prepare
from runner.runs.run import Run
from sandboxes import SandboxConfig, SandboxUnavailableError
from sandboxes.cluster import pool
from tests.cluster.nodes import Nodes
from tests.cluster.processes import below, left, workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
turns = pytest.mark.rotating("faults of a cluster", "cluster")
nightly = pytest.mark.thorough("nodes that are ended and started again take minutes; a killed worker stands for them")

SCRIPT = """
# /// script
# [tool.evalcell.mapping]
# seconds = "seconds"
# ///
import random, time
SEEN = []
def evaluate(output, seconds):
    time.sleep(seconds)
    SEEN.append(output)
    print("row", output)
    if output == "x7":
        raise ValueError("seven")
    return {"score": len(SEEN) + random.random(), "label": output}
"""
COUNT = 80
SECONDS = 0.05
JOBS = 3
"""On two nodes with two processors each: there is a worker on both."""

Fault = Callable[[Nodes], None]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def rows(count: int = COUNT, seconds: float = SECONDS) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "output": f"x{n}", "seconds": seconds} for n in range(count)]


def plain(results: list[Result]) -> list[Result]:
    return [result.model_copy(update={"duration_ms": 0.0}) for result in results]


def kill(count: int) -> Fault:
    def fault(cluster: Nodes) -> None:
        for pid in workers()[:count]:
            os.kill(pid, signal.SIGKILL)

    return fault


def kill_raylet(cluster: Nodes) -> None:
    cluster.second.kill_raylet()


def fill_store(cluster: Nodes) -> None:
    """What somebody else keeps in the memory that nodes share."""
    import ray

    cluster.kept = [ray.put(os.urandom(12 << 20)) for _ in range(8)]


def cluster_added(cluster: Nodes) -> None:
    cluster.third = cluster.added()


FAULTS: dict[str, Fault] = {
    "worker": kill(1),
    "workers": kill(JOBS),
    "raylet": kill_raylet,
    "node": lambda cluster: cluster.remove(cluster.second),
    "added": cluster_added,
    "store": fill_store,
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=turns if name == "worker" else nightly) for name in FAULTS])
def test_a_fault_costs_no_row(cluster: Nodes, script: Path, name: str) -> None:
    cluster.whole()
    expected = plain(evaluate(script, rows(), sandbox=SandboxConfig(backend="wasm", jobs=2), seed=5).results)
    config = SandboxConfig(backend="wasm", jobs=JOBS)
    seen: set[tuple[int, str]] = set()

    async def run() -> list[Result]:
        found = []
        async with aclosing(stream(script, rows(), sandbox=config, on="ray", seed=5)) as results:
            async for result in results:
                found.append(result)
                if len(found) == 5:
                    seen.update(below(workers()))
                    FAULTS[name](cluster)
                if len(found) == COUNT - 1:
                    seen.update(below(workers()))
        return found

    try:
        assert plain(asyncio.run(run())) == expected
        assert len(seen) >= 2, "on a node that died just before, a worker starts later"
        assert not left(seen)
    finally:
        if cluster.third is not None:
            cluster.remove(cluster.third)
        cluster.third, cluster.kept = None, []


@turns
def test_a_run_that_ends_without_any_worker_goes_on_here(
    cluster: Nodes, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "GRACE", 1.0)
    monkeypatch.setattr(pool, "_PAUSES", (1000.0,))
    cluster.whole()
    every = rows(seconds=0.2)  # so that there are some left to run, however late the first results are seen
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in every))
    folder, written = f"{tmp_path / 'out'}/", tmp_path / "out" / "results.jsonl"
    request = RunRequest(
        evaluator=str(script),
        dataset=str(tmp_path / "rows.jsonl"),
        seed=5,
        sandbox=SandboxConfig(backend="wasm", jobs=JOBS),
    )

    async def run() -> None:
        killed = False
        work = Run(prepare(request.model_copy(update={"on": "ray"})), files=[folder])
        with work.open():
            async with aclosing(work.results()) as results:
                async for _ in results:
                    if work.count >= 5 and not killed:  # results may come some at once
                        killed = True
                        kill(9)(cluster)

    with pytest.raises(SandboxUnavailableError, match="no worker of the cluster was there for 1 seconds"):
        asyncio.run(run())
    kept = written.read_text()
    assert 5 <= len(kept.splitlines()) < COUNT
    again = evaluate(script, request.dataset or "", sandbox="wasm", seed=5, output=folder, resume=True)
    assert again.summary.rows == COUNT
    assert written.read_text().startswith(kept)
    found = map(json.loads, written.read_text().splitlines())
    expected = evaluate(script, every, sandbox="wasm", seed=5).results
    assert [(row["id"], row["score"]) for row in found] == [(result.id, result.score) for result in expected]


@turns
async def test_what_is_cancelled_stops_there(cluster: Nodes, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import time\ndef evaluate(output):\n    while output != 'x0': pass\n    return 1\n"
    )
    there: list[int] = []
    seen: set[tuple[int, str]] = set()

    config = SandboxConfig(backend="process", isolation="call", jobs=2)
    async with aclosing(stream(tmp_path / "script.py", rows(9), sandbox=config, on="ray")) as results:
        async for _ in results:
            there.extend(workers())
            seen.update(below(there))
            break
    # A run begins with the workers that are ready, so that the second may have no box yet when the first row is scored.
    assert len(seen) > len(there) > 0, "the workers, and the boxes below them"
    assert not left(seen)


@nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("where", ["cluster", "here"])
def test_a_signal_ends_the_run_and_all_that_it_started(
    cluster: Nodes, script: Path, tmp_path: Path, where: str, number: signal.Signals
) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(2000, 0.1)))
    place = f"/tmp/ec-own-{os.getpid()}"
    os.mkdir(place)
    own = os.environ | {"TMPDIR": place}
    if where == "here":
        own = {name: value for name, value in own.items() if not name.startswith("RAY_")}
    words = [sys.executable, "-m", "runner", "run", str(script), str(tmp_path / "rows.jsonl"), "--on", "ray", "-j", "2"]
    words += ["--sandbox", "process", "--isolation", "call", "--seed", "5", "-o", str(tmp_path / "out") + "/"]
    written = tmp_path / "out" / "results.jsonl"
    try:
        with subprocess.Popen(words, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and not (written.exists() and written.stat().st_size):
                time.sleep(0.1)
            assert process.poll() is None, process.stderr and process.stderr.read()
            seen = below([process.pid, *workers()])
            process.send_signal(number)
            _, errors = process.communicate(timeout=100)
        assert not left(seen)
        assert process.returncode == (-9 if number == signal.SIGKILL else 130), errors
        assert "ray" not in errors.replace("on ray", "").replace("--on ray", "").lower().replace("array", ""), errors
        if where == "here" or number != signal.SIGKILL:
            assert os.listdir(place) == []
    finally:
        subprocess.run(["rm", "-rf", place], check=True)


@nightly
def test_a_cluster_of_this_machine_that_dies_ends_the_run_in_a_few_lines(script: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(2000, 0.1)))
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    words = [sys.executable, "-m", "runner", "run", str(script), str(tmp_path / "rows.jsonl"), "--on", "ray", "-j", "2"]
    words += ["--seed", "5", "-o", str(tmp_path / "out") + "/"]
    written = tmp_path / "out" / "results.jsonl"
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=own, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        while process.poll() is None and not (written.exists() and written.stat().st_size):
            time.sleep(0.1)
        seen = below([process.pid])
        [raylet] = [
            pid for pid, _ in seen if "raylet/raylet" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
        ]
        os.kill(raylet, signal.SIGKILL)
        said, _ = process.communicate(timeout=200)
    assert process.returncode == 3, said
    assert "Ray's raylet on this machine died" in said, "nothing waits for workers that Ray cannot start"
    assert len(said.splitlines()) < 10, said
    assert not left(seen)
