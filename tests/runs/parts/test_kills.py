"""A worker that dies, and a run that dies: no row is lost or doubled, and no process is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner.engine.request import RunRequest, prepare
from runner.runs.parts import plan
from runner.runs.parts.run import PartsRun
from runner.runs.parts.types import PartTask
from runner.runs.parts.workers import ProcessWorker
from sandboxes.base import SandboxConfig
from tests.cli.commands import evalcell
from tests.runs.parts.conftest import SCRIPT, results, rows, summary, write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noisy.py").write_text(SCRIPT.replace("import random\n", "import random, time\n"))
    write("rows-a.jsonl", rows(0, 300))
    write("rows-b.jsonl", rows(200, 300))
    write("all.jsonl", [*rows(0, 300), *rows(200, 300)])
    found = evalcell("run", "noisy.py", "all.jsonl", "-j", "1", "--seed", "3", "-o", "one/")
    assert found.exit_code == 0, found.output
    return tmp_path


def lines(folder: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in Path(folder).glob("parts/*/results.jsonl"))


def children(process: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == process:
            found.add(int(status.parent.name))
    return found


@pytest.mark.rotating("kills of parts", "parts")
def test_a_worker_that_is_killed_costs_no_row(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BYTES", 6000)
    killed: list[int] = []
    do = ProcessWorker.do

    async def deadly(self: ProcessWorker, task: Any, progress: Any) -> Any:
        """As the worker begins its second, then its fourth task of a kind, it is killed."""
        asked = asyncio.create_task(do(self, task, progress))
        if isinstance(task, PartTask) and len(killed) < 2 and task.slice.first > 1:
            await asyncio.sleep(0)
            assert self.pid is not None
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return await asked

    monkeypatch.setattr(ProcessWorker, "do", deadly)
    request = RunRequest(evaluator="noisy.py", dataset="rows-*.jsonl", seed=3, sandbox=SandboxConfig(jobs=2))
    work = PartsRun(prepare(request), files=["parts/"])
    with work.open():
        asyncio.run(work.score())
        work.end("finished")
    assert len(killed) == 2
    assert results("parts") == results("one")
    assert summary("parts") == summary("one")


@pytest.mark.rotating("kills of parts", "parts")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks for processes in /proc")
def test_a_run_that_is_killed_goes_on(there: Path) -> None:
    boot = "from runner.runs.parts import plan; plan.BYTES = 6000; from runner.__main__ import main; main()"
    words = ["run", "noisy.py", "rows-*.jsonl", "-j", "2", "--seed", "3", "-o", "parts/", "--resume"]
    for number in (signal.SIGKILL, signal.SIGINT):
        before = lines("parts")
        process = subprocess.Popen([sys.executable, "-c", boot, *words], stderr=subprocess.DEVNULL)
        below: set[int] = set()
        while process.poll() is None and lines("parts") < min(550, before + 100):
            below |= children(process.pid)
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(60)
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in below):
            assert time.monotonic() < deadline, below
            time.sleep(0.05)
    done = subprocess.run([sys.executable, "-c", boot, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert results("parts") == results("one")
    assert summary("parts") == summary("one")
    assert json.loads(Path("parts/manifest.json").read_text())["state"] == "finished"
    again = subprocess.run([sys.executable, "-c", boot, *words], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    write("rows-b.jsonl", rows(200, 301))
    changed = evalcell(*words)
    assert changed.exit_code == 2
    assert "the dataset has another content (`rows-b.jsonl`); undo that" in changed.stderr
