"""Evaluators, results and segments for tests of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.core.types import Evaluator, Result, ResultError
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store.segments import Segment, SegmentBuilder
from runner.results.store.store import Store
from runner.results.store.types import RunSpec

HEADER = '# /// script\n# [tool.evalcell]\n# output = {{ kind = "continuous", direction = "{}" }}\n# ///\n'
ROWS = b'{"output": "a"}\n{"output": "b"}\n'


def script(body: str = "return 1.0", direction: str = "maximize") -> str:
    return f"{HEADER.format(direction)}def evaluate(output):\n    {body}\n"


def evaluator(body: str = "return 1.0", name: str = "polite", direction: str = "maximize") -> Evaluator:
    return parse_evaluator(script(body, direction), name)


def result(number: int, score: float | None = None, **more: Any) -> Result:
    fields: dict[str, Any] = {
        **{"id": f"row-{number}", "number": number, "evaluator": "polite", "version": "0" * 12, "sandbox": "wasm"},
        **{"outcome": "scored", "score": score},
    }
    return Result(**fields | more)


def failed(number: int, kind: Any = "raised", message: str = "it broke") -> Result:
    outcome = "lost" if kind == "lost" else "failed"
    return result(number, outcome=outcome, error=ResultError(kind=kind, message=message))


def segment(*results: Result, first: int | None = None) -> Segment:
    builder = SegmentBuilder(results[0].number if first is None else first)
    for one in results:
        builder.add(one)
    return builder.take()


def new_run(store: Store, folder: Any, name: str = "polite", direction: str = "maximize") -> str:
    """A run of an evaluator and a dataset of the store."""
    path = folder / "rows.jsonl"
    path.write_bytes(ROWS)
    store.add_evaluator(evaluator(name=name, direction=direction))
    store.add_dataset(path, name="rows", suffix=".jsonl")
    return store.create_run(RunSpec(evaluator=name, dataset="rows"), state="running").id


def files(folder: Path) -> list[str]:
    """The names of the files in the store's folder."""
    return sorted(path.name for path in (folder / "files").rglob("*") if path.is_file())
