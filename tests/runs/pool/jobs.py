"""Jobs for a pool, and what came back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from runner.core.types import InputMapping
from runner.engine.request import RunRequest
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store.segments import Segment, check
from runner.runs.pool.pool import WorkerPool
from runner.runs.pool.types import RunEnded, RunJob, RunSegment, RunStarted, TryJob
from sandboxes.base import Limits, SandboxConfig

T = TypeVar("T")

COUNTS = """
seen = 0
def evaluate(output, reference):
    global seen
    seen += 1
    if output == "o7":
        raise ValueError("seven")
    return {"score": seen % 5 + (output == reference), "explanation": f"{output} is number {seen}"}
"""
"""What it gives depends on the rows before it in a batch."""

LOOPS = "def evaluate(output):\n    while True: pass\n"
HOUR = Limits(timeout=3600)


def with_pool(body: Callable[[WorkerPool], Awaitable[T]], **settings: Any) -> T:
    async def run() -> T:
        async with WorkerPool(**settings) as pool:
            return await body(pool)

    return asyncio.run(run())


def dry_run(
    source: str,
    *rows: dict[str, Any],
    limits: Limits | None = None,
    sandbox: SandboxConfig | None = None,
    literals: dict[str, Any] | None = None,
) -> TryJob:
    mapping = InputMapping(literals=literals or {})
    asked = request(source, limits=limits or Limits(), sandbox=sandbox or SandboxConfig(), mapping=mapping)
    return TryJob(request=asked, rows=list(rows))


def request(source: str, **fields: Any) -> RunRequest:
    return RunRequest(evaluator=parse_evaluator(source, "script"), **fields)


def dataset(folder: Path, count: int) -> Path:
    path = folder / "rows.jsonl"
    rows = ({"id": f"r{n}", "output": f"o{n}", "reference": f"o{n if n % 3 else 0}"} for n in range(1, count + 1))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Kept:
    """The parts of a run; segments are files, as a store has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[Path] = []
        self.started: list[RunStarted] = []
        self.ended: RunEnded | None = None
        self.next = 1

    def keep(self, segment: Segment) -> None:
        check(segment)
        assert segment.first == self.next
        self.next += segment.rows
        path = self.folder / f"{segment.first}.jsonl"
        path.write_bytes(segment.data)
        self.paths.append(path)

    async def all_of(self, pool: WorkerPool, asked: RunRequest, on_segment: Callable[[], None] = lambda: None) -> Kept:
        async for part in pool.run(RunJob(request=asked, segments=self.paths), lambda: self.paths):
            if isinstance(part, RunStarted):
                self.started.append(part)
            elif isinstance(part, RunSegment):
                self.keep(part.segment)
                on_segment()
            else:
                self.ended = part
        return self

    @property
    def rows(self) -> list[dict[str, Any]]:
        lines = [line for path in self.paths for line in path.read_bytes().splitlines()]
        return [{name: value for name, value in json.loads(line).items() if name != "duration_ms"} for line in lines]

    @property
    def figures(self) -> dict[str, Any]:
        assert self.ended is not None
        assert self.ended.summary is not None
        return self.ended.summary.model_dump(exclude={"seconds", "rows_per_second"})


def worker_of(pool: WorkerPool) -> int:
    """The process of the local worker."""
    pid = pool._workers["local"].pid
    assert pid is not None
    return pid


async def started(pool: WorkerPool) -> int:
    """The process of the local worker, once there is one."""
    while not pool._workers or pool._workers["local"].pid is None:
        await asyncio.sleep(0.01)
    return worker_of(pool)
