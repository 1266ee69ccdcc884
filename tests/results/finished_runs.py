"""Finished runs as files, made of results that a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import Comparison, compare_runs
from runner.core.types import Continuous, Result, ResultError
from runner.results.output.files import ResultsFiles
from runner.results.output.row_cells import Layout

CONFIG = Continuous(lower_bound=0, upper_bound=1)


def given(number: int, output: int = 0) -> str:
    return f"{number:08x}{output:08x}"


def result(number: int, score: float | None = 0.5, **more: Any) -> Result:
    made = {
        "id": f"row{number}",
        "number": number,
        "evaluator": "e",
        "version": "v1",
        "sandbox": "wasm/1",
        "given": given(number),
        "outcome": "abstained" if score is None else "scored",
        "score": score,
    }
    return Result.model_validate(made | more)


def broken(number: int) -> Result:
    return result(number, None, outcome="failed", error=ResultError(kind="raised", message="why"))


def write(path: Path, results: Sequence[Result], layout: Layout | None = None) -> Path:
    async def work() -> None:
        async with ResultsFiles([str(path)]) as files:
            await files.open(layout or Layout())
            for one in results:
                files.add([one])
                await files.room()

    asyncio.run(work())
    return path


def folder(path: Path, results: Sequence[Result], **manifest: Any) -> Path:
    path.mkdir()
    write(path / "results.jsonl", results)
    outputs = {"": CONFIG.model_dump(mode="json")}
    made = {"state": "finished", "evaluator": {"name": "e", "outputs": outputs}} | manifest
    (path / "manifest.json").write_text(json.dumps(made))
    return path


def compared(tmp_path: Path, base: Sequence[Result], new: Sequence[Result], **more: Any) -> Comparison:
    paths = write(tmp_path / "base.jsonl", base), write(tmp_path / "new.jsonl", new)
    return compare_runs(*paths, **{"direction": "maximize", **more})


def shifted(by: float, count: int = 40, **more: Any) -> list[Result]:
    return [result(n, 0.5 + by * (1 + n % 2), given=given(n, 1), **more) for n in range(count)]


BASE = [result(n) for n in range(40)]
