"""Text files as people have them: delimiters, encodings, compression, empty cells."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner import InputError, SandboxConfig, evaluate
from runner.core.errors import DatasetError
from runner.core.types import Case
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.delimiter import sniff
from runner.inputs.datasets.rows import RowReading
from tests.inputs.reading import broken, refusal, written

ONE = SandboxConfig(backend="fake")


def read(path: Path, **how: Any) -> tuple[list[Case], list[str]]:
    with open_dataset(path, reading=RowReading(**how)) as dataset:
        return list(dataset), dataset.notes


@pytest.mark.parametrize(
    ("sample", "delimiter"),
    [
        ("id,output\n1,a\n", ","),
        ("id;output\n1;a,b\n", ";"),
        ("id\toutput\n1\ta;b,c\n", "\t"),
        ("id|output\n1|2\n", "|"),
        ("output\nhello, world; bye\n", ","),
        ('"a;b",output,c\n"1;2",x,y\n', ","),
        ("a;b,c\n1;2,3\n", ","),
        ("a;b;c,d\n1;2;3\n", ";"),
        ("output;reference\n", ";"),
        ("output;reference", ";"),
        ("", ","),
        ('id;"output\n', ";"),
        ("id;text\n1;one, two\n2;three\n", ";"),
    ],
)
def test_the_delimiter_is_found_out(sample: str, delimiter: str) -> None:
    assert sniff(sample.encode()) == delimiter


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("d.csv", "id;output;n\n1;a,b;2\n", "the columns of d.csv are separated by semicolons"),
        ("d.csv", "id\toutput\tn\n1\ta,b\t2\n", "the columns of d.csv are separated by tabs"),
        ("d.csv", "sep=;\r\nid;output;n\r\n1;a,b;2\r\n", "the columns of d.csv are separated by semicolons"),
        ("d.csv", "sep=|\nid|output|n\n1|a,b|2\n", "the columns of d.csv are separated by vertical bars"),
        ("d.tsv", "id\toutput\tn\n1\ta,b\t2\n", None),
        ("d.csv", 'id,output,n\n1,"a,b",2\n', None),
    ],
)
def test_a_delimiter_that_is_no_comma_is_said(tmp_path: Path, name: str, text: str, note: str | None) -> None:
    [case], notes = read(written(tmp_path, name, text))
    assert (case.id, case.output, case.metadata) == ("1", "a,b", {"n": "2"})
    assert notes == ([note] if note else [])
    [case], _ = read(written(tmp_path, name, text + "\n"))
    assert case.where.startswith(name)


def test_a_row_with_too_many_fields_names_the_delimiter(tmp_path: Path) -> None:
    [case, good], _ = read(written(tmp_path, "d.csv", "id;output\n1;a;b\n2;c\n"))
    assert "d.csv:2: 3 fields where the header names 2; quote texts with semicolons" in broken(case)
    assert good.output == "c"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1252", "latin-1"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d.csv", "id,output\r\n1,é\r\n"),
        ("d.jsonl", '{"id": 1, "output": "é"}\n'),
        ("d.json", '[{"id": 1, "output": "é"}]'),
        ("d.jsonl.gz", '{"id": 1, "output": "é"}\n'),
    ],
)
def test_encodings(tmp_path: Path, name: str, text: str, encoding: str) -> None:
    data = text.encode(encoding)
    path = written(tmp_path, name, gzip.compress(data) if name.endswith(".gz") else data)
    own = encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32")
    for given in (encoding, *([None] if own else [])):
        [case], notes = read(path, encoding=given)
        assert (case.id, case.output) == ("1", "é")
        assert notes == (
            [f"{name} is read as {encoding.upper()}"] if given is None and encoding in ("utf-16", "utf-32") else []
        )


def test_another_encoding_is_asked_for_by_its_option(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", "id,output\n1,é\n2,b\n".encode("cp1252"))
    assert refusal(path) == (
        "d.csv is not UTF-8: in cp1252, line 2 has '1,é'; save the file as UTF-8, or give its encoding, "
        'such as encoding="cp1252"'
    )
    [bad, good], _ = read(path, encoding="utf-8")
    assert 'or give its encoding, such as encoding="cp1252"' in broken(bad)
    assert good.output == "b"
    [first, _], _ = read(path, encoding="cp1252")
    assert first.output == "é"
    script = written(tmp_path, "s.py", "def evaluate(output):\n    return output\n")
    assert evaluate(script, path, encoding="cp1252").results[0].label == "é"
    for wrong in ("nope", "zlib", "\0"):
        with pytest.raises(InputError, match="`encoding`: "):
            evaluate(script, path, encoding=wrong)


def test_what_is_no_text_in_its_encoding_costs_its_own_row(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", b"id,output\n1,\x81\n2,\x80\n")
    [bad, good], _ = read(path, encoding="cp1252")
    assert "bytes that are no text in the file's encoding" in broken(bad)
    assert good.output == "€"
    half = "id,output\n1,a\n2,b\n".encode("utf-16") + b"x"
    cases, _ = read(written(tmp_path, "d.csv", half))
    assert [case.output for case in cases][:2] == ["a", "b"]


def test_a_table_has_no_encoding(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(DatasetError, match="no text; leave the encoding out"):
        open_dataset(written(tmp_path, "d.parquet", ""), reading=RowReading(encoding="cp1252"))


@pytest.mark.parametrize(("suffix", "data"), [(".csv", "output,n\na,1\n"), (".jsonl", '{"output": "a", "n": "1"}\n')])
@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_compressed_text_is_read_as_it_is(tmp_path: Path, suffix: str, data: str, packed: str) -> None:
    if packed == "gz":
        content = gzip.compress(data.encode())
        parts = gzip.compress(data.encode()[:5]) + gzip.compress(data.encode()[5:])
    else:
        zstandard = pytest.importorskip("zstandard")
        content = zstandard.compress(data.encode())
        parts = zstandard.compress(data.encode()[:5]) + zstandard.compress(data.encode()[5:])
    for each in (content, parts):
        [case], notes = read(written(tmp_path, f"d{suffix}.{packed}", each))
        assert (case.output, case.metadata, notes) == ("a", {"n": "1"}, [])
    with pytest.raises(DatasetError, match=r"cannot be read( on)?: "):
        read(written(tmp_path, f"d{suffix}.{packed}", content[:-6]))


FREE = 16 << 20
"""Bytes; the product allows more, and lines without a row take a while to pass over."""

BOMB = f"""
import re, sys
from runner.inputs.datasets.formats import streams
from runner.inputs.datasets.dataset import open_dataset
from runner.core.errors import DatasetError
streams.FREE = {FREE}
try:
    with open_dataset(sys.argv[1]) as dataset:
        for case in dataset: print(case.broken)
