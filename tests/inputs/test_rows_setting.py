"""`rows`: a JSON file that is no array, by every entry point, and what is said of one without it."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest

from runner import compare_datasets, evaluate, parity
from runner.core.errors import DatasetError, InputError
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.rows import RowReading
from runner.runs.api.suite import evaluate_project
from tests.cli.commands import run
from tests.inputs.reading import refusal, written

SCRIPT = "def evaluate(output, reference):\n    return float(output == reference)\n"
ROWS = [{"output": "a", "reference": "a"}, {"output": "b", "reference": "c"}]
NESTED = {"version": {"a": [1, 'x]"}', {"b": [2, {}]}]}, "data": ROWS, "n": 1.5e3, "none": None, "of": [[], {}]}
QUESTIONS = {"data": [{"title": "t", "paragraphs": [{"qas": ROWS[:1]}, {"qas": ROWS[1:]}]}, {"paragraphs": []}]}
PROMPTFOO = {"evalId": "e", "results": {"version": 3, "prompts": [{"raw": "x"}], "results": ROWS, "stats": {"n": 2}}}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "place"),
    [
        (NESTED, "data"),
        (NESTED, "$.data"),
        (NESTED, "data[*]"),
        (QUESTIONS, "data[*].paragraphs[*].qas"),
        (PROMPTFOO, "results.results"),
        ([1, {"the rows": ROWS}], "$[1]['the rows']"),
        ({"q1": ROWS[0], "q2": ROWS[1]}, "*"),
    ],
)
def test_rows_at_a_place(tmp_path: Path, document: Any, place: str, indent: int | None) -> None:
    data = json.dumps(document, indent=indent)
    for name in ("d.json", "d.jsonl"):
        assert read(open_dataset(written(tmp_path, name, data), reading=RowReading(rows=place))) == ROWS
    assert read(open_dataset("-", stdin=BytesIO(data.encode()), reading=RowReading(rows=place))) == ROWS


def read(dataset: Any) -> list[dict[str, Any]]:
    with dataset:
        cases = list(dataset)
    assert [case.broken for case in cases] == [None] * len(cases)
    return [{"output": case.output, "reference": case.reference} for case in cases]


def test_what_stands_beside_may_be_long(tmp_path: Path) -> None:
    text = '\\" ] }' * 200_000
    data = json.dumps({"config": [text, {text[:1000]: [text]}], "data": ROWS})
    assert read(open_dataset(written(tmp_path, "d.json", data), reading=RowReading(rows="data"))) == ROWS
    assert "whose rows seem to be in `data`" in refusal(tmp_path / "d.json")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (NESTED, 'whose rows seem to be in `data`: give rows="data"'),
        (QUESTIONS, 'rows="data"; arrays of objects are at `data`, `data[*].paragraphs`, `data[*].paragraphs[*].qas`'),
        (PROMPTFOO, 'give rows="results.results"; arrays of objects are at `results.results`, `results.prompts`'),
        ({"the rows": ROWS}, "rows=\"['the rows']\""),
        ({"columns": ["output"], "index": [0], "data": [["a"]]}, 'orient="split"'),
        ({"output": {"0": "a"}, "reference": {"0": "a"}}, 'orient="columns"'),
        ({"output": ["a"], "reference": ["a"]}, "holds an object of columns; convert it: python -c"),
        ({"q1": ROWS[0], "q2": ROWS[1]}, 'if each is a row, give rows="*"'),
        (ROWS[0], "if it is one row, name it d.jsonl"),
        ({}, "holds an object; it must be an array of rows"),
    ],
)
def test_an_object_is_refused_with_the_place_of_its_rows(tmp_path: Path, document: Any, said: str) -> None:
    assert said in refusal(written(tmp_path, "d.json", json.dumps(document)))


@pytest.mark.parametrize(
    ("name", "data", "place", "said"),
    [
        ("d.json", json.dumps(NESTED), "dta", 'no array at rows="dta"; arrays of objects are at `data`'),
        ("d.json", json.dumps(NESTED), "n", 'no array at rows="n"'),
        ("d.csv", "output\na\n", "data", 'd.csv is a table, in which rows="data" has no meaning'),
    ],
)
def test_a_place_without_rows_is_refused(tmp_path: Path, name: str, data: str, place: str, said: str) -> None:
    with pytest.raises(DatasetError) as refused:
        open_dataset(written(tmp_path, name, data), reading=RowReading(rows=place))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ('[{"output": "a"}][{"output": "b"}]', None),
        ('[{"output": "a"}],[{"output": "b"}]', None),
        ('{"a": [{"output": 1}]}{}', "a"),
    ],
)
def test_a_second_value_ends_the_run(tmp_path: Path, data: str, place: str | None) -> None:
    with (
        open_dataset(written(tmp_path, "d.json", data), reading=RowReading(rows=place)) as dataset,
        pytest.raises(DatasetError, match=r"^d\.json: more JSON stands behind the first value, at line "),
    ):
        list(dataset)


def test_python(tmp_path: Path) -> None:
    path = written(tmp_path, "d.json", json.dumps(NESTED))
    script = written(tmp_path, "em.py", SCRIPT)
    assert [result.score for result in evaluate(script, path, rows="data").results] == [1.0, 0.0]
    assert parity(script, path, rows="data", twice=True).same == 2
    assert compare_datasets(script, path, path, rows="data", direction="maximize").pairs == 2
    with pytest.raises(InputError, match=r"names, numbers from 0 and \[\*\] alone"):
        evaluate(script, path, rows="data[?@.output]")
    with pytest.raises(InputError, match="is a place in a file"):
        evaluate(script, ROWS, rows="data")
    with pytest.raises(DatasetError, match=r"the rows seem to be in 'data'; give those: data\['data'\]"):
        evaluate(script, cast("Any", {"version": 1, "data": ROWS}))


def test_command_line_and_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "em.py", SCRIPT)
    written(tmp_path, "d.json", json.dumps(NESTED))
    refused = run("em.py", "d.json")
    assert refused.exit_code == 2
    assert "give --rows data" in " ".join(refused.stderr.split())
    done = run("em.py", "d.json", "--rows", "data", "-o", "run/", "--json")
    assert json.loads(done.stdout)["mean"] == 0.5
    assert "--rows data" in json.loads((tmp_path / "run/manifest.json").read_text())["command"]
    wrong = run("em.py", "d.json", "--rows", "..a")
    assert wrong.exit_code == 2
    assert "--rows '..a': it may have names" in wrong.stderr
    written(tmp_path, "evalcell.toml", '[run.one]\nevaluator = "em.py"\ndataset = "d.json"\nrows = "data"\n')
    assert evaluate_project("one")["one"].summary.mean == 0.5


def test_a_run_of_rows_within_a_file_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "em.py", SCRIPT)
    written(tmp_path, "d.json", json.dumps(NESTED | {"other": ROWS}))
    words = ("em.py", "d.json", "-o", "run/", "--json")
    assert run(*words, "--rows", "data", "--limit", "1").exit_code == 0
    other = run(*words, "--rows", "other", "--resume")
    assert (other.exit_code, "`dataset.place` was" in " ".join(other.stderr.split())) == (2, True)
    assert json.loads(run(*words, "--rows", "data", "--resume").stdout)["rows"] == 2
