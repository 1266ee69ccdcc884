"""A dataset in parts on a cluster of two nodes: the rows and the summary of one run, whoever dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from runner.engine.request import RunRequest, prepare
from runner.runs.parts import cluster as parts_cluster
from runner.runs.parts import plan
from runner.runs.parts.cluster import ClusterWorker
from runner.runs.parts.run import PartsRun
from runner.runs.parts.types import PartLostError, PartTask
from sandboxes.base import SandboxConfig
from sandboxes.cluster.connection import Connection
from sandboxes.errors import SandboxUnavailableError
from tests.cli.commands import evalcell
from tests.runs.parts import s3
from tests.runs.parts.conftest import SCRIPT, results, rows, summary, write


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "BYTES", 4000)
    (tmp_path / "noisy.py").write_text(SCRIPT)
    write("rows-a.jsonl", rows(0, 100))
    write("rows-b.jsonl", rows(80, 100))
    write("all.jsonl", [*rows(0, 100), *rows(80, 100)])
    return tmp_path


def run_in_parts() -> PartsRun:
    config = SandboxConfig(backend="wasm", jobs=2)
    request = RunRequest(evaluator="noisy.py", dataset="rows-*.jsonl", seed=3, sandbox=config)
    return PartsRun(
        replace(prepare(request), request=request.model_copy(update={"on": "ray"})), files=["parts/"], overwrite=True
    )


nightly = pytest.mark.thorough("a node that is ended and started again takes minutes; a killed worker stands for it")


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("worker", marks=pytest.mark.rotating("parts on a cluster", "cluster")),
        pytest.param("node", marks=nightly),
    ],
)
@pytest.mark.timeout(400)
def test_parts_on_a_cluster_are_one_run_whatever_dies(
    there: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    cluster.whole()
    killed: list[int] = []
    do = ClusterWorker.do

    async def deadly(self: ClusterWorker, task: Any, progress: Any) -> Any:
        asked = asyncio.create_task(do(self, task, progress))
        if isinstance(task, PartTask) and not killed and task.slice.first > 1:
            await asyncio.sleep(0)
            killed.append(int(self.name.rpartition(" ")[2]))
            if what == "worker":
                os.kill(killed[0], signal.SIGKILL)
            else:
                await asyncio.to_thread(cluster.remove, cluster.second)
        return await asked

    monkeypatch.setattr(ClusterWorker, "do", deadly)
    assert evalcell("run", "noisy.py", "all.jsonl", "-j", "1", "--seed", "3", "-o", "one/").exit_code == 0
    work = run_in_parts()
    with work.open():
        asyncio.run(work.score())
        work.end("finished")
    assert killed
    assert "its part is gone on with" in caplog.text
    assert results("parts") == results("one")
    assert summary("parts") == summary("one")
    assert not list(Path("parts").glob(".*"))

    again = run_in_parts()
    monkeypatch.setattr(again.folder, "mark", lambda: (str(there / "elsewhere" / "mark"), "a"))
    with again.open(), pytest.raises(SandboxUnavailableError, match="on a disk that all nodes share"):
        asyncio.run(again.score())


async def _started(worker: ClusterWorker) -> None:
    """As a run does it: what Ray loses while it starts, on a busy machine, is started again."""
    for last in (False, False, True):
        try:
            return await worker.start()
        except PartLostError:
            if last:
                raise


@pytest.mark.rotating("parts on a cluster", "cluster")
async def test_a_worker_is_there_when_it_was_placed_and_has_the_same_program(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.whole()
    mark = tmp_path / "mark"
    mark.write_text("x")

    class OlderActor:
        async def hello(self, path: str) -> dict[str, str]:
            return {"where": "two, process 2", "mark": "x"}

        async def close(self) -> None:
            pass

    connection = Connection("ray", 1)
    await connection.open()
    count = connection.cpus
    several = [ClusterWorker(connection.ray, number, (str(mark), "x"), {}, {}) for number in range(count + 2)]
    try:
        waiting = {asyncio.create_task(worker.start()): worker for worker in several}
        while len(waiting) > 2:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
                assert waiting.pop(one).there
        late = list(waiting.values())
        assert not any(worker.there for worker in late), "no processor is free"
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for worker in several:
            if worker.there:
                await worker.close()
                assert not worker.there
        await _started(late[0])
        assert late[0].there
        monkeypatch.setattr(parts_cluster, "Actor", OlderActor)
        with pytest.raises(SandboxUnavailableError, match="install the same evalcell"):
            await several[0].start()
        assert not several[0].there
    finally:
        for worker in several:
            await worker.close()
        await connection.close()


@pytest.mark.skipif(find_spec("s3fs") is None or find_spec("ray") is None, reason="s3fs or Ray is not installed")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tried on Linux")
@pytest.mark.rotating("objects of S3 on a cluster", "cluster")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dataset", ["s3://data/rows-a.jsonl", "s3://data/rows-*.jsonl"])
def test_objects_are_read_by_a_cluster_as_here(there: Path, dataset: str) -> None:
    """On a cluster of this machine, whose workers have the environment's credentials: one object, and parts."""
    with s3.in_environment() as server:
        for name in ("rows-a.jsonl", "rows-b.jsonl"):
            server.objects[f"data/{name}"] = Path(name).read_bytes()
        words = ["run", "noisy.py", dataset, "-j", "2", "--seed", "3", "-o"]
        here = evalcell(*words, "near/")
        assert here.exit_code == 0, here.output
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        done = subprocess.run(
            [sys.executable, "-m", "runner", *words, "far/", "--on", "ray"], env=own, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert len(results("far")) == (200 if "*" in dataset else 100)
    assert results("far") == results("near")
    assert summary("far") == summary("near")
    said = done.stdout + done.stderr + "".join(path.read_text() for path in Path("far").rglob("*") if path.is_file())
    assert s3.SECRET not in said
