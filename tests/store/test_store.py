"""What the store keeps, on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.evaluators.load import parse_evaluator
from runner.store import open_store
from runner.store.errors import InUseError, SegmentError
from runner.store.segments import Segment, SegmentBuilder
from runner.store.store import Store
from runner.store.types import RunSpec, Selection
from runner.types import Evaluator, Result, ResultError

HEADER = '# /// script\n# [tool.evalcell]\n# output = { kind = "continuous", direction = "maximize" }\n# ///\n'


def script(body: str = "return 1.0") -> str:
    return f"{HEADER}def evaluate(output):\n    {body}\n"


def evaluator(body: str = "return 1.0", name: str = "polite") -> Evaluator:
    return parse_evaluator(script(body), name)


def result(number: int, score: float | None = None, **more: object) -> Result:
    fields: dict[str, Any] = {
        "id": f"row-{number}",
        "number": number,
        "evaluator": "polite",
        "version": "0" * 12,
        "sandbox": "wasm",
    }
    return Result(**fields | {"outcome": "scored", "score": score} | more)


def segment(first: int, *results: Result) -> Segment:
    builder = SegmentBuilder(first)
    for one in results:
        builder.add(one)
    return builder.take()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(folder=tmp_path / "store") as made:
        yield made


@pytest.fixture
def run(store: Store, tmp_path: Path) -> str:
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n')
    store.add_evaluator(evaluator())
    store.add_dataset(tmp_path / "rows.jsonl", name="rows", suffix=".jsonl")
    return store.create_run(RunSpec(evaluator="polite", dataset="rows")).id


def test_all(store: Store, run: str) -> None:
    failed: dict[str, Any] = {"outcome": "failed", "error": ResultError(kind="raised", message="Ünfug")}
    assert store.add_segment(run, segment(1, result(1, 0.5), result(2, 0.25, label="b"), result(3, **failed))) == 3
    assert store.add_segment(run, segment(4, result(4, 1.0))) == 4
    found = store.select(run, Selection(order="worst"))
    assert [row["number"] for row in found.rows] == [3, 2, 1, 4]
    assert [r["number"] for r in store.select(run, Selection(search="ünF")).rows] == [3]
    assert [r["number"] for r in store.select(run, Selection(low=0.3)).rows] == [1, 4]
    assert [r["number"] for r in store.select(run, Selection(label="b")).rows] == [2]
    with pytest.raises(SegmentError):
        store.add_segment(run, segment(4, result(4, 1.0)))
    with pytest.raises(InUseError):
        store.delete_run(run)
    store.set_run(run, state="finished")
    assert store.prune(keep=0).runs == (run,)
    assert store.usage().runs == 0
