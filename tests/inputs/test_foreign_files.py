"""Files that are not what their names say: read as what they are, and said, or refused with the next step."""

from __future__ import annotations

import gzip
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.core.errors import DatasetError, NotComparableError
from runner.inputs.datasets.dataset import Dataset, open_dataset
from runner.results.compare.runs import compare_runs
from runner.runs.examples.load import read_examples
from tests.inputs.reading import refusal, written

ROWS = [{"id": "a", "output": "x"}, {"id": "b", "output": "ä"}, {"id": "c", "output": "z"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
CSV = "id,output\na,x\nb,ä\nc,z\n".encode()
OTHERS = [json.dumps(ROWS).encode(), json.dumps(ROWS, indent=2).encode()]
OBJECTS = "\n".join(json.dumps(row, indent=2) for row in ROWS).encode()
MARK = b"\xef\xbb\xbf"


def zstd(data: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    return packed


def opened(path: Path, how: str) -> Dataset:
    return open_dataset(path) if how == "file" else open_dataset("-", stdin=BytesIO(path.read_bytes()))


def outputs(dataset: Dataset) -> list[Any]:
    with dataset:
        return [case.output if case.broken is None else case.broken for case in dataset]


@pytest.mark.parametrize("how", ["file", "stdin"])
@pytest.mark.parametrize(
    ("data", "note"),
    [
        (OTHERS[0], "is one JSON array, and is read so"),
        (OTHERS[1], "is one JSON array, and is read so"),
        (MARK + b"\r\n\r\n" + OTHERS[1].replace(b"\n", b"\r\n"), "is one JSON array, and is read so"),
        (OBJECTS, "has JSON objects of several lines, and is read so"),
        (OBJECTS.replace(b"}\n{", b"},\n{"), "has JSON objects of several lines, and is read so"),
        (gzip.compress(LINES, mtime=0), "is compressed with gzip, and is read so"),
        (gzip.compress(OTHERS[1], mtime=0), "is one JSON array, and is read so"),
        (LINES.replace(b"\n", b"\r"), "end in carriage returns, and are read so"),
        (OTHERS[0].decode().encode("utf-16"), "is read as UTF-16"),
        (LINES[:30] + b"\n" + MARK + LINES[30:], "1 byte order marks within the file are left out"),
    ],
)
def test_json_lines_that_are_something_else(tmp_path: Path, data: bytes, note: str, how: str) -> None:
    if note.startswith("1 byte"):
        first, *rest = LINES.splitlines(keepends=True)
        data = first + MARK + b"".join(rest)
    dataset = opened(written(tmp_path, "rows.jsonl", data), how)
    assert outputs(dataset) == ["x", "ä", "z"]
    assert any(note in line for line in dataset.notes)
    assert dataset.total() in (3, None)


def test_json_lines_stay_json_lines(tmp_path: Path) -> None:
    for data, good in (
        (LINES, 3),
        (b'{"output": 1\n' + LINES, 3),  # a row that was cut
        (b'{"output": }\n' + LINES, 3),
        (b"[1, 2]\n" + LINES, 3),
        (b"null\n" + LINES, 3),
    ):
        dataset = open_dataset(written(tmp_path, "rows.jsonl", data))
        assert [case.broken is None for case in dataset].count(True) == good
        assert dataset.notes == []


@pytest.mark.parametrize("data", [LINES.replace(b"}\n", b"},\n"), LINES.replace(b"}\n", b"} , \r\n", 1)])
def test_json_lines_with_commas_are_refused(tmp_path: Path, data: bytes) -> None:
    assert "has a comma after each row" in refusal(written(tmp_path, "rows.jsonl", data))


def test_tables_of_text_that_are_something_else(tmp_path: Path) -> None:
    joined = CSV + MARK + CSV
    for name, data, note, rows in (
        ("d.csv", gzip.compress(CSV, mtime=0), "compressed with gzip", 3),
        ("d.csv", zstd(CSV), "compressed with zstd", 3),
        ("d.csv.gz", CSV, "is not compressed, and is read so", 3),
        ("d.csv.gz", zstd(CSV), "compressed with zstd", 3),
        ("d.csv", CSV.replace(b"\n", b"\r"), "carriage returns", 3),
        ("d.csv", joined, "the header stands 1 times more within the file", 6),
        ("d.csv", CSV + CSV, "the header stands 1 times more within the file", 6),
    ):
        dataset = open_dataset(written(tmp_path, name, data))
        assert outputs(dataset) == ["x", "ä", "z"] * (rows // 3)
        assert any(note in line for line in dataset.notes), (name, dataset.notes)


@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "d.csv", "d.tsv", "d.parquet", "d.jsonl.gz"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n", "git lfs pull --include"),
        (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "page of HTML or XML"),
        (b"\n <HTML><body></body></html>\n", "page of HTML or XML"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "page of HTML or XML"),
        (b"PK\x03\x04" + b"\0" * 26 + b"[Content_Types].xml" + b"\0" * 100, "is a spreadsheet; save it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "is a spreadsheet; save it as CSV"),
        (b"PK\x03\x04" + b"\0" * 100, "is compressed (zip)"),
        (b"BZh91AY&SY" + b"\0" * 100, "is compressed (bzip2)"),
        (b"%PDF-1.7\n", "is a PDF"),
        (b"SQLite format 3\0" + b"\0" * 100, "is an SQLite database"),
        (b"ARROW1\0\0" + b"\0" * 100, "is Arrow, whatever its name says; name it so: mv "),
    ],
)
def test_files_that_are_no_rows_are_refused_with_the_step(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    assert words in refusal(written(tmp_path, name, data))
    if name == "d.jsonl":
        with pytest.raises(DatasetError) as error:
            open_dataset("-", stdin=BytesIO(data))
        assert words.partition("; name it so")[0] in str(error.value)


def test_tables_and_texts_are_told_from_each_other(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"output": ["x"]}), tmp_path / "t.parquet")
    table = (tmp_path / "t.parquet").read_bytes()
    for name in ("d.jsonl", "d.csv", "d.json", "d.arrow", "d.csv.gz"):
        assert "is Parquet, whatever its name says; name it so: mv " in refusal(written(tmp_path, name, table))
    assert refusal(written(tmp_path, "d.parquet", LINES)).startswith("d.parquet is JSON, whatever its name says")
    assert "d.jsonl" in refusal(written(tmp_path, "d.parquet", LINES))
    for suffix in (".parquet", ".arrow"):
        assert "is text, whatever its name says; if it is CSV" in refusal(written(tmp_path, f"d{suffix}", CSV))
    assert "unpack it first" in refusal(written(tmp_path, "d.parquet", gzip.compress(table)))
    for data in (LINES, *OTHERS):
        assert "d.csv is JSON, whatever its name says" in refusal(written(tmp_path, "d.csv", data))
    assert refusal(written(tmp_path, "d.jsonl", CSV)) == (
        "d.jsonl is no JSON: it begins with 'id,output'; if it is CSV, name it as such: d.csv"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("text", [LINES.decode(), CSV.decode(), "質問,回答\n東京,大阪\n" * 9])
def test_utf16_without_a_mark_is_told(tmp_path: Path, text: str, encoding: str) -> None:
    name = "d.jsonl" if text.startswith("{") else "d.csv"
    data = text.encode(encoding)
    if encoding == "utf-32-le" and "質" in text:
        data = data[:4] + data  # whatever the guess is, it is refused
    assert "give its encoding, such as encoding=" in refusal(written(tmp_path, name, data))


def test_another_encoding_is_refused_before_the_first_row(tmp_path: Path) -> None:
    """Wherever the first of its letters is: the whole file is looked at."""
    plain = "id,output\n" + "".join(f"{n},plain\n" for n in range(50_000))
    for name, data in (
        ("d.csv", (plain + "x,Café\n").encode("cp1252")),
        ("d.jsonl", LINES.replace(b"\\u00e4", b"\xe4")),
        ("d.json", json.dumps(ROWS, ensure_ascii=False).encode("latin-1")),
    ):
        words = refusal(written(tmp_path, name, data))
        assert words.startswith(f"{name} is not UTF-8: in cp1252, line ")
        assert words.endswith('such as encoding="cp1252"')
    assert 'encoding="shift_jis"' in refusal(
        written(tmp_path, "d.csv", "id,output\na,東京、大阪。\n".encode("shift_jis"))
    )


def test_single_rows_of_another_encoding_fail_alone(tmp_path: Path) -> None:
    found = outputs(open_dataset(written(tmp_path, "d.csv", CSV + b"d,\xe4\n")))
    assert found[:3] == ["x", "ä", "z"]
    assert "not UTF-8" in found[3]


def test_worked_examples_are_looked_at_too(tmp_path: Path) -> None:
    rows = [{"output": "a", "expected": {"score": 1}}, {"output": "b", "expected": {"score": 1}}]
    for data in (json.dumps(rows, indent=1), "\n".join(json.dumps(row, indent=1) for row in rows)):
        assert len(read_examples(written(tmp_path, "cases.jsonl", data))) == 2
    with pytest.raises(DatasetError, match=r"cases\.jsonl is no JSON: it begins with 'output,expected'"):
        read_examples(written(tmp_path, "cases.jsonl", "output,expected\na,1\n"))


def test_parts_and_results_are_looked_at_too(tmp_path: Path) -> None:
    for number, data in enumerate((LINES, OTHERS[1], gzip.compress(LINES), LINES.replace(b"\n", b"\r"), OBJECTS)):
        written(tmp_path, f"rows-{number}.jsonl", data)
    script = written(tmp_path, "one.py", "def evaluate(output):\n    return 1\n")
    report = evaluate(script, str(tmp_path / "rows-*.jsonl"), output=tmp_path / "run")
    assert (report.summary.rows, report.summary.scored, report.summary.mean) == (15, 15, 1.0)
    for name in ("text-1.jsonl", "text-3.jsonl"):
        written(tmp_path, name, LINES)
    written(tmp_path, "text-2.jsonl", b'{"output": "caf\xe9"}\n')
    with pytest.raises(DatasetError, match=r"text-2.jsonl is not UTF-8: in cp1252, line 1 has .*café"):
        evaluate(script, str(tmp_path / "text-*.jsonl"), output=tmp_path / "text")
    assert not list((tmp_path / "text").glob("parts/*/results.jsonl"))  # before the first row of any part

    results = [{"id": "a", "score": 1.0}, {"id": "b", "score": 0.0}]
    whole = written(tmp_path, "whole.jsonl", "".join(json.dumps(row) + "\n" for row in results))
    array = written(tmp_path, "array.jsonl", json.dumps(results, indent=1))
    assert compare_runs(whole, array).pairs == 2
    page = written(tmp_path, "page.jsonl", "<html>no</html>")
    with pytest.raises(NotComparableError, match="page of HTML"):
        compare_runs(whole, page)
    with pytest.raises(NotComparableError, match=r"packed\.jsonl is compressed; unpack it first"):
        compare_runs(whole, written(tmp_path, "packed.jsonl", gzip.compress(whole.read_bytes())))
