"""Results stand alone: their ids and the columns that they carry."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner import InputMapping, MappingError, SandboxConfig, evaluate, parity
from runner.results.output.row_cells import MOST, OTHERS, Layout, layout

FAKE = SandboxConfig(backend="fake")
ROWS: list[dict[str, Any]] = [
    {"ticket": "a7", "output": "x", "question": "=1+1", "label": "L", "user": {"name": "Ann", "age": 3}},
    {"ticket": "b8", "output": "yy", "question": None, "label": "M", "tags": [1, "ä"]},
    {"ticket": "b8", "output": "zz", "label": "N"},
]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "length.py"
    path.write_text("def evaluate(output):\n    return len(output)\n")
    return str(path)


def dataset(folder: Path, rows: Sequence[dict[str, Any]] = ROWS) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def table(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist())
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(encoding="utf-8", newline="") as file:
        return [dict(row) for row in csv.DictReader(file)]


def test_an_id_is_taken_from_a_column_or_path(script: str, tmp_path: Path) -> None:
    for rows in (ROWS, dataset(tmp_path)):
        found = evaluate(script, rows, id="ticket", sandbox=FAKE).results
        assert [result.id for result in found] == ["a7", "b8", "b8#3"]
    found = evaluate(script, ROWS, id="metadata.user.age", sandbox=FAKE).results
    assert [result.id for result in found] == ["3", "2", "3#3"], "a row without one has its number"
    found = evaluate(script, [{"output": "x", "n": [1]}, {"output": "x", "n": 2}], id="n", sandbox=FAKE).results
    assert [result.error and result.error.message for result in found] == [
        "row 1: the id must be text or a number, not [1]",
        None,
    ]
    assert parity(script, ROWS, id="ticket", other=script, sandboxes=["fake"]).rows == 3


def test_the_column_id_is_one_of_many_then(tmp_path: Path) -> None:
    script = tmp_path / "ids.py"
    script.write_text("def evaluate(id, own):\n    return f'{id} {own}'\n")
    rows = [{"id": "1", "ticket": "a7"}]
    for given in (rows, dataset(tmp_path, rows)):
        report = evaluate(script, given, id="ticket", keep="all", mapping={"own": "$.metadata.id"})
        [result] = report.results
        assert (result.id, result.label, result.row) == ("a7", "a7 1", {"id": "1", "ticket": "a7"})


def test_columns_are_kept_in_each_result(script: str, tmp_path: Path) -> None:
    keep = ["question", "metadata.user.name", "$.metadata.tags[*]", "output"]
    expected = [
        {"question": "=1+1", "metadata.user.name": "Ann", "$.metadata.tags[*]": [], "output": "x"},
        {"question": None, "metadata.user.name": None, "$.metadata.tags[*]": [1, "ä"], "output": "yy"},
        {"question": None, "metadata.user.name": None, "$.metadata.tags[*]": [], "output": "zz"},
    ]
    for rows in (ROWS, dataset(tmp_path)):
        assert [result.row for result in evaluate(script, rows, keep=keep, sandbox=FAKE).results] == expected
    assert [result.row for result in evaluate(script, ROWS, keep="all", sandbox=FAKE).results] == ROWS
    assert [result.row for result in evaluate(script, ROWS, sandbox=FAKE).results] == [{}] * 3


def test_rows_that_fail_carry_theirs_too(script: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"output": "a", "n": 1}\n{"n": 2}\n{\n{"output": 3, "n": 4}\n')
    found = evaluate(script, path, keep="n").results
    assert [result.outcome for result in found] == ["scored", "failed", "failed", "failed"]
    assert [result.row for result in found] == [{"n": 1}, {"n": 2}, {"n": None}, {"n": 4}]
    assert [result.row for result in evaluate(script, path, keep="all").results][2] == {}


def test_results_files_have_them_as_columns(script: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    names = ("r.csv", "r.parquet", "r.jsonl")
    output = [tmp_path / name for name in names]
    keep = ["question", "label", "metadata.user"]
    evaluate(script, dataset(tmp_path), id="ticket", keep=keep, output=output, sandbox=FAKE)
    as_csv, as_parquet, as_jsonl = map(table, output)
    assert [*as_csv[0]][-4:] == ["duration_ms", "question", "row.label", "metadata.user"]
    assert [as_csv[0][name] for name in ("id", "question", "row.label")] == ["a7", "'=1+1", "L"]
    assert json.loads(as_csv[0]["metadata.user"]) == {"name": "Ann", "age": 3}
    assert [as_parquet[0][name] for name in ("question", "row.label", "label")] == ["=1+1", "L", as_jsonl[0]["label"]]
    assert json.loads(as_parquet[0]["metadata.user"]) == {"name": "Ann", "age": 3}
    assert as_parquet[1]["question"] is None
    assert as_jsonl[0]["row"] == {"question": "=1+1", "label": "L", "metadata.user": {"name": "Ann", "age": 3}}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_columns_of_rows_that_differ(script: str, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pyarrow")
    output = tmp_path / f"r{suffix}"
    late = [*ROWS, *[{"output": "x"}] * 120, {"output": "x", "late": [1], "later": "b"}]
    evaluate(script, dataset(tmp_path, late), keep="all", output=output, sandbox=FAKE)
    rows = table(output)
    columns = ["output", "ticket", "question", "row.label", "user", "tags", OTHERS]
    assert [*rows[0]][-len(columns) :] == columns
    assert json.loads(rows[-1][OTHERS]) == {"late": [1], "later": "b"}
    assert not rows[0][OTHERS]


def test_all_columns_of_a_file_with_a_header(script: str, tmp_path: Path) -> None:
    output = tmp_path / "r.csv"
    (tmp_path / "rows.csv").write_text("id,output,outcome,n\n1,a,b,2\n")
    evaluate(script, tmp_path / "rows.csv", keep="all", output=output, sandbox=FAKE)
    [row] = table(output)
    assert [*row][-3:] == ["output", "row.outcome", "n"]
    assert (row["outcome"], row["row.outcome"]) == ("scored", "b")


def test_only_what_is_kept_is_decoded(script: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    columns = {"output": ["a"], "n": [1], "bad": pa.array([b"\xff"]), "ticket": ["t"]}
    parquet.write_table(pa.table(columns), path)
    [result] = evaluate(script, path, keep="n", id="ticket", sandbox=FAKE).results
    assert (result.id, result.outcome, result.row) == ("t", "scored", {"n": 1})
    output = tmp_path / "r.csv"
    parquet.write_table(pa.table({"output": ["a"], "n": [1]}), path)
    evaluate(script, path, keep="all", output=output, sandbox=FAKE)
    assert [*table(output)[0]][-2:] == ["output", "n"], "the schema has all columns"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"keep": ["quesiton"]}, "has no `quesiton` to keep (did you mean `question`?); the columns are `output`, "),
        ({"id": "tiket"}, "has no `tiket` for the id (did you mean `ticket`?)"),
        ({"keep": ["user.name"]}, "has no `$.user.name` to keep (did you mean `$.metadata.user.name`?)"),
        ({"keep": ["a["]}, "keep 'a[': "),
        ({"id": "a["}, "id 'a[': "),
    ],
)
def test_what_no_row_has_is_refused_before_the_run(script: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(MappingError) as caught:
        evaluate(script, ROWS, **given)
    assert words in str(caught.value)


def test_columns_do_not_hide_those_of_results() -> None:
    odd = layout(("a", "b"), ["label", "row.label", "error", "a.score", "x", OTHERS], complete=False)
    assert odd.names() == ["row.label", "row.row.label", "row.error", "row.a.score", "x", OTHERS, f"row.{OTHERS}"]
    assert odd.cells({"x": "y", "new": 1})[-3:] == ["y", None, '{"new": 1}']
    many = layout((), [f"c{n}" for n in range(MOST + 5)], complete=True)
    assert (len(many.columns), many.others) == (MOST, True)
    assert Layout().names() == []


def test_an_id_that_is_mapped_still_binds(script: str) -> None:
    mapping = InputMapping(paths={"output": "id"})
    [result] = evaluate(script, [{"ticket": "abcd"}], id="ticket", mapping=mapping).results
    assert result.score == 4.0
