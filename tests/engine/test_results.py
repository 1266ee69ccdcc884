"""Results files: formats, what is refused before a run, what stays when writing fails."""

from __future__ import annotations

import asyncio
import csv
import importlib.util
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import OutputError
from runner.core.types import Result, ResultError, Score
from runner.results.output.files import ResultsFiles, WriteError
from runner.results.output.result_rows import as_row
from runner.results.output.row_cells import Layout

FORMATS = ["jsonl", "json", "csv", "parquet"]


def result(number: int = 1, **more: Any) -> Result:
    made = {
        "id": f"row{number}",
        "number": number,
        "evaluator": "e",
        "version": "v",
        "sandbox": "wasm/1",
        "outcome": "scored",
        "label": "ok",
        "score": 0.5,
        "stdout": "said\n",
        "duration_ms": 1.25,
    }
    return Result.model_validate(made | more)


PLAIN = Layout()
ODD = result(3, label="ä\u2028\x00\x1b", stdout="\x9b\x85\u2029")
FAILED = result(2, outcome="failed", score=None, label=None, error=ResultError(kind="raised", message="why"))


def write(path: Path, *results: Result, layout: Layout = PLAIN) -> None:
    write_all([path], results, layout)


def write_all(paths: Sequence[Path], results: Iterable[Result], layout: Layout = PLAIN) -> None:
    async def work() -> None:
        async with ResultsFiles([str(path) for path in paths]) as files:
            await files.open(layout)
            for one in results:
                files.add([one])
                await files.room()

    asyncio.run(work())


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if path.suffix == ".json":
        loaded: list[dict[str, Any]] = json.loads(path.read_bytes())
        return loaded
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return [dict(row) for row in csv.DictReader(file)]
    return list(pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist())


def test_a_row_has_these_keys_in_this_order() -> None:
    assert json.dumps(as_row(FAILED, PLAIN)) == (
        '{"id": "row2", "evaluator": "e", "version": "v", "sandbox": "wasm/1", "given": null, "outcome": "failed", '
        '"label": null, "score": null, "explanation": null, "error": {"kind": "raised", "message": "why"}, '
        '"stdout": "said\\n", "duration_ms": 1.25}'
    )
    several = result(outputs={"a": Score(score=1.0), "b": Score(label="x")})
    assert list(as_row(several, PLAIN))[-1] == "outputs"
    assert as_row(several, PLAIN)["outputs"]["b"] == {"label": "x", "score": None, "explanation": None}


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_what_is_written_can_be_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    write(path, result(), FAILED, ODD)
    assert read(path) == [as_row(r, PLAIN) for r in (result(), FAILED, ODD)]


