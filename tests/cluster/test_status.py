"""`evalcell cluster`: what is there, and what is wrong with whom."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import SandboxConfig, stream
from runner.cli.commands.machine.cluster import _print
from runner.engine.request import RunRequest, prepare
from runner.runs.parts.run import PartsRun
from sandboxes.cluster.status import ClusterStatus, NodeStatus, WorkerStatus, _differences, look
from tests.cli.commands import evalcell

SCRIPT = "import time\ndef evaluate(output):\n    time.sleep(0.02)\n    return 1.0\n"


def node(name: str, *, evalcell: str | None = "0.1.0", **more: Any) -> NodeStatus:
    return NodeStatus(id=name * 16, host=name, alive=True, processors=2, evalcell=evalcell, **more)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotating("the status of a cluster", "cluster")
def test_a_run_s_workers_are_shown(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    rows = [{"output": "x"} for _ in range(2000)]

    async def body() -> ClusterStatus:
        seen = 0
        run = stream(tmp_path / "script.py", rows, sandbox=SandboxConfig(backend="wasm", jobs=2), on="ray")
        async with aclosing(run) as results:
            async for _ in results:
                seen += 1
                if seen == 50:
                    return await look()
        raise AssertionError

    status = asyncio.run(body())
    assert [worker.sandbox and worker.sandbox.split("/")[0] for worker in status.workers] == ["wasm", "wasm"]
    assert sum(worker.rows for worker in status.workers) >= 50
    assert all(worker.rows_per_second > 0 and worker.batches for worker in status.workers)
    alive = [found for found in status.nodes if found.alive]
    assert len(alive) >= 2
    assert all(found.evalcell and "wasm" in found.works for found in alive)
    assert status.processors == sum(found.processors for found in alive)
    ended = asyncio.run(look())
    assert not ended.workers, "they ended with their run"
    shown = evalcell("cluster", "--json")
    assert shown.exit_code == 0, shown.output
    assert len(json.loads(shown.stdout)["nodes"]) == len(ended.nodes)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotating("the status of a cluster", "cluster")
def test_workers_of_a_run_in_parts_are_shown(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    for name in "ab":
        (tmp_path / f"rows-{name}.jsonl").write_text('{"output": "x"}\n' * 5000)
    config, pattern = SandboxConfig(backend="wasm", jobs=2), str(tmp_path / "rows-*.jsonl")
    request = RunRequest(evaluator=str(tmp_path / "script.py"), dataset=pattern, sandbox=config)
    prepared = replace(prepare(request), request=request.model_copy(update={"on": "ray"}))
    work = PartsRun(prepared, files=[f"{tmp_path / 'out'}/"])
    counted = asyncio.Event()

    async def body() -> ClusterStatus:
        running = asyncio.create_task(work.score(lambda count: counted.set()))
        try:
            await counted.wait()
            return await look()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    with work.open():
        status = asyncio.run(body())
        work.end("interrupted")
    assert work.workers.endswith("of 2 workers")
    assert len(status.workers) == 2
    assert any(
        worker.rows and worker.batches and (worker.sandbox or "").startswith("wasm") for worker in status.workers
    )


def test_what_is_not_alike_is_named() -> None:
    alike = [node(name, works={"wasm": "ok", "process": "tier A"}) for name in "ab"]
    assert not list(_differences(alike))
    other = node("c", works={"wasm": "ok", "process": "tier B"})
    without = node("d", works={"wasm": "ok"}, fails={"process": "no user namespaces; run as root"})
    silent = node("e", evalcell=None)
    assert list(_differences([*alike, other, without, silent])) == [
        "node c (cccccccc): sandbox process works as tier B, but as tier A on most nodes; "
        "a run with it is refused: make them alike",
        "node d (dddddddd): sandbox process does not work (no user namespaces; run as root), but as tier A on most "
        "nodes; a run with it is refused: make them alike",
    ]


def test_it_is_shown_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    worker = WorkerStatus(
        host="a", pid=7, sandbox="wasm/python-3.14.0", rows=1234, rows_per_second=56.78, batches=2, seconds=90
    )
    _print(
        ClusterStatus(
            address="a:1",
            processors=4,
            free=1,
            nodes=(node("a", works={"wasm": "ok"}), node("b", evalcell=None)),
            workers=(worker,),
            problems=("node b cannot run evalcell (no module\x1b named sandboxes); install 0.1.0 there",),
        )
    )
    shown = capsys.readouterr().out
    for words in ("1,234", "56.8", "1.5", "4 processors, 1 of them free; 1 worker, 56.8 rows/s", "install 0.1.0 there"):
        assert words in shown
    assert "\x1b" not in shown


def test_without_a_cluster_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    shown = evalcell("cluster")
    assert shown.exit_code == 3
    assert "no cluster is named; set RAY_ADDRESS, or name one: ray://HOST:10001" in shown.stderr
    assert evalcell("cluster", "spark").exit_code == 2
