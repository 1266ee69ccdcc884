"""Parquet files: what their values become, which columns are decoded, and how much memory it takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runner import InputMapping, SandboxConfig, evaluate
from runner.core.errors import MappingError
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.parquet import ParquetRows
from runner.inputs.evaluators.mapping import bind
from tests.inputs.parsing import parsed
from tests.inputs.reading import broken, read, refusal, written

ROOT = Path(__file__).parents[2]

pa: Any = pytest.importorskip("pyarrow")

parquet: Any = pytest.importorskip("pyarrow.parquet")


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2, 3],
            "output": [1.5, float("nan"), float("inf")],
            "reference": [{"a": [1, None]}, None, {"a": []}],
            "metadata": ['{"k": 1}', None, ""],
            "blob": [b"text", b"\xff", None],
            "at": pa.array([1000, 2000, 2**62], pa.timestamp("ms")),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    path = tmp_path / "d.parquet"
    parquet.write_table(table, path)
    assert open_dataset(path).total() == 3
    first, second, third = read(path)
    assert (first.id, first.output, first.reference) == ("1", 1.5, {"a": [1, None]})
    assert first.metadata == {"k": 1, "blob": "text", "at": "1970-01-01T00:00:01", "map": {"k": 1}}
    assert (second.output, second.metadata) == (None, {"at": "1970-01-01T00:00:02", "map": {}})
    assert "d.parquet, row 3: a value cannot be read: " in broken(third)

    parquet.write_table(table.select(["id", "output"]), path)
    assert read(path)[1].output is None
    assert "infinite" in broken(read(path)[2])
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    assert "two columns are named 'a'" in refusal(path)


def test_rows_that_share_a_line_are_those_that_have_one_each(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    plain: dict[str, Any] = {
        "text": ["", "é\0\n😀", None] * 300,
        "whole": [2**63 - 1, -1, None] * 300,
        "score": [0.1 + 0.2, -0.0, None] * 300,
        "right": [True, False, None] * 300,
    }
    rows = [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    for more in ({}, {"date": pa.array([None] * 900, pa.date32())}):  # of these a row is written alone
        parquet.write_table(pa.table({**plain, **more}), path)
        assert [row for _, row in ParquetRows(path)] == [row | dict.fromkeys(more) for row in rows]
    plain["score"][400] = float("inf")
    parquet.write_table(pa.table(plain), path)
    found = [row for _, row in ParquetRows(path)]
    assert [at for at, row in enumerate(found) if row != rows[at]] == [400]
    assert "infinite" in str(found[400])


def test_parquet_that_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    table = pa.table({"output": [str(n) * 50 for n in range(5000)]})
    parquet.write_table(table, path, row_group_size=1000, use_dictionary=False, compression="none")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = b"\xff" * 20_000
    path.write_bytes(data)
    with open_dataset(path) as dataset:
        cases = list(dataset)
        assert not dataset.complete
    assert len(cases) >= 1000
    assert "column 'output': " in broken(cases[-1])
    assert "the rest of the file cannot be read" in broken(cases[-1])


def test_without_pyarrow_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = written(tmp_path, "d.parquet", "")
    assert refusal(path) == 'd.parquet: Parquet needs pyarrow: pip install "evalcell[parquet]"'


# which columns


def no_utf8(count: int) -> Any:
    """Text that is none, as careless writers leave it."""
    offsets = pa.array(range(count + 1), pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(b"\xff" * count)])


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """Two good columns, and one that no row can be read with."""
    path = tmp_path / "d.parquet"
    table = pa.table({"id": ["a", "b"], "output": [1, 2], "outputs": no_utf8(2), "gold": [1, 0]})
    parquet.write_table(table, path)
    return path


def test_a_column_that_is_not_mapped_is_not_decoded(spoilt: Path) -> None:
    assert all("column 'outputs'" in broken(case) or "a value cannot be read" in broken(case) for case in read(spoilt))
    with open_dataset(spoilt, columns={"id", "output", "reference"}) as dataset:
        first, second = dataset
    assert (first.id, first.output, second.output, first.metadata) == ("a", 1, 2, {})
    assert first.present == {"id", "output"}
    assert first.unread == ("outputs", "gold")


def test_the_mapping_says_which_columns_are_decoded(spoilt: Path, tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("def evaluate(output, gold):\n    return output + gold\n")
    fake = SandboxConfig(backend="fake")

    def outcomes(path: str) -> list[str]:
        mapping = InputMapping(paths={"gold": path})
        return [result.outcome for result in evaluate(script, spoilt, sandbox=fake, mapping=mapping).results]

    assert outcomes("metadata.gold") == ["scored", "scored"]
    assert outcomes("metadata") == ["failed", "failed"]


def test_a_mapping_that_misses_names_the_path_that_is_meant(spoilt: Path, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"output": [1], "gold": [{"text": "a"}]}), tmp_path / "gold.parquet")
    binding = bind(parsed("def evaluate(label):\n    pass\n"), InputMapping(paths={"label": "gold.text"}))
    with open_dataset(tmp_path / "gold.parquet", columns=binding.columns) as dataset:
        first = next(iter(dataset))
    with pytest.raises(MappingError) as hint:
        binding.arguments(first)
    assert "other columns are in metadata: $.metadata.gold.text" in str(hint.value)
    binding = bind(parsed("def evaluate(reference):\n    pass\n"))
    with open_dataset(spoilt, columns=binding.columns) as dataset:
        first = next(iter(dataset))
    with pytest.raises(MappingError) as hint:
        binding.arguments(first)
    assert "(it has `output`, `outputs`, `gold`)" in str(hint.value)


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("output", {"output"}),
        ("$.output.a[0]", {"output"}),
        ("$['output', 'reference']", {"output", "reference"}),
        ("output[*].x", {"output"}),
        ("output..x", {"output"}),
        ("metadata.gold", {"metadata", "gold"}),
        ("metadata['a', 'b'][*]", {"metadata", "a", "b"}),
        ("metadata", None),
        ("metadata.*", None),
        ("metadata[?@.x]", None),
        ("metadata..x", None),
        ("$", None),
        ("$.*", None),
        ("$..x", None),
        ("output[?@.x == $.reference]", None),
    ],
)
def test_what_a_path_needs(path: str, columns: set[str] | None) -> None:
    evaluator = parsed("def evaluate(value):\n    pass\n")
    needed = bind(evaluator, InputMapping(paths={"value": path})).columns
    assert needed == (None if columns is None else frozenset(columns | {"id"}))


def test_what_names_and_literals_need() -> None:
    some = bind(parsed("def evaluate(output, reference=1, k=2):\n    pass\n")).columns
    assert some == frozenset({"id", "output", "reference", "metadata", "k"})  # a row may have a column `k`
    evaluator = parsed("def evaluate(output, metadata):\n    pass\n")
    assert bind(evaluator).columns is None
    assert bind(evaluator, InputMapping(literals={"metadata": {}})).columns == frozenset({"id", "output"})


def test_columns_whose_names_have_points(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"a": [1], "a.b": no_utf8(1), "c": [{"d": 2}]}), path)
    with open_dataset(path, columns={"a", "c"}) as dataset:
        (case,) = dataset
    assert case.metadata == {"a": 1, "c": {"d": 2}}


def test_rows_without_a_wanted_column_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"a": [1, 2]}), path)
    with open_dataset(path, columns=set()) as dataset:
        assert dataset.total() == 2
        assert [case.id for case in dataset] == ["1", "2"]
