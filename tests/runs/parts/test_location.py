"""Datasets behind URLs: read as files are, with the environment's credentials, which no script sees."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from runner.core.errors import DatasetError
from runner.inputs.datasets import location
from runner.inputs.datasets.location import find_files, is_pattern, is_url, open_url
from tests.cli.commands import evalcell
from tests.runs.parts import s3
from tests.runs.parts.conftest import results, rows, write
from tests.skips import need

needs_s3 = pytest.mark.skipif(find_spec("s3fs") is None, reason="s3fs is not installed")


@pytest.fixture
def bucket() -> Iterator[s3.Server]:
    with s3.in_environment() as server:
        yield server


def put(server: s3.Server, *names: str) -> None:
    for name in names:
        server.objects[f"data/{name}"] = Path(name).read_bytes()


@needs_s3
@pytest.mark.rotating("urls", "parts")
def test_one_object_of_each_kind_is_read_as_its_file(here: Path, bucket: s3.Server) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = rows(0, 30)
    write("x.jsonl", made)
    Path("x.jsonl.gz").write_bytes(gzip.compress(Path("x.jsonl").read_bytes()))
    pq.write_table(pa.Table.from_pylist(made), "x.parquet", row_group_size=7)
    put(bucket, "x.jsonl", "x.jsonl.gz", "x.parquet")
    found = {}
    for name in ("x.jsonl", "s3://data/x.jsonl", "s3://data/x.jsonl.gz", "s3://data/x.parquet"):
        folder = name.rpartition("/")[2].replace(".", "-") + ("-far" if is_url(name) else "")
        done = evalcell("run", "noisy.py", name, "-j", "1", "--seed", "3", "-o", f"{folder}/")
        assert done.exit_code == 0, (name, done.output)
        found[name] = results(folder)
    assert found["s3://data/x.jsonl"] == found["x.jsonl"] == found["s3://data/x.jsonl.gz"]
    assert found["s3://data/x.parquet"] == found["x.jsonl"]
    words = ("run", "noisy.py", "s3://data/x.jsonl", "-j", "1", "--seed", "3", "-o", "x-jsonl-far/", "--resume")
    assert evalcell(*words).exit_code == 0
    bucket.objects["data/x.jsonl"] += b'{"output": "more"}\n'
    changed = evalcell(*words)
    assert changed.exit_code == 2
    assert "the dataset has another content" in changed.stderr


@needs_s3
@pytest.mark.rotating("urls", "parts")
def test_objects_are_one_dataset_in_parts(here: Path, bucket: s3.Server) -> None:
    """The list has several pages, and what else is in the bucket is not in it."""
    files = []
    for number in range(5):
        write(f"rows-{number}.jsonl", rows(number * 20, 25))
        files.append(f"rows-{number}.jsonl")
    put(bucket, *files)
    bucket.objects |= {"data/rows-9.jsonl.bak": b"x", "data/rows-8/y.jsonl": b"x", "data/a.jsonl": b"x"}
    options = ("-j", "1", "--seed", "3", "--worst", "0")
    for dataset, folder in (("rows-*.jsonl", "near"), ("s3://data/rows-*.jsonl", "far")):
        done = evalcell("run", "noisy.py", dataset, *options, "-o", f"{folder}/")
        assert done.exit_code == 0, done.output
    assert results("far") == results("near")
    assert len(results("far")) == 125
    assert any("prefix=rows-" in one for one in bucket.asked)
    assert s3.SECRET not in "".join(path.read_text() for path in Path("far").rglob("*.*") if path.is_file())


SPY = "import os\ndef evaluate(output):\n    return {'score': 1, 'explanation': repr(dict(os.environ))}\n"


@needs_s3
@pytest.mark.parametrize("sandbox", ["wasm", pytest.param("process", marks=pytest.mark.rotating("urls", "parts"))])
def test_no_script_sees_the_credentials(here: Path, bucket: s3.Server, sandbox: str) -> None:
    if sandbox == "process":
        need("process")
    write("x.jsonl", [{"output": "a"}])
    put(bucket, "x.jsonl")
    Path("spy.py").write_text(SPY)
    done = evalcell("run", "spy.py", "s3://data/x.jsonl", "-j", "1", "--sandbox", sandbox, "-o", "x.json")
    assert done.exit_code == 0, done.output
    seen = json.loads(Path("x.json").read_text())[0]["explanation"]
    assert "AWS" not in seen
    assert s3.SECRET not in seen


@needs_s3
@pytest.mark.rotating("urls that are refused", "parts")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://data/none.jsonl", "no dataset s3://data/none.jsonl; check the URL"),
        ("s3://data/none-*.jsonl", "no file matches s3://data/none-*.jsonl"),
        ("s3://data/*/x.jsonl", "only the last part of a URL may be a pattern"),
        ("s3://key:word@data/x.jsonl", "a URL with a password in it is refused"),
        ("ftp://data/x.jsonl", "read from s3:// and gs://, and not from ftp://"),
        ("s3://data/x.xlsx", "a dataset is named .jsonl"),
    ],
)
def test_what_cannot_be_read_is_refused(here: Path, bucket: s3.Server, url: str, said: str) -> None:
    done = evalcell("run", "noisy.py", url, "-j", "1", "-o", "out/")
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "word@" not in done.output


@needs_s3
def test_wrong_credentials_and_too_many_files(here: Path, bucket: s3.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write("x.jsonl", [{"output": "a"}])
    put(bucket, "x.jsonl")
    for number in range(5):
        bucket.objects[f"data/rows-{number}.jsonl"] = b'{"output": "a"}\n'
    monkeypatch.setattr(location, "MOST_FILES", 4)
    with pytest.raises(DatasetError, match="matches more than 4 files"):
        find_files("s3://data/rows-*.jsonl")
    import fsspec

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(DatasetError, match="may not be read with the credentials"):
        open_url("s3://data/x.jsonl")


def test_names_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a[1].jsonl").write_text("")
    assert not is_pattern("a[1].jsonl")  # a file of that very name
    assert is_pattern("a[2].jsonl")
    assert is_pattern("s3://b/*.csv")
    assert not is_url("C:/x.csv")


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "find_spec", lambda name: None if name == "gcsfs" else find_spec(name))
    with pytest.raises(DatasetError, match=r"pip install 'evalcell\[remote\]'"):
        open_url("gs://b/x.csv")


@needs_s3
def test_of_many_objects_only_those_that_match_are_kept(bucket: s3.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        bucket.objects[f"data/rows-{number}.bak"] = b""
    bucket.objects["data/rows-9.jsonl"] = b"{}\n"
    assert [file.path for file in find_files("s3://data/*.jsonl")] == ["s3://data/rows-9.jsonl"]
    monkeypatch.setattr(location, "MOST_LISTED", 4)
    before = len(bucket.asked)
    with pytest.raises(DatasetError, match="more than 4 objects begin with rows- there"):
        find_files("s3://data/rows-*.jsonl")
    assert len(bucket.asked) - before == 2, "pages of 3: the third is not asked for"


def test_pages_without_objects_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        pages = 0

        def split_path(self, path: str) -> tuple[str, str, None]:
            bucket, _, key = path.removeprefix("s3://").partition("/")
            return bucket, key, None

        def call_s3(self, method: str, **asked: str) -> dict[str, object]:
            self.pages += 1
            folders = {"CommonPrefixes": [{"Prefix": "x/"}] * 600} if self.pages % 2 else {}
            return {"IsTruncated": True, "NextContinuationToken": "same", **folders}

    system = Endless()
    monkeypatch.setattr(location, "_system", lambda url: system)
    monkeypatch.setattr(location, "MOST_LISTED", 5000)
    with pytest.raises(DatasetError, match="more than 5,000 objects"):
        find_files("s3://data/rows-*.jsonl")
    assert system.pages == 7
