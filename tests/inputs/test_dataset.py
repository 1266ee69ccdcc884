"""Datasets, beyond the tables of docs/rules.md: formats, what is broken, and how much memory it takes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import DatasetError
from runner.inputs.datasets.dataset import Dataset, open_dataset
from runner.inputs.datasets.formats.column_values import MAX_DEPTH, MAX_ROW
from tests.inputs.reading import broken, lines, read, refusal, written

SHARED = Path(__file__).parents[3] / "shared"
ROOT = Path(__file__).parents[2]


def test_jsonl(tmp_path: Path) -> None:
    text = '\ufeff{"id": "a", "output": 1}\r\n\r\n  \t\n{"output": "é\u2028"}\nnope\n{"id": 3}'
    path = written(tmp_path, "d.JSONL", text)
    first, second, third, last = read(path)
    assert (first.id, first.output, first.number, first.where) == ("a", 1, 1, "d.JSONL:1")
    assert (second.id, second.output, second.number, second.where) == ("2", "é\u2028", 2, "d.JSONL:4")
    assert broken(third) == "d.JSONL:5: not JSON: Expecting value at column 1"
    assert (third.id, third.number) == ("3", 3)
    assert last.id == "3#4"
    assert open_dataset(path).total() == 4


def test_a_dataset_is_read_once(tmp_path: Path) -> None:
    with open_dataset(written(tmp_path, "d.jsonl", '{"output": 1}')) as dataset:
        assert len(list(dataset)) == 1
        with pytest.raises(DatasetError, match="has been read; open it again"):
            list(dataset)
        dataset.close()


def test_nothing_is_no_rows(tmp_path: Path) -> None:
    assert lines(b"") == lines(b"\n \n") == []
    assert read(written(tmp_path, "d.json", " [ ] ")) == []
    assert read(written(tmp_path, "d.csv", "id,output\n\n")) == []


@pytest.mark.parametrize("name", ["d.jsonl", "d.json"])
def test_hostile_rows_break_alone(tmp_path: Path, name: str) -> None:
    rows = {
        "nested more than 500 levels deep": '{"output": ' + "[" * 501 + "]" * 501 + "}",
        "more than 4,300 digits": '{"output": ' + "9" * 5000 + "}",
        "the number 1e99999 is too large": '{"output": [1e99999]}',
        "Infinity is not JSON": '{"output": Infinity}',
        "NaN is not JSON": '{"output": "%s", "x": NaN}' % ("[" * 100_000),
        "a row must be an object": "[]",
        "the id has 1,001 characters": '{"id": "%s"}' % ("x" * 1001),
        "the id must be text or a number": '{"id": {}}',
    }
    good = '{"output": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    texts = [text for row in rows.values() for text in (row, good)]
    path = written(tmp_path, name, "\n".join(texts) if name == "d.jsonl" else f"[{','.join(texts)}]")
    cases = read(path)
    assert len(cases) == len(texts)
    for case, message in zip(cases[::2], rows, strict=True):
        assert message in broken(case)
    assert all(case.broken is None for case in cases[1::2])


def test_a_line_without_end_is_skipped() -> None:
    long = b'{"output": "' + b"x" * (MAX_ROW + 100) + b'"}\n'
    exact = b'{"output": "' + b"x" * (MAX_ROW - 15) + b'"}\n'
    assert len(exact) == MAX_ROW
    first, second, third, last = lines(long + exact + b'\xff{"output": 1}\n' + b"[" * (2 * MAX_ROW))
    assert "longer than 8 MB" in broken(first)
    assert second.broken is None
    assert "not UTF-8 at byte 1; save the file as UTF-8" in broken(third)
    assert "longer than 8 MB" in broken(last)


def test_csv(tmp_path: Path) -> None:
    text = (
        "\ufeff\r\nid, output ,reference,note\r\n"
        'a,"one\r\ntwo","say ""x""",n\r\n'
        "\r\n"
        "b,too,few\r\n"
        "c,1,2,3,4\r\n"
        'd,"x"y,2,3\r\n'
        " , \x00,,\r\n"
    )
    first, few, many, quote, last = read(written(tmp_path, "d.csv", text))
    assert (first.output, first.reference, first.metadata) == ("one\r\ntwo", 'say "x"', {"note": "n"})
    assert first.where == "d.csv:3"
    assert broken(few) == "d.csv:6: 3 fields where the header names 4; quote texts with commas"
    assert "5 fields where the header names 4" in broken(many)
    assert "d.csv:8: not CSV: " in broken(quote)
    assert (last.id, last.output, last.reference) == ("5", " \x00", "")


