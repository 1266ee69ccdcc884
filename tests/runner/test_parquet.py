"""Parquet files: what their values become, which columns are decoded, and how much memory it takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from runner import InputMapping, SandboxConfig, evaluate
from runner.datasets.column_values import UnreadError
from runner.datasets.dataset import open_dataset
from runner.datasets.parquet import ParquetRows
from runner.errors import MappingError
from runner.evaluators.mapping import bind
from tests.runner.parsing import parsed
from tests.runner.reading import broken, read, refusal, written

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
    assert first.metadata == {"k": 1, "blob": "text", "at": "1970-01-01T00:00:01", "map": [["k", 1]]}
    assert "d.parquet, row 2: column 'blob': not UTF-8" in broken(second)
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


def test_a_mapping_that_misses_names_the_columns_that_were_not_read(spoilt: Path) -> None:
    binding = bind(parsed("def evaluate(label):\n    pass\n"), InputMapping(paths={"label": "gold.text"}))
    with open_dataset(spoilt, columns=binding.columns) as dataset:
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
    assert some == frozenset({"id", "output", "reference"})
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


# memory


PEAK = """
import resource, sys
from itertools import islice
from runner.datasets.dataset import open_dataset
with open_dataset(sys.argv[1]) as dataset:
    for case in islice(dataset, int(sys.argv[2])):
        print(ascii(case.broken or len(case.output)))
# What is said of the process itself counts from before it began, in the one that started it.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print((own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024)
"""
MOST = 500
"""MB that a hostile file may cost, beside those for a file of one small row."""


def peak(path: Path, rows: int = 10) -> tuple[list[str], int]:
    """What the first rows are, and the most memory in MB, of both processes."""
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), str(rows)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    *lines, last = ran.stdout.splitlines()
    return lines, int(last)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> int:
    path = tmp_path_factory.mktemp("small") / "d.parquet"
    parquet.write_table(pa.table({"output": ["x"]}), path)
    return peak(path)[1]


def repeated(size: int) -> Any:
    """One long value in 256 rows, which takes its own length in the file, less what compression saves."""
    return pa.table({"output": pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), ["x" * size])})


SHORT = pa.table({"output": ["a"], "note": ["short"]})

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the bound is coarse")


@pytest.mark.rotating("long tests", "data")
@linux
def test_long_values_that_each_row_may_have_are_read(tmp_path: Path, baseline: int) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(repeated(4 << 20), path, compression="zstd")
    assert path.stat().st_size < 2000
    lines, most = peak(path)
    assert lines == [str(4 << 20)] * 10
    assert most < baseline + MOST


@pytest.mark.rotating("long tests", "data")
@linux
def test_values_that_are_longer_than_a_row_break_their_rows(tmp_path: Path, baseline: int) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(repeated(30 << 20), path, compression="zstd")
    lines, most = peak(path, 2)
    assert lines == [repr(f"d.parquet, row {number}: the row is longer than 8 MB") for number in (1, 2)]
    assert most < baseline + MOST


@pytest.mark.rotating("bounds of work and memory", "data")
@linux
def test_what_cannot_be_decoded_in_bounds_is_told_with_its_column(tmp_path: Path, baseline: int) -> None:
    path = tmp_path / "d.parquet"
    with parquet.ParquetWriter(path, SHORT.schema, compression="zstd") as writer:
        writer.write_table(SHORT)
        writer.write_table(pa.table({"output": ["b"], "note": ["x" * (200 << 20)]}))
    lines, most = peak(path)
    assert lines[0] == "1"
    (told,) = lines[1:]
    assert "d.parquet, row 2: column 'note': decoding it takes more than 448 MB of memory; map fewer columns" in told
    assert "or as JSON Lines; the rest of the file cannot be read" in told
    assert most < baseline + MOST


@pytest.mark.rotating("long tests", "data")
def test_a_file_of_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({f"c{number}": [number] for number in range(20_000)} | {"output": ["x"]}), path)
    with open_dataset(path, columns={"output"}) as dataset:
        (case,) = dataset
    assert case.output == "x"
    assert len(case.unread) <= 200


@pytest.mark.rotating("bounds of work and memory", "data")
@linux
def test_the_bound_holds_where_the_kernel_does_not_keep_it() -> None:
    script = """
import sys, time
from runner.datasets import parquet_decoder
sys.platform = "other"
parquet_decoder.bound(50 << 20)
held = [b"x" * (10 << 20)]
print("within", flush=True)
while True:
    held.append(b"x" * (1 << 20))
    time.sleep(0.001)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (3, "within\n")


# the process


def endless(tmp_path: Path) -> Path:
    """More rows than fit into a pipe."""
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"output": ["x" * 1000] * 5000}), path)
    return path


def pid(rows: ParquetRows) -> int:
    found: int = rows._process.pid
    return found


def test_a_decoder_that_dies_is_told(tmp_path: Path) -> None:
    rows = ParquetRows(endless(tmp_path))
    found = iter(rows)
    next(found)
    os.kill(pid(rows), signal.SIGKILL)
    *_, (where, last) = found
    assert isinstance(last, UnreadError)
    assert "its decoder was ended by signal 9, perhaps for lack of memory" in str(last)
    assert where.startswith("d.parquet, row ")
    rows.close()


def test_nothing_is_left_of_a_decoder(tmp_path: Path) -> None:
    path = endless(tmp_path)
    rows, left = ParquetRows(path), ParquetRows(path)
    ends = [pid(rows), pid(left)]
    next(iter(rows))
    rows.close()
    rows.close()
    assert list(rows) == []
    del left
    for number in ends:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_close_ends_a_read_in_another_thread(tmp_path: Path) -> None:
    rows = ParquetRows(endless(tmp_path))
    os.kill(pid(rows), signal.SIGSTOP)
    reader = threading.Thread(target=lambda: list(rows))
    reader.start()
    rows.close()
    reader.join(60)
    assert not reader.is_alive()


def test_a_decoder_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = endless(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert "d.parquet: no process to decode it can be started: No such file" in refusal(path)
