"""Runs in parts, in a folder with a script; the workers are of this process, which starts sooner."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.engine.request import PreparedRun
from runner.runs.parts import plan, run
from runner.runs.parts.folder import PartsFolder
from runner.runs.parts.scheduler import CrewWorker
from runner.runs.parts.types import Task
from runner.runs.parts.work import PartWorker, Progress, Reply
from tests.cli.commands import header

SCRIPT = header(
    "import random\n"
    "def evaluate(output, reference='x'):\n"
    "    if output == 'boom':\n        raise ValueError(output)\n"
    "    if output == 'none':\n        return {'score': None, 'label': 'none'}\n"
    "    return {'label': output[:3], 'score': random.random() + len(output), 'explanation': reference}\n",
    "[tool.evalcell]",
    'output = {kind = "continuous", direction = "maximize", threshold = 4}',
)


class Here:
    """A worker in this process."""

    there = True

    def __init__(self, number: int) -> None:
        self.name = f"worker {number}"
        self._work = PartWorker()

    async def start(self) -> None:
        pass

    async def do(self, task: Task, progress: Progress) -> Reply:
        return await self._work.do(task, progress)

    async def close(self) -> None:
        await self._work.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script; parts are small, so that a small file has several."""

    @asynccontextmanager
    async def workers(prepared: PreparedRun, folder: PartsFolder) -> AsyncIterator[list[CrewWorker]]:
        found: list[CrewWorker] = [Here(number) for number in range(2)]
        try:
            yield found
        finally:
            for worker in found:
                await worker.close()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "workers", workers)
    monkeypatch.setattr(plan, "BYTES", 700)
    (tmp_path / "noisy.py").write_text(SCRIPT)
    return tmp_path


def rows(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    """Rows of which some fail, some abstain, and some have no id."""
    found: list[dict[str, Any]] = []
    for n in range(first, first + count):
        output = {3: "boom", 5: "none"}.get(n % 11, f"w{n % 17}é")
        found.append({"id": f"r{n}", "output": output, "reference": "x" * (n % 5), **more})
    return found


def write(path: str, data: Sequence[Any]) -> None:
    """JSON lines; a text is a line as it is."""
    lines = (one if isinstance(one, str) else json.dumps(one) for one in data)
    Path(path).write_text("".join(f"{line}\n" for line in lines))


def results(folder: str) -> list[dict[str, Any]]:
    """The rows of a run's folder, without the times, and without the names of files in messages."""
    files = sorted(Path(folder).glob("parts/*/results.jsonl")) or [Path(folder, "results.jsonl")]
    texts = [re.sub(r"(rows-\w|all)\.\w+:\d+", "file:line", file.read_text()) for file in files]
    return [{**json.loads(line), "duration_ms": 0} for text in texts for line in text.splitlines()]


def summary(folder: str) -> dict[str, Any]:
    """The summary of a run's folder, without the times; with the notes."""
    text = Path(folder, "manifest.json").read_text()
    found = json.loads(re.sub(r"(rows-\w|all)\.\w+:\d+", "file:line", text))
    return {**found["summary"], "seconds": 0, "rows_per_second": 0, "state": found["state"], **found["dataset"]} | {
        "path": "",
        "sha256": "",
        "stamp": "",
    }