def test_csv_that_is_not_utf8_breaks_by_row(tmp_path: Path) -> None:
    data = b'id,output\na,"x\n\xff\n"\nb,\xc3\x9f\n'
    first, second = read(written(tmp_path, "d.csv", data))
    assert "d.csv:2: not UTF-8" in broken(first)
    assert second.output == "ß"


def test_csv_with_an_open_quote_is_bounded(tmp_path: Path) -> None:
    short = written(tmp_path, "a.csv", 'id,output\na,1\nb,"2\nc,3\n')
    assert [case.broken is None for case in read(short)] == [True, False]
    row = "c," + "x" * 1000 + "\n"
    long = written(tmp_path, "b.csv", 'id,output\na,1\nb,"2\n' + row * (MAX_ROW // 1000 + 500))
    cases = read(long)
    assert "b.csv:3: the row is longer than 8 MB; is a quote left open?" in broken(cases[1])
    assert cases[-1].output == "x" * 1000
    field = written(tmp_path, "c.csv", "id,output\na," + "x" * (MAX_ROW + 1) + "\nb,2\n")
    assert [case.broken is None for case in read(field)] == [False, True]


def test_csv_of_very_many_columns(tmp_path: Path) -> None:
    header = ",".join(f"c{number}" for number in range(200_000))
    (case,) = read(written(tmp_path, "d.csv", f"{header}\n{',' * 199_999}\n"))
    assert len(case.metadata) == 200_000
    assert "two columns are named 'c7'" in refusal(written(tmp_path, "d.csv", f"{header},c7\n"))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "d.txt",
            "",
            "d.txt: a dataset is named .jsonl, .ndjson, .json, .csv, .tsv, .parquet, .arrow, text also",
        ),
        ("d.jsonl.bz2", "", "is compressed; unpack it first: bunzip2 -k "),
        ("d.parquet.gz", "", "d.parquet.gz: a dataset is named "),
        (
            "d.xlsx",
            "",
            "d.xlsx is a spreadsheet; save it as CSV in the program that made it, or run: python",
        ),
        ("d.feather", "", "pandas.read_feather("),
        ("d.py", "", "d.py is a script by its name; name the evaluator first"),
        ("d", "", "a dataset is named"),
        ("d.json", "", "d.json is empty; it must be an array of rows; one row a line is named .jsonl"),
        ("d.json", '{"output": 1}', "d.json holds an object; it must be an array"),
        ("d.json", "nope", "d.json does not begin with [; it must be an array"),
        ("d.csv", "", "d.csv has no header; its first line must name the columns"),
        ("d.csv", "id,output,id\n", "d.csv: two columns are named 'id'; rename one"),
        (
            "d.csv",
            "id,output".encode("utf-16-le"),
            'UTF-16; give its encoding, such as encoding="utf-16-le"',
        ),
        ("d.csv", b"id,\xff\n\xc3\x9f,1\n", "d.csv:1: the header cannot be read: not UTF-8"),
        ("d.csv", 'id,"output\n', "d.csv:1: the header cannot be read: "),
        ("d.csv", b"x" * (MAX_ROW + 2), "the header cannot be read: the row is longer than 8 MB"),
        ("d.arrow", b"ARROW1 nonsense", "d.arrow cannot be read as Arrow: "),
        ("d.jsonl.gz", b"nonsense", "d.jsonl.gz cannot be read: Not a gzipped file"),
        ("d.csv.zst", b"nonsense", "d.csv.zst cannot be read: its compressed data is damaged: "),
        ("d.parquet", b"PAR1 nonsense PAR1", "d.parquet cannot be read as Parquet: "),
        ("d.parquet", b"", "d.parquet cannot be read as Parquet: "),
    ],
)
def test_datasets_refused(tmp_path: Path, name: str, data: str | bytes, message: str) -> None:
    assert message in refusal(written(tmp_path, name, data))