except DatasetError as error:
    print(error)
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


@pytest.mark.rotating("long tests", "data")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b" " * 65_535 + b"\n", "more than 1 MB without a row, blanks alone"),
        (b"x" * 65_536, "it expands to more than 200 times its size; if you trust it, unpack it yourself"),
    ],
)
def test_a_decompression_bomb_is_refused_in_flat_memory(tmp_path: Path, line: bytes, why: str) -> None:
    path = tmp_path / "d.jsonl.gz"
    with gzip.open(path, "wb", 6) as file:
        for _ in range(FREE // len(line) + 2048):
            file.write(line)
    assert path.stat().st_size < 1 << 20
    done = subprocess.run([sys.executable, "-c", BOMB, str(path)], capture_output=True, text=True, check=True)
    assert why in done.stdout
    assert int(done.stdout.splitlines()[-1]) < 200_000


def test_zstd_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("zstandard", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    assert refusal(written(tmp_path, "d.csv.zst", b"\x28\xb5\x2f\xfd")) == (
        'd.csv.zst: zstd needs a package: pip install "evalcell[zstd]"'
    )


@pytest.mark.rotating("long tests", "data")
def test_empty_cells_are_as_in_a_data_frame(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    path = written(tmp_path, "d.csv", 'id,output,n,metadata\na,,"",\n,x,y,"{""k"": """"}"\n')
    script = written(tmp_path, "s.py", "def evaluate(output, metadata):\n    return repr((output, metadata['n']))\n")
    labels = [result.label for result in evaluate(script, path, empty="null").results]
    assert labels == ["(None, None)", "('x', 'y')"]
    assert [result.label for result in evaluate(script, pd.read_csv(path)).results] == labels
    assert evaluate(script, path).results[0].label == "('', '')"
    assert [result.id for result in evaluate(script, path, empty="null", sandbox=ONE).results] == ["a", "2"]


@pytest.mark.rotating("long tests", "data")
@pytest.mark.parametrize("kind", ["new_file", "new_stream"])
def test_arrow_files_and_streams(tmp_path: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "d.arrow"
    table = pa.table({"id": ["a", "b"], "output": ["x", None], "n": [1, 2], "bad": [b"\xff", b""]})
    with getattr(pa.ipc, kind)(path, table.schema) as writer:
        writer.write_table(table.slice(0, 1))
        writer.write_table(table.slice(1))
    with open_dataset(path, columns={"id", "output", "n"}) as dataset:
        assert dataset.header == ("id", "output", "n", "bad")
        found = [(case.id, case.output, case.metadata) for case in dataset]
    assert found == [("a", "x", {"n": 1}), ("b", None, {"n": 2})]
    [first, _], _ = read(path)
    assert (first.output, first.metadata) == ("x", {"n": 1})
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
    if kind == "new_file":
        assert "d.arrow cannot be read as Arrow: " in refusal(path)
    else:
        *_, last = read(path)[0]
        assert "the rest of the file cannot be read" in broken(last)


def test_folders_of_hugging_face_are_converted(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    assert f'datasets.load_from_disk("{tmp_path}").to_json("{tmp_path}.jsonl")' in refusal(tmp_path)
    (tmp_path / "dataset_dict.json").write_text("{}")
    assert '["train"].to_json(' in refusal(tmp_path)
