"""The process that decodes Parquet: its bounds, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.column_values import UnreadError
from runner.inputs.datasets.formats.parquet import ParquetRows
from runner.inputs.datasets.work import AbandonEvent, until
from tests.inputs.reading import refusal

ROOT = Path(__file__).parents[2]

pa: Any = pytest.importorskip("pyarrow")

parquet: Any = pytest.importorskip("pyarrow.parquet")


PEAK = """
import resource, sys
from itertools import islice
from runner.inputs.datasets.dataset import open_dataset
with open_dataset(sys.argv[1]) as dataset:
    for case in islice(dataset, int(sys.argv[2])):
        print(ascii(case.broken or len(case.output)))
# What is said of the process itself counts from before it began, in the one that started it.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print((own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024)
"""

MOST = 500


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
from runner.inputs.datasets.formats import parquet_decoder
sys.platform = "other"
parquet_decoder.bound_memory(50 << 20)
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


def test_who_no_longer_wants_the_rows_ends_a_decoder_that_is_silent(tmp_path: Path) -> None:
    gone, opened, pids = AbandonEvent(), threading.Event(), list[int]()

    def read() -> None:
        until(gone)
        rows = ParquetRows(endless(tmp_path))
        os.kill(pid(rows), signal.SIGSTOP)
        pids.append(pid(rows))
        opened.set()
        list(rows)
        rows.close()

    reader = threading.Thread(target=read)
    reader.start()
    assert opened.wait(60)
    gone.set()
    reader.join(60)
    assert not reader.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_decoder_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = endless(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert "d.parquet: no process to decode it can be started: No such file" in refusal(path)