def test_paths_refused(tmp_path: Path) -> None:
    written(tmp_path, "cases.jsonl", "")
    (tmp_path / "folder.jsonl").mkdir()
    assert "cases.json (did you mean `cases.jsonl`?)" in refusal(tmp_path / "cases.json")
    assert "is a folder; name a file in it" in refusal(tmp_path / "folder.jsonl")
    assert refusal(".") == ". is a folder; name a file in it"
    assert refusal("nothing-like-it.csv") == "no dataset nothing-like-it.csv; check the path"
    assert "cannot be opened" in refusal("a\0.jsonl")
    assert "no dataset" in refusal(tmp_path / "\x1b]2J\udcff.jsonl")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = lines(b'\xef\xbb\xbf{"output": 1}')
    assert case.where == "stdin:1"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DatasetError, match="closed; name a file"):
        open_dataset("-")


PIECES = st.sampled_from(
    [b'{"output": 1}', b"{", b"}", b"[", b"]", b",", b"\n", b"\r\n", b'"', b"\\", b"\xff", b"\xef\xbb\xbf", b"\x00",
     b"NaN", b"1e999", b"id,output", b'"a""b",c', b"output", b" ", b'{"id": "1", "metadata": "{}"}']
)  # fmt: skip


@pytest.mark.rotating("bounds of work and memory", "data")
@given(st.lists(PIECES, max_size=12).map(b"".join), st.sampled_from(["jsonl", "json", "csv", "parquet"]))
def test_any_file_is_cases_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    path = written(tmp_path_factory.getbasetemp(), f"any.{suffix}", data)
    cases, said = [], ""
    try:
        cases = read(path)
    except DatasetError as error:
        said = str(error)
    assert said.isprintable()
    for number, case in enumerate(cases, 1):
        assert case.number == number
        assert case.broken is None or broken(case)


PEAK = """
import resource, sys
from runner.inputs.datasets.dataset import open_dataset
with open_dataset(sys.argv[1]) as dataset:
    assert sum(1 for case in dataset) == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.rotating("bounds of work and memory", "data")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sizes are in other units")
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_memory_does_not_grow_with_rows(tmp_path: Path, suffix: str) -> None:
    peaks = []
    for count in (10_000, 150_000):
        path = tmp_path / f"{count}.{suffix}"
        rows = ({"id": f"row-{n}", "output": "x" * 20} for n in range(count))
        with path.open("w", newline="") as file:
            if suffix == "csv":
                writer = csv.DictWriter(file, ["id", "output"])
                writer.writeheader()
                writer.writerows(rows)
            elif suffix == "json":
                file.write("[" + ",\n".join(map(json.dumps, rows)) + "]")
            else:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        ran = subprocess.run(
            [sys.executable, "-c", PEAK, str(path), str(count)],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        peaks.append(int(ran.stdout))
    assert peaks[1] < peaks[0] * 1.3


def test_the_sample_datasets_are_whole() -> None:
    folder = SHARED / "cases" / "datasets"
    if not folder.is_dir():
        pytest.skip("the sample datasets are not here")
    for path in folder.glob("*.jsonl"):
        dataset: Dataset = open_dataset(path)
        cases = list(dataset)
        assert len(cases) == dataset.total() == 200
        assert {case.broken for case in cases} == {None}
        assert dataset.notes == []
