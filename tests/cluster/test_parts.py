"""A dataset in parts on a cluster of two nodes: the rows and the summary of one run, whoever dies."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.parts import plan
from runner.parts.cluster import ClusterWorker
from runner.parts.run import PartsRun
from runner.request import RunRequest, prepare
from sandboxes.base import SandboxConfig
from sandboxes.errors import SandboxUnavailableError
from tests.cli.commands import evalcell
from tests.parts.conftest import SCRIPT, results, rows, summary, write


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
    return PartsRun(replace(prepare(request), request=request.model_copy(update={"on": "ray"})), files=["parts/"])


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
        if type(task).__name__ == "RunTask" and not killed and task.slice.first > 1:
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
