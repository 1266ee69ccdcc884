"""Functions of no tool that take the whole row, or a part of it, as an object."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import runner
from runner.cli.main import cli
from runner.core.errors import ColumnsError, EvaluatorError
from runner.core.types import Evaluator, InputMapping
from runner.engine.request import RunRequest, prepare
from runner.engine.scoring.label_notes import label_notes
from runner.inputs.evaluators.load import parse_evaluator

WHOLE = """
def same(left, right):
    return float(left.strip() == right.strip())


def judge_it(row, tokenizer=None):
    return same(row["answer"], row.get("parsed", row["response"]))
"""
PARTS = """
def gold(ex):
    return ex["gold"]


def score(example):
    own = example
    right = float(own["output"] == gold(example))
    if "weight" in own:
        right *= own["weight"]
    return right + own.get("bonus", 0)
"""
WHOLES = [
    {"question": "q", "answer": "a", "response": "a"},
    {"question": "q", "answer": "a", "response": "b"},
    {"question": "q", "answer": "a", "response": "b", "parsed": "a"},
]
PARTED = [
    {"output": "a", "answer": "a"},
    {"output": "b", "answer": "a", "bonus": 2},
    {"output": "a", "answer": "a", "weight": 0.5},
]
CASES = [
    pytest.param(WHOLE, "judge_it", WHOLES, {"row": "$.metadata"}, [1.0, 0.0, 1.0], id="whole"),
    pytest.param(
        PARTS,
        "score",
        PARTED,
        {
            "example.output": "output",
            "example.weight": "weight",
            "example.bonus": "bonus",
            "example.gold": "answer",
        },
        [1.0, 2.0, 0.5],
        id="parts",
    ),
]


def read(text: str, entry: str | None = None) -> Evaluator:
    return parse_evaluator(text, "scorer", "scorer.py", entry=entry)


@pytest.mark.parametrize(("source", "name", "rows", "paths", "scores"), CASES)
def test_what_makes_the_object_is_proposed_and_right(
    source: str, name: str, rows: list[dict[str, Any]], paths: dict[str, str], scores: list[float]
) -> None:
    with pytest.raises(EvaluatorError, match=rf"`{name}\(\w+\)`.*such as|`{name}\(\w+\)` likely scores a row") as told:
        read(source)
    assert f"scorer.py:{name}" in str(told.value)
    evaluator = read(source, name)
    with pytest.raises(ColumnsError) as lacking:
        runner.evaluate(evaluator, rows)
    assert lacking.value.paths == paths
    results = runner.evaluate(evaluator, rows, mapping=InputMapping(paths=paths)).results
    assert [one.score for one in results] == scores
    renamed = read(re.sub(rf"def {name}\b", "def evaluate", source))
    with pytest.raises(ColumnsError) as lacking:
        runner.evaluate(renamed, rows)
    assert lacking.value.paths == paths


def test_the_printed_command_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.py").write_text(PARTS)
    Path("s.csv").write_text("output,answer\na,a\nb,a\n")
    told = CliRunner().invoke(cli, ["run", "s.py:score", "s.csv"])
    assert told.exit_code == 2
    assert "; the script reads `output`, `weight`, `bonus`, `gold` of `example`" in told.output
    command = shlex.split(told.output.strip().splitlines()[-1])
    ran = CliRunner().invoke(cli, [*command[1:], "--json"])
    assert ran.exit_code == 0, ran.output
    assert '"mean": 0.5' in ran.stdout


def test_a_key_that_nothing_is_like_is_left_to_the_caller() -> None:
    evaluator = read('def score(doc):\n    return float(doc["response"] == doc["zzz"])\n', "score")
    with pytest.raises(ColumnsError) as lacking:
        runner.evaluate(evaluator, [{"response": "a", "id": "1"}])
    assert lacking.value.paths == {"doc.response": "response", "doc.zzz": "COLUMN"}
    strange = read('def score(doc):\n    return float(doc["yyy"] == doc["zzz"])\n', "score")
    with pytest.raises(ColumnsError) as lacking:
        runner.evaluate(strange, [{"one": "a", "two": "b"}])
    assert lacking.value.paths == {"doc": "COLUMN"}


def test_a_key_that_the_script_needs_fails_the_rows_without_it() -> None:
    evaluator = read('def score(row):\n    return float(row["output"] == row["gold"])\n', "score")
    mapping = InputMapping(paths={"row.output": "output", "row.gold": "gold"})
    rows = [{"output": "a", "gold": "a"}, {"output": "a"}]
    first, second = runner.evaluate(evaluator, rows, mapping=mapping).results
    assert first.score == 1.0
    assert second.error is not None
    assert second.error.kind == "mapping"
    assert "no column `gold`" in second.error.message


SWALLOWS = """
def score(row):
    try:
        return 1.0 if row["answer"] == row["response"] else 0.0
    except Exception:
        return 0.0
"""
TEXTS = """
def last(string):
    return string.rfind("x")


def equal(left, right):
    try:
        return last(left) == last(right)
    except Exception:
        return left == right
"""
LOOKS = """
import json


def score(row):
    if isinstance(row, str):
        row = json.loads(row)
    return float(row["answer"] == "a")
"""


@pytest.mark.parametrize(
    ("source", "entry", "paths", "told"),
    [
        (SWALLOWS, "score", {"row": "response"}, '`row` is a text in the first row, and the script asks it for `["ans'),
        (TEXTS, "equal", {"left": "response", "right": "nested"}, "`right` is an object in the first row, and the"),
        (TEXTS, "equal", {"left": "several", "right": "response"}, "`left` is a list in the first row, and the script"),
        (SWALLOWS, "score", {"row": "$.metadata"}, None),
        (TEXTS, "equal", {"left": "response", "right": "answer"}, None),
        (LOOKS, "score", {"row": "response"}, None),
    ],
)
def test_a_value_of_another_kind_than_the_script_uses_is_said(
    source: str, entry: str, paths: dict[str, str], told: str | None
) -> None:
    row = {"answer": "a", "response": '{"answer": "a"}', "nested": {"truth": "a"}, "several": ["a"]}
    request = RunRequest(evaluator="scorer", mapping=InputMapping(paths=paths))
    prepared = prepare(request, evaluator=read(source, entry))
    with prepared.open([row]) as cases:
        notes = cases.remarks
    assert [note[: len(told or "")] for note in notes] == ([] if told is None else [told])
    if source == SWALLOWS and told:
        assert notes[0].endswith("if the row itself is meant, give InputMapping(paths={'row': '$.metadata'})")


@pytest.mark.parametrize(("value", "label"), [("False", "False"), ('"wrong"', "wrong"), ('{"label": "bad"}', "bad")])
def test_labels_that_may_all_be_hidden_errors_are_said(value: str, label: str) -> None:
    source = f"""
def evaluate(output):
    try:
        return "right" if output["x"] else True
    except Exception:
        return {value}
"""
    evaluator = read(source)
    summary = runner.evaluate(evaluator, [{"output": "1"}, {"output": "2"}]).summary
    (note,) = label_notes(summary, evaluator)
    assert note.startswith(f"every label is {label}, which line 6 of scorer gives in place of an error")
    mixed = runner.evaluate(evaluator, [{"output": "1"}, {"output": {"x": 1}}]).summary
    assert not list(label_notes(mixed, evaluator))