def test_csv_has_the_error_in_two_columns(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", result(), FAILED)
    first, second = read(tmp_path / "x.csv")
    own = "id,evaluator,version,sandbox,given,outcome,label,score,explanation"
    assert ",".join(first) == f"{own},error_kind,error_message,stdout,duration_ms"
    assert (first["score"], first["error_kind"], first["stdout"]) == ("0.5", "", "said\n")
    assert (second["score"], second["error_kind"], second["error_message"]) == ("", "raised", "why")


@pytest.mark.parametrize("suffix", FORMATS)
def test_several_outputs_are_written_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    both = {"a": Score(score=1.0), "=b": Score(label="x", explanation="why")}
    write(path, result(outputs=both), FAILED, layout=Layout(("a", "=b")))
    first, second = read(path)
    if suffix == "csv":
        assert (first["a.score"], first["'=b.label"], second["a.score"]) == ("1.0", "x", "")
    else:
        assert first["outputs"]["=b"] == {"label": "x", "score": None, "explanation": "why"}
        assert second.get("outputs") is None


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_results_make_a_file_that_can_be_read(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"x.{suffix}")
    assert read(tmp_path / f"x.{suffix}") == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_half_a_surrogate_pair_does_not_stop_a_writer(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    write(path, result(label="a\ud800b", stdout="\udfff"))
    [row] = read(path)
    assert row["label"][0] + row["label"][-1] == "ab"


def test_csv_keeps_a_spreadsheet_from_running_what_a_script_said(tmp_path: Path) -> None:
    texts = ["=1+1", "+x", "-x", "@x", "\t=1", "-5", "+1.5e3", "a=1", "two\r\nlines", "a\rb"]
    write(tmp_path / "x.csv", *(result(label=t, explanation=t) for t in texts))
    labels = [row["label"] for row in read(tmp_path / "x.csv")]
    assert labels == ["'=1+1", "'+x", "'-x", "'@x", "'\\u0009=1", "-5", "+1.5e3", "a=1", "two\r\nlines", "a\rb"]


def test_several_files_are_written_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"x.{suffix}" for suffix in FORMATS]
    write_all(paths, map(result, range(7000)))
    assert [len(read(p)) for p in paths] == [7000] * 4


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_a_file_can_be_read_whenever_a_row_was_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"

    async def work() -> None:
        async with ResultsFiles([str(path)]) as files:
            await files.open(PLAIN)
            for n in range(4):
                while files.rows != {str(path): n}:  # the thread writes it by itself
                    await asyncio.sleep(0.001)
                assert [row["id"] for row in read(path)] == [f"row{i}" for i in range(1, n + 1)]
                files.add([result(n + 1)])

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_interrupted_file_holds_what_was_done(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"

    async def interrupted() -> None:
        async with ResultsFiles([str(path)]) as files:
            await files.open(PLAIN)
            files.add([result()])
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    assert len(read(path)) == 1


def test_an_existing_file_is_overwritten_but_not_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("old\n" * 1000)
    ResultsFiles([str(path)])
    assert path.read_text().startswith("old")
    write(path, result())
    assert len(read(path)) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "the suffix decides the format; end it with one of: .jsonl, .json, .csv, .parquet"),
        ("x.txt", "the suffix decides"),
        ("nowhere/x.jsonl", "there is no directory"),
        ("data.jsonl", "would overwrite what the run reads"),
        ("link.jsonl", "would overwrite what the run reads"),
        ("sub/../data.jsonl", "would overwrite what the run reads"),
    ],
)
def test_a_path_that_must_not_be_written_is_refused_first(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "sub").mkdir()
    data = tmp_path / "data.jsonl"
    data.write_text("{}")
    (tmp_path / "link.jsonl").symlink_to(data)
    with pytest.raises(OutputError, match=message):
        ResultsFiles([str(tmp_path / name)], inputs=[str(data)])
    assert data.read_text() == "{}"


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="given twice"):
        ResultsFiles([str(tmp_path / "x.csv"), str(tmp_path / "." / "x.csv")])


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OutputError, match=r"pip install 'evalcell\[parquet\]'"):
        ResultsFiles([str(tmp_path / "x.parquet")])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_what_can_not_be_cut_is_told_and_the_other_files_are_finished(tmp_path: Path, suffix: str) -> None:
    full, good = tmp_path / f"full.{suffix}", tmp_path / "good.json"
    full.symlink_to("/dev/full")
    with pytest.raises(WriteError, match=rf"full.{suffix} c.* be written .*No space left.*choose another"):
        write_all([good, full], map(result, range(1000)))
    assert isinstance(read(good), list)


FILLS = """
import asyncio, json, resource, sys
from runner.results.output.files import WriteError
from tests.engine.test_results import Path, result, write

path, most, rows = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    write(path, *(result(n, stdout="x" * (n % 50)) for n in range(rows)))
except WriteError as e:
    print(e)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
@pytest.mark.rotating("full disks", "data")
@pytest.mark.parametrize(("suffix", "rows"), [*((suffix, 400) for suffix in FORMATS[:3]), ("parquet", 12_000)])
def test_a_full_disk_leaves_whole_rows_in_a_valid_file(tmp_path: Path, suffix: str, rows: int) -> None:
    """A limit on the size of a file stands for the disk: it, too, ends a write in the middle."""
    root = Path(__file__).parents[2]
    written = []
    for most in (20_000, 20_001, 20_013) if suffix != "parquet" else (60_000,):
        path = tmp_path / f"x{most}.{suffix}"
        words = [sys.executable, "-c", FILLS, str(path), str(most), str(rows)]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=100)
        found = read(path)
        assert 10 < len(found) < rows
        assert [row["id"] for row in found] == [f"row{n}" for n in range(len(found))]
        assert done.stdout == (
            f"{path} could not be written any further (File too large); {len(found):,} whole rows are in it; "
            "make room, or choose another place, and run again\n"
        ), done.stderr
        written.append(path.stat().st_size)
    assert all(20_000 - 300 < size <= 20_013 for size in written) or suffix == "parquet"


@pytest.mark.rotating("bounds of work and memory", "data")
@pytest.mark.parametrize("suffix", FORMATS)
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, suffix: str) -> None:
    one = result(stdout="x" * 2000)

    def results() -> Iterator[Result]:
        yield one
        tracemalloc.start()
        yield from repeat(one, 12_000)

    write_all([tmp_path / f"x.{suffix}"], results())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16_000_000
