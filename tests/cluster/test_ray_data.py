"""Scores in a pipeline of Ray Data: what a batch comes back as, and what stays open from batch to batch."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from runner import InputError, SandboxConfig, evalcell_scorer, evaluate
from runner.runs.api.ray_data import BatchScorer
from tests.test_how_to import SAME, run

SCRIPT = """
import random
N = 0
def evaluate(output, reference=None):
    global N
    N += 1
    if output == "bad":
        raise ValueError("bad")
    if output == "skip":
        return {"score": None, "label": "skipped"}
    return {"score": len(output) + N, "label": output}
"""
OUTPUTS = ["one", "bad", "skip", "three"]
ROWS: list[dict[str, Any]] = [
    {"outcome": "scored", "label": "one", "score": 4.0, "explanation": None, "error": None},
    {
        "outcome": "failed",
        "label": None,
        "score": None,
        "explanation": None,
        "error": "raised: ValueError: bad (line 8)",
    },
    {"outcome": "abstained", "label": "skipped", "score": None, "explanation": None, "error": None},
    {"outcome": "scored", "label": "three", "score": 6.0, "explanation": None, "error": None},
]


def children() -> set[str]:
    """The processes that this one has started, from any of its threads."""
    return {pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scripts") / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def scorer(script: Path) -> Iterator[BatchScorer]:
    made = evalcell_scorer(script, sandbox="wasm")()
    yield made
    made.close()
    made.close()


def as_arrays(batch: dict[str, Any]) -> list[dict[str, Any]]:
    assert all(type(column) is np.ndarray for column in batch.values())
    return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]


def as_frame(batch: pd.DataFrame) -> list[dict[str, Any]]:
    assert batch.index.tolist() == [7, 5, 3, 1]
    assert str(batch["score"].dtype) == "Float64"
    return [
        {name: None if value is pd.NA else value for name, value in row.items()} for row in batch.to_dict("records")
    ]


def as_table(batch: pa.Table) -> list[dict[str, Any]]:
    assert [str(batch.schema.field(name).type) for name in ("label", "score")] == ["string", "double"]
    return batch.to_pylist()


@pytest.mark.parametrize(
    ("batch", "read"),
    [
        ({"output": np.array(OUTPUTS, dtype=object)}, as_arrays),
        (pd.DataFrame({"output": OUTPUTS}, index=[7, 5, 3, 1]), as_frame),
        (pa.table({"output": OUTPUTS}), as_table),
    ],
)
def test_a_batch_comes_back_with_its_scores(
    scorer: BatchScorer, batch: Any, read: Callable[[Any], list[dict[str, Any]]]
) -> None:
    for _ in range(2):
        expected = [{"output": output} | row for output, row in zip(OUTPUTS, ROWS, strict=True)]
        assert read(scorer(batch)) == expected, "and no state stays from row to row, or from batch to batch"


def test_an_empty_batch_has_the_columns(scorer: BatchScorer) -> None:
    assert list(scorer({"output": np.array([], dtype=object)})) == ["output", *ROWS[0]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")
def test_the_sandbox_stays_open_until_it_is_let_go_of(script: Path) -> None:
    others = children()
    made = evalcell_scorer(script, sandbox=SandboxConfig(backend="process"))()
    opened = children() - others
    assert opened
    for _ in range(2):
        assert list(made({"output": np.array(["one"], dtype=object)})["score"]) == [4.0]
    assert children() - others == opened
    del made
    assert not children() - others


def test_times_and_nested_values_arrive_as_in_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def evaluate(output, when, parts):\n    return f'{output} {when} {parts}'\n")
    when = np.array(["2026-11-23T04:20:00"], dtype="datetime64[ns]")
    parts = np.empty(1, dtype=object)
    parts[0] = np.array([1, 2])
    columns = {"output": np.array([1.5]), "when": when, "parts": parts}
    mapping = {"when": "metadata.when", "parts": "metadata.parts"}
    made = evalcell_scorer(tmp_path / "script.py", sandbox="wasm", mapping=mapping)()
    try:
        found = made(columns)["label"]
    finally:
        made.close()
    rows = [{name: column[0] for name, column in columns.items()} | {"when": when[0].astype("datetime64[us]").item()}]
    assert list(found) == [evaluate(tmp_path / "script.py", rows, mapping=mapping, sandbox="wasm").results[0].label]


def test_several_outputs_and_a_prefix(tmp_path: Path) -> None:
    header = [
        "# /// script",
        *(f"# tool.evalcell.outputs.{name}.kind = 'freeform'" for name in ("length", "word")),
        "# ///",
    ]
    body = "def evaluate(output):\n    return {'length': len(output), 'word': output}\n"
    (tmp_path / "script.py").write_text("\n".join([*header, body]))
    made = evalcell_scorer(tmp_path / "script.py", sandbox="wasm", prefix="e_")()
    try:
        [row] = made(pa.table({"output": ["four"], "label": ["theirs"]})).to_pylist()
    finally:
        made.close()
    assert (row["label"], row["e_length.score"], row["e_word.label"], row["e_word.score"]) == (
        "theirs",
        4.0,
        "four",
        None,
    )


def test_what_does_not_fit_is_refused(scorer: BatchScorer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column for `output`.*name them: evalcell_scorer\(…, mapping=\{'output'"):
        scorer({"answer": np.array(["x"])})
    with pytest.raises(InputError, match="has a column `label` already; give the scores' columns a prefix"):
        scorer({"output": np.array(["x"]), "label": np.array(["y"])})
    with pytest.raises(InputError, match="a batch must be a dict of arrays, a data frame or an Arrow table, not 'x'"):
        scorer("x")
    (tmp_path / "script.py").write_text("def aggregate(results):\n    return 1\n")
    with pytest.raises(InputError, match="has no `evaluate`, which scores single rows"):
        evalcell_scorer(tmp_path / "script.py")
    with pytest.raises(InputError, match="no script"):
        evalcell_scorer(tmp_path / "missing.py")


@pytest.fixture
def ray_data(cluster: Any) -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init(log_to_driver=False, logging_level=logging.CRITICAL)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.data
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotating("Ray Data", "cluster")
def test_a_pipeline_of_ray_data(
    ray_data: Any, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "same.py").write_text(SAME)
    run("ray-data.md")
    assert capsys.readouterr().out.splitlines() == ["0.5", "[1.0]"]
    rows: list[dict[str, Any]] = [{"n": n, "output": OUTPUTS[n % 4]} for n in range(40)]
    made = evalcell_scorer(script, sandbox="wasm")
    scored = ray_data.from_items(rows).repartition(4).map_batches(made, batch_size=8, concurrency=(1, 2))
    found = sorted(scored.take_all(), key=lambda row: row["n"])
    assert found == [row | ROWS[row["n"] % 4] for row in rows]
