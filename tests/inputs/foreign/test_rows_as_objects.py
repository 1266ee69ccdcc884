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
    nested = read('def score(doc):\n    return float(doc["input"]["q"] == doc["metadata"]["q"])\n', "score")
    row = {"input": {"q": 1}, "metadata": {"q": 1}}
    with pytest.raises(ColumnsError) as lacking:
        runner.evaluate(nested, [row])
    assert lacking.value.paths == {"doc.input": "input", "doc.metadata": "metadata"}
    assert runner.evaluate(nested, [row], mapping=InputMapping(paths=lacking.value.paths)).results[0].score == 1.0
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
        assert notes[0].endswith('if the row itself is meant, give InputMapping(paths={"row": "$.metadata"})')


def test_a_function_of_all_rows_is_told_how_it_takes_one() -> None:
    rows = [{"prediction": "a", "gold": "a"}, {"prediction": "b", "gold": "a"}]
    source = """
def total(data):
    return sum(1 for n, one in enumerate(data) if one["prediction"] == one["gold"]) / len(data)
"""
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(read(source, "total"), rows)
    step = "define `def evaluate(row): return total([row])`, or a part of that, and give "
    assert f'{step}InputMapping(paths={{"row": "$.metadata"}})' in told.value.why
    followed = read(source + "\n\ndef evaluate(row): return total([row])\n")
    mapping = InputMapping(paths={"row": "$.metadata"})
    assert [one.score for one in runner.evaluate(followed, rows, mapping=mapping).results] == [1.0, 0.0]
    listed = [{"data": [{"prediction": "a", "gold": "a"}]}]  # a row's own list
    assert [one.score for one in runner.evaluate(read(source, "total"), listed).results] == [1.0]


def test_what_goes_through_a_frame_comes_after_what_it_calls_for_a_row() -> None:
    source = """
from service.utils import evaluate


def compute_score(data):
    return data.apply(calculate_score, axis=1).mean() / data["cost"]


def calculate_score(row):
    return evaluate(row["answer"], row["ref_answer"])
"""
    with pytest.raises(EvaluatorError) as told:
        read(source)
    assert "no function `evaluate` of its own (line 2 imports one); `calculate_score(row)` likely" in str(told.value)
    with pytest.raises(EvaluatorError, match="compute_score takes a data frame of all rows as `data`"):
        read(source, "compute_score")


@pytest.mark.parametrize("line", ["import evaluate", "from evaluate import load as evaluate"])
def test_an_imported_evaluate_hides_no_scorer(line: str) -> None:
    with pytest.raises(EvaluatorError, match=r"`score\(prediction, target\)` likely scores a row: name it"):
        read(f"{line}\n\n\ndef score(prediction, target):\n    return 1.0\n")


@pytest.mark.parametrize(
    ("name", "parameters", "call"),
    [
        ("calculate_metrics", "y_true: list, y_pred: list", "[reference], [output]"),
        ("metrics", "predictions: list, references: list", "[output], [reference]"),
        ("metrics", "gold_answers: list, predictions: list", "[reference], [output]"),
        ("metrics", "others: list, predictions: list", "[reference], [output]"),
    ],
)
def test_lists_are_proposed_in_the_order_of_the_parameters(name: str, parameters: str, call: str) -> None:
    with pytest.raises(EvaluatorError) as told:
        read(f"def {name}({parameters}):\n    return 1.0\n", name)
    assert f"return {name}({call})`" in str(told.value)


def test_columns_are_proposed_by_whose_answer_they_have() -> None:
    rows = [{"text": "t", "pred_entities": ["a"], "gold_entities": ["a"]}]
    evaluator = read("def f1(e_pred, e_true):\n    return float(e_pred == e_true)\n", "f1")
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(evaluator, rows)
    assert told.value.paths == {"e_pred": "pred_entities", "e_true": "gold_entities"}
    other = read("def f1(real_tags, pred_tags):\n    return float(real_tags == pred_tags)\n", "f1")
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(other, [{"q": "x", "gold": ["a"], "pred": ["a"]}])
    assert told.value.paths == {"real_tags": "gold", "pred_tags": "pred"}
    with pytest.raises(ColumnsError) as told:  # two of them have a model's answer
        runner.evaluate(evaluator, [{"pred_a": "x", "pred_b": "x", "gold_entities": "x"}])
    assert told.value.paths["e_pred"] == "COLUMN"


def test_what_is_none_is_left_out_of_the_header_that_is_proposed() -> None:
    step = read('def step(action):\n    return {"next": None, "reward": 1.0, "done": True, "info": {}}\n', "step")
    (result,) = runner.evaluate(step, [{"action": "a"}]).results
    assert result.error is not None
    told = result.error.message
    assert "# outputs = {reward = {" in told
    assert ", and leave `next`, `info` out (`next` is None; where other rows have a number, declare it, too)" in told


def test_one_score_by_its_name_gets_a_header() -> None:
    body = 'def evaluate(output):\n    return {"accuracy": float(output == "a")}\n'
    (result,) = runner.evaluate(read(body), [{"output": "a"}]).results
    assert result.error is not None
    lines = re.findall(r"`(# [^`]*)`", result.error.message)
    assert lines[2] == '# outputs = {accuracy = {kind = "continuous"}}'
    followed = read("\n".join([*lines, body]))
    assert [one.score for one in runner.evaluate(followed, [{"output": "a"}, {"output": "b"}]).results] == [1.0, 0.0]
    typo = read('def evaluate(output):\n    return {"scroe": 1.0}\n')
    (result,) = runner.evaluate(typo, [{"output": "a"}]).results
    assert result.error is not None
    assert "(did you mean `score`?); return" in result.error.message


def test_what_is_called_after_all_rows_is_not_meant_beside_one_of_a_row() -> None:
    source = """
from langfuse import Evaluation


def _exact(*, output, expected_output, **kwargs):
    return Evaluation(name="exact", value=float(output == expected_output))


def _average(*, item_results, **kwargs):
    return Evaluation(name="average", value=float(len(item_results)))
"""
    assert read(source).entry == "_exact"
    assert not read(source, "_average").evaluates


DSPY = """
def exact(example, pred, trace=None):
    if not hasattr(pred, "answer"):
        return 0.0
    return float(pred.answer == example.answer)
"""


def test_attributes_of_two_objects_are_mapped_each() -> None:
    rows = [{"question": "q", "answer": "a", "prediction": "a"}, {"question": "q", "answer": "a", "prediction": "b"}]
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(read(DSPY, "exact"), rows)
    assert told.value.paths == {"example.answer": "COLUMN", "pred.answer": "COLUMN"}
    mapping = InputMapping(paths={"example.answer": "answer", "pred.answer": "prediction"})
    results = runner.evaluate(read(DSPY, "exact"), rows, mapping=mapping).results
    assert [one.score for one in results] == [1.0, 0.0]


def test_attributes_that_no_value_has_are_said_before_the_run() -> None:
    mapping = InputMapping(paths={"example": "answer", "pred": "prediction"})
    prepared = prepare(RunRequest(evaluator="scorer", mapping=mapping), evaluator=read(DSPY, "exact"))
    with prepared.open([{"answer": "a", "prediction": "a"}]) as cases:
        notes = cases.remarks
    assert [note.partition(" is a text in the first row, and the script asks it for ")[2] for note in notes] == [
        "`.answer`, as none has",
        "`.answer`, as none has",
    ]
