"""Data frames as datasets: their values, what of them is read, and what is no table."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import tracemalloc
from collections import UserList, namedtuple
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runner import DatasetError, SandboxConfig, check_examples, evaluate, parity, stream
from runner.core.types import Case
from runner.inputs.datasets import frames
from runner.inputs.datasets.frames import FrameRows, frame_rows
from runner.inputs.datasets.rows import cases_from_rows
from tests.inputs.reading import read

pytestmark = pytest.mark.rotating("data frames", "data", "doors")
datasets: Any = pytest.importorskip("datasets")
np: Any = pytest.importorskip("numpy")
pa: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")
pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

ONE = SandboxConfig(jobs=1)
LENGTH = "def evaluate(output, weight=1):\n    return len(output) * weight\n"


class Stream:
    """A table of a library that is not known here."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


KINDS: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas-arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(2),
    "hugging-face": datasets.Dataset,
    "stream": Stream,
}
TABLE = pa.table(
    {
        "id": ["a", "b", "c"],
        "output": ["x", None, ""],
        "reference": [1.5, math.nan, None],
        "number": pa.array([1, 2, 2**62]),
        "flag": [True, False, True],
        "at": pa.array([datetime(2024, 5, 6, 7, 8, 9), None, datetime(2024, 1, 1)], pa.timestamp("us")),
        "day": pa.array([date(2024, 5, 6), None, date(1, 1, 1)]),
        "zone": pa.array([datetime(2024, 5, 6, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "span": pa.array([timedelta(seconds=90), None, timedelta(0)]),
        "price": pa.array([Decimal("2.50"), None, Decimal("3.00")]),
        "list": pa.array([[1.0, math.nan], None, []], pa.list_(pa.float64())),
        "struct": pa.array([{"k": [1, None]}, None, {"k": None}]),
        "blob": pa.array([b"text", None, b""]),
        "kind": pa.array(["p", "q", None]).dictionary_encode(),
    }
)


def cases(data: Any, columns: frozenset[str] | None = None) -> list[Case]:
    rows = frame_rows(data)
    assert rows is not None
    return list(cases_from_rows(rows, columns=columns))


def values(case: Case) -> dict[str, Any]:
    assert case.broken is None, case.broken
    return {name: getattr(case, name) for name in ("id", "number", "output", "reference", "metadata", "present")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_gives_what_the_same_data_in_a_parquet_file_gives(kind: str, tmp_path: Path) -> None:
    parquet.write_table(TABLE, tmp_path / "t.parquet")
    table = TABLE
    if kind == "pandas":
        # Its integers have no missing values, and None in a list of numbers is NaN: both are as in a file it writes.
        table.to_pandas().to_parquet(tmp_path / "t.parquet")
    assert [values(case) for case in cases(KINDS[kind](table))] == [values(c) for c in read(tmp_path / "t.parquet")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_scored(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "length.py"
    script.write_text(LENGTH)
    data = KINDS[kind](pa.table({"prediction": ["a", "abc", None], "n": [1, 2, 3]}))
    report = evaluate(script, data, mapping={"output": "prediction"}, sandbox=ONE)
    assert [r.score for r in report.results] == [1.0, 3.0, None]
    assert report.summary.failed == 1


def test_missing_values_of_pandas_are_null() -> None:
    missing = [math.nan, None, pd.NA, pd.NaT, np.datetime64("NaT", "s"), np.float32("nan")]
    frame = pd.DataFrame(
        {"output": pd.Series(missing, dtype=object), "reference": pd.Series([None] * 6, dtype="Int64")}
    )
    assert [(c.output, c.reference) for c in cases(frame)] == [(None, None)] * 6
    nested = pd.DataFrame({"output": [{"a": pd.NA, "b": [np.nan, pd.NaT]}]})
    assert cases(nested)[0].output == {"a": None, "b": [None, None]}


def test_scalars_and_arrays_of_numpy_are_plain() -> None:
    many = [np.int8(1), np.float32(0.5), np.bool_(True), np.str_("s"), np.array([[1, 2]]), np.datetime64("2024-05-06")]
    frame = pd.DataFrame({"output": pd.Series([*many, np.timedelta64(1500, "ms")], dtype=object)})
    expected = [1, 0.5, True, "s", [[1, 2]], "2024-05-06T00:00:00", 1.5]
    assert [case.output for case in cases(frame)] == expected
    exact = np.datetime64("2024-05-06T07:08:09", "ns")
    assert [c.output for c in cases_from_rows([{"output": exact}])] == ["2024-05-06T07:08:09"]


def test_the_columns_of_pandas() -> None:
    first = cases(pd.DataFrame([["a", "b"]], columns=[0, "output"]))[0]
    assert (first.metadata, first.output) == ({"0": "a"}, "b")
    named = pd.DataFrame({"output": ["a"]}, index=pd.Index(["x"], name="id"))
    assert cases(named)[0].id == "x"
    assert cases(pd.DataFrame({"output": ["a"]}, index=["x"]))[0].metadata == {}
    levels = pd.MultiIndex.from_tuples([("p", 1)], names=["model", "try"])
    assert cases(pd.DataFrame({"output": ["a"]}, index=levels))[0].metadata == {"model": "p", "try": 1}
    assert [case.number for case in cases(pd.DataFrame(index=range(2)))] == [1, 2]
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame([[1, 2]], columns=[1, "1"])):
        with pytest.raises(DatasetError, match=r"two columns are named '[a1]'; rename one"):
            frame_rows(frame)
    both = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))
    with pytest.raises(DatasetError, match=r"several levels; join their names: df.columns ="):
        frame_rows(both)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_columns_that_are_needed_are_read(kind: str) -> None:
    table = pa.table({"output": ["a", "b"], "blob": [b"\xff", b"\xff"]})
    assert [case.output for case in cases(KINDS[kind](table), frozenset({"output"}))] == ["a", "b"]
    assert cases(KINDS[kind](table))[0].metadata == {}
    bad = cases(KINDS[kind](table), frozenset({"blob"}))[0]
    assert "row 1: column 'blob': 1 bytes that are no UTF-8 text" in str(bad.broken)
    assert cases(KINDS[kind](table), frozenset({"output"}))[0].unread == ("blob",)
    assert [case.number for case in cases(KINDS[kind](table), frozenset({"other"}))] == [1, 2]


@pytest.mark.parametrize("kind", ["polars", "table", "hugging-face"])
def test_a_value_that_python_cannot_hold_costs_its_row_only(kind: str) -> None:
    days = pa.array([1, 2**30, 2], pa.int32()).cast(pa.date32())
    found = cases(KINDS[kind](pa.table({"output": days})))
    assert [case.output for case in found] == ["1970-01-02", None, "1970-01-03"]
    assert "row 2: a value cannot be read" in str(found[1].broken)


@pytest.mark.parametrize("kind", ["pandas", "polars", "table", "reader", "hugging-face"])
def test_only_a_slice_of_a_frame_is_in_memory_as_python_values(kind: str) -> None:
    rows = 40_000
    data = KINDS[kind](pa.table({"output": [f"text number {n}" for n in range(rows)], "n": range(rows)}))
    found = frame_rows(data)
    assert found is not None
    next(found.read())
    tracemalloc.start()
    try:
        count = sum(1 for _ in found.read())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count in (rows, rows - 2)
    assert peak < 3 << 20


def test_large_values_are_read_in_smaller_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = frames._each

    def each(part: Any, count: int, values: Any) -> Any:
        sizes.append(count)
        return real(part, count, values)

    monkeypatch.setattr(frames, "_each", each)
    table = pa.table({"output": ["x" * (1 << 20)] * 20})
    for data in (table, pl.from_arrow(table)):
        sizes.clear()
        assert len(cases(data)) == 20
        assert max(sizes) <= 4


def test_a_frame_that_is_shuffled_filtered_or_formatted_is_read_as_it_is() -> None:
    data = datasets.Dataset.from_dict({"output": ["a", "b", "c"], "n": [1, 2, 3]})
    assert [c.output for c in cases(data.select([2, 0]))] == ["c", "a"]
    assert [c.metadata for c in cases(data.with_format("numpy"))] == [{"n": 1}, {"n": 2}, {"n": 3}]
    upper = data.with_transform(lambda rows: {"output": [text.upper() for text in rows["output"]]})
    assert [c.output for c in cases(upper)] == ["A", "B", "C"]
    streamed = data.to_iterable_dataset()
    assert [c.output for c in cases_from_rows(streamed)] == ["a", "b", "c"]
    assert [c.output for c in cases(pl.DataFrame({"output": ["a", "b"]})[1:])] == ["b"]
    assert [c.output for c in cases(pd.DataFrame({"output": ["a", "b", "c"]})[::-2])] == ["c", "a"]


def test_every_door_takes_a_frame(tmp_path: Path) -> None:
    script = tmp_path / "length.py"
    script.write_text(LENGTH)
    frame = pd.DataFrame({"output": ["a", "bcd"], "expected": [{"score": 1}, {"score": 3}]})

    async def collect() -> list[float | None]:
        return [r.score async for r in stream(script, frame, sandbox=ONE)]

    assert asyncio.run(collect()) == [1.0, 3.0]
    assert check_examples(script, frame, sandbox=ONE).passed == 2
    assert parity(script, frame, sandboxes=[ONE, ONE]).same == 2
    assert parity(script, KINDS["reader"](pa.table({"output": ["a"]})), sandboxes=[ONE, ONE]).same == 1


# what is no table


@dataclass
class Answer:
    output: str


async def _later() -> AsyncIterator[dict[str, str]]:
    yield {"output": "a"}


def _make() -> list[dict[str, str]]:
    return [{"output": "a"}]


Pair = namedtuple("Pair", ["output", "reference"])
ROWS = [{"output": "a"}]
FRAME = pd.DataFrame(ROWS)
WRONG: dict[str, tuple[Any, str, Any]] = {
    "one row": ({"output": "a"}, "[row]", None),
    "columns": ({"output": ["a"]}, "[dict(zip(data, row)) for row in zip(*data.values())]", 1),
    "splits": (datasets.DatasetDict({"test": datasets.Dataset.from_list(ROWS)}), "data['test']", 1),
    "texts": (["a"], '[{"output": value} for value in data]', 1),
    "numbers": ((1, 2), '[{"output": value} for value in data]', 2),
    "lists": ([["a", "b"]], '[dict(zip(("output", "reference"), row)) for row in data]', 1),
    "dataclasses": ([Answer("a")], "[dataclasses.asdict(row) for row in data]", 1),
    "named tuples": ([Pair("a", "b")], "[row._asdict() for row in data]", 1),
    "models": ([Case(number=1, id="1", where="x")], "[row.model_dump() for row in data]", 1),
    "series": (FRAME["output"], 'data.to_frame("output")', 1),
    "polars series": (pl.Series(["a"]), 'data.to_frame("output")', 1),
    "arrow array": (pa.array(["a"]), 'pyarrow.table({"output": data})', 1),
    "chunked array": (pa.chunked_array([["a"]]), 'pyarrow.table({"output": data})', 1),
    "vector": (np.array(["a"]), '[{"output": value} for value in data]', 1),
    "matrix": (np.array([["a", "b"]]), 'pandas.DataFrame(data, columns=["output", "reference"])', 1),
    "lazy frame": (pl.LazyFrame(ROWS), "data.collect()", 1),
    "function": (_make, "evaluate(…, _make())", None),
    "generator": (_later(), "[row async for row in data]", None),
    "number": (3, "a dataset is a path, a data frame, or rows such as", None),
    "nothing": (None, "a dataset is a path, a data frame, or rows such as", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_raises_at_once_with_the_line_to_write(name: str, tmp_path: Path) -> None:
    data, line, rows = WRONG[name]
    script = tmp_path / "any.py"
    script.write_text("def evaluate(output):\n    return 1\n")
    with pytest.raises(DatasetError) as caught:
        evaluate(script, data, sandbox=ONE)
    message = str(caught.value)
    assert line in message
    assert message.isprintable()
    if rows is not None:
        names = {"data": data, "pyarrow": pa, "pandas": pd, "dataclasses": __import__("dataclasses")}
        assert evaluate(script, eval(line, names), sandbox=ONE).summary.scored == rows


def test_an_open_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("")
    with path.open() as file, pytest.raises(DatasetError, match="an open file is no dataset; give its path"):
        evaluate("json-distance", file, sandbox=ONE)  # type: ignore[arg-type]


def test_rows_may_be_of_any_iterable_and_one_that_is_wrong_fails_alone(tmp_path: Path) -> None:
    script = tmp_path / "length.py"
    script.write_text(LENGTH)
    mixed: list[Any] = [{"output": "a"}, "no row"]
    for rows in (mixed, iter(mixed), UserList(mixed), (row for row in mixed)):
        report = evaluate(script, rows, sandbox=ONE)
        assert [r.outcome for r in report.results] == ["scored", "failed"]
    assert evaluate(script, [], sandbox=ONE).summary.rows == 0


def test_no_library_of_data_frames_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from runner import evaluate; evaluate('json-distance', [{'output': '1', 'reference': '1'}], "
        "sandbox='fake'); print([m for m in ('pandas', 'polars', 'pyarrow', 'datasets', 'numpy') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_stream_without_pyarrow_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(DatasetError, match=r'type Stream is read by pyarrow: pip install "evalcell\[parquet\]"'):
        frame_rows(Stream(TABLE))


def test_the_number_of_rows_is_known_where_it_is_cheap() -> None:
    found = [frames.row_count(data) for data in ([1, 2], iter([1]), (n for n in [1]), UserList([1]))]
    assert found == [2, 1, None, 1]
    rows = frame_rows(FRAME)
    assert isinstance(rows, FrameRows)
    assert frames.row_count(rows) == 1
    stream = frame_rows(TABLE.to_reader())
    assert stream is not None
    assert frames.row_count(stream) is None
