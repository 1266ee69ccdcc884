"""A parameter with a default of nothing that a row's answer is meant for: proposed, told, and handed on."""

from __future__ import annotations

import re

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError, MappingError
from runner.core.types import InputMapping
from runner.inputs.evaluators.load import parse_evaluator

REWARD = (
    "def reward(pred_text, {0}=None, log_probs=None, *, low=0.0):\n"
    "    total = 0.5 if {0} is None else float({0} in pred_text)\n"
    "    return total + (log_probs or 0), {{'total': total}}\n"
)
ROWS = [{"question": "q", "prediction": "a 5", "answer": "5"}, {"question": "q", "prediction": "a 6", "answer": "5"}]
NAMES = ["ref_answer", "gold_text", "expected_answer", "targetText"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", ["answer", "reference", "gold"])
def test_a_named_function_s_reference_is_asked_for(name: str, column: str) -> None:
    rows = [
        {("prediction" if k == "prediction" else column if k == "answer" else k): v for k, v in r.items()} for r in ROWS
    ]
    script = parse_evaluator(REWARD.format(name), "r.py", entry="reward")
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(script, rows, mapping={"pred_text": "prediction"})
    assert told.value.paths == {name: column}
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(script, rows)
    assert told.value.paths == {"pred_text": "prediction", name: column}


@pytest.mark.parametrize("name", ["target_length", "expected_tools", "api_key", "label_map"])
def test_a_setting_is_not(name: str) -> None:
    script = parse_evaluator(REWARD.format(name).replace(", {'total': total}", ""), "r.py", entry="reward")
    report = runner.evaluate(script, ROWS, mapping={"pred_text": "prediction"})
    assert [one.score for one in report.results] == [0.5, 0.5]


@pytest.mark.parametrize("name", NAMES)
def test_one_of_our_own_is_told(name: str) -> None:
    source = (
        f"def evaluate(pred_text, {name}=None):\n    return 0.5 if {name} is None else float({name} in pred_text)\n"
    )
    script = parse_evaluator(source, "r.py")
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(script, ROWS)
    assert told.value.paths == {"pred_text": "prediction", name: "answer"}
    (note,) = runner.evaluate(script, ROWS, mapping={"pred_text": "prediction"}).notes
    assert "goes on without" in note
    assert f"`{name}`" in note
    assert "`answer`" in note


def test_a_wrapper_hands_all_on() -> None:
    source = REWARD.format("ref_answer")
    mapping = {"pred_text": "prediction", "ref_answer": "answer"}
    rows = [{**one, "log_probs": 2} for one in ROWS]
    error = runner.evaluate(parse_evaluator(source, "r.py", entry="reward"), rows, mapping=mapping).results[0].error
    assert error is not None
    assert "for all" not in error.message
    step = re.search(r"`(def evaluate[^`]+)`", error.message)
    assert step is not None
    assert step[1].startswith("def evaluate(pred_text, ref_answer, log_probs=None, low=0.0): return reward(")
    report = runner.evaluate(parse_evaluator(f"{source}\n\n{step[1]}\n", "r.py"), rows, mapping=mapping)
    assert [one.score for one in report.results] == [3, 2]
    nothing = InputMapping(paths={"pred_text": "prediction"}, literals={"ref_answer": None})
    report = runner.evaluate(parse_evaluator(f"{source}\n\n{step[1]}\n", "r.py"), rows, mapping=nothing)
    assert [one.score for one in report.results] == [2.5, 2.5]


@pytest.mark.parametrize(
    "signature",
    ["a, strict=True, ref=None", "a, /, ref=None, *, k=(1, 2)", "a, ref=None, k=LOW", "a, k=1, /, ref=None"],
)
def test_any_signature_can_be_handed_on(signature: str) -> None:
    source = f"LOW = 1\n\n\ndef reward({signature}):\n    one, two = float(ref == a), 2\n    return one, two\n"
    rows = [{"a": "x", "ref": "x"}, {"a": "x", "ref": "y"}]
    error = runner.evaluate(parse_evaluator(source, "r.py", entry="reward"), rows).results[0].error
    assert error is not None
    for step, scores in zip(re.findall(r"`(def evaluate[^`]+)`", error.message), (True, False), strict=True):
        script = parse_evaluator(f"{source}\n\n{step}\n", "r.py")
        if scores:
            assert [one.score for one in runner.evaluate(script, rows).results] == [1, 0]


SCORE = (
    "def {0}(solution_str, {1}, method='strict', score=1.0, loud=False):\n    return score * (solution_str == {1})\n"
)


def test_verl_fills_no_default_from_a_column() -> None:
    rows = [{"solution_str": "a", "ground_truth": "a", "score": 7, "method": "x", "loud": True}]
    script = parse_evaluator(SCORE.format("compute_score", "ground_truth"), "v.py")
    assert script.dialect == "verl"

    def scored(mapping: InputMapping) -> tuple[float | None, tuple[str, ...]]:
        report = runner.evaluate(script, rows, mapping=mapping)
        return report.results[0].score, report.notes

    assert scored(InputMapping()) == (1, ())
    assert scored(InputMapping(paths={"score": "score"})) == (7, ())
    assert scored(InputMapping(literals={"score": 3})) == (3, ())


def test_a_column_that_fills_a_number_is_told() -> None:
    rows = [{"solution_str": "a", "target": "a", "score": 7, "method": "x", "loud": True}]
    source = SCORE.format("score_it", "target")
    notes = runner.evaluate(parse_evaluator(source, "v.py", entry="score_it"), rows).notes
    assert [note.partition(";")[0] for note in notes] == [
        "the column `loud` is given to `loud` of score_it, which has the default False",
        "the column `score` is given to `score` of score_it, which has the default 1.0",
    ]
    given = InputMapping(literals={"score": 1.0, "loud": False})
    report = runner.evaluate(parse_evaluator(source, "v.py", entry="score_it"), rows, mapping=given)
    assert (report.notes, report.results[0].score) == ((), 1)
    ours = SCORE.format("evaluate", "target")
    assert runner.evaluate(parse_evaluator(ours, "v.py"), rows).notes == ()


SWALLOWS = """
def graded(solution_str, ground_truth):
    try:
        import json, verl
        from no_such.thing import grade
        return grade(solution_str)
    except Exception:
        return 0.0

def unused(solution_str):
    try:
        import another
    except Exception:
        return 0.0

def compute_score(solution_str, ground_truth):
    return graded(solution_str, ground_truth)
"""


def test_of_modules_that_are_not_there_those_are_told_that_the_called_function_imports() -> None:
    report = runner.evaluate(parse_evaluator(SWALLOWS, "v.py"), [{"solution_str": "a", "ground_truth": "b"}])
    assert "`verl`, `no_such` is not installed, and the script goes on without, by line 7" in report.notes[0]
    assert "another" not in str(report.notes)


CLASS = """
class Judge:
    def __init__(self, limit):
        self.limit = limit

    def graded(self, {}):
        return {}


graded = Judge(2).graded
"""


@pytest.mark.parametrize(
    ("names", "value"),
    [
        ("completions, answer, **kwargs", "[float(self.limit == 2)] * len(completions)"),
        ("solution_str, ground_truth", "float(self.limit == 2)"),
        ("prediction, gold", "float(self.limit == 2)"),
    ],
)
def test_a_method_of_a_class_that_needs_arguments_is_refused_with_the_way(names: str, value: str) -> None:
    source = CLASS.format(names, value)
    with pytest.raises(
        EvaluatorError, match=r"`Judge` needs arguments to be made: add `scorer = Judge\(limit=…\)\.graded`"
    ):
        parse_evaluator(source, "c.py", entry="Judge.graded")
    rows = [
        {"completion": "a", "answer": "a", "solution_str": "a", "ground_truth": "a", "prediction": "a", "gold": "a"}
    ]
    assert runner.evaluate(parse_evaluator(source, "c.py", entry="graded"), rows).results[0].score == 1


def test_a_class_that_takes_lists_is_told_as_functions_are() -> None:
    source = (
        "class Same:\n    @staticmethod\n    def __call__(predictions, references):\n"
        "        return sum(p == r for p, r in zip(predictions, references)) / len(predictions)\n"
    )
    for text, entry in ((source, "Same"), (f"{source}\n\nsame = Same()\n", "same")):
        with pytest.raises(EvaluatorError, match="takes lists, a value for each row"):
            parse_evaluator(text, "c.py", entry=entry)


def test_an_object_whose_functions_are_called_is_to_be_made_by_the_script() -> None:
    source = "def score(query, conn):\n    return len(conn.execute(query).fetchall())\n"
    with pytest.raises(MappingError) as told:
        runner.evaluate(parse_evaluator(source, "s.py", entry="score"), [{"sql_query": "select 1", "db_id": "x"}])
    assert not isinstance(told.value, ColumnsError)  # no mapping would do, so none is proposed
    assert "calls `conn.execute`, and no value of a row has functions: make `conn` in the script itself" in str(
        told.value
    )
    assert "`def evaluate(query): return score(query, conn)` below, and run that without `:score`" in str(told.value)
    assert "SimpleNamespace" not in str(told.value)


SETS = """
from typing import List, Optional, Set

def recall(relevant: {}, retrieved: List[str], k: int = 2) -> float:
    return len(relevant & set(retrieved[:k])) / len(relevant)
"""


@pytest.mark.parametrize("kind", ["Set[str]", "set", "'set[str]'", "Optional[Set[str]]", "frozenset"])
def test_a_set_is_told_with_what_makes_it(kind: str) -> None:
    rows = [{"relevant": ["a", "b"], "retrieved": ["a", "c"]}]
    (note,) = runner.evaluate(parse_evaluator(SETS.format(kind), "r.py", entry="recall"), rows).notes
    assert "`relevant` of recall is declared as a set, and a row has a list" in note
    step = re.search(r"`(def evaluate[^`]+)`", note)
    assert step is not None
    report = runner.evaluate(parse_evaluator(f"{SETS.format(kind)}\n\n{step[1]}\n", "r.py"), rows)
    assert (report.results[0].score, report.notes) == (0.5, ())


ALL_ROWS = """
def exact_match_score(prediction, ground_truth):
    return prediction == ground_truth

def best_of(metric, prediction, ground_truths):
    return max(metric(prediction, one) for one in ground_truths)

def evaluate(prediction, ground_truths):
    assert len(prediction) == len(ground_truths)
    total = 0
    for i, one in enumerate(prediction):
        total += best_of(exact_match_score, one, ground_truths[i])
    return total / len(prediction)
"""


def test_an_evaluate_of_all_rows_names_the_functions_of_one() -> None:
    rows = [{"prediction": "ab c", "ground_truths": ["ab c", "d"]}]
    (note,) = runner.evaluate(parse_evaluator(ALL_ROWS, "f.py"), rows).notes
    assert note.startswith("evaluate goes through `prediction`, which is a text in the first row")
    assert "FILE:exact_match_score" in note
    lists = [{"prediction": ["a", "b"], "ground_truths": [["a"], ["b"]]}]
    assert runner.evaluate(parse_evaluator(ALL_ROWS, "f.py"), lists).notes == ()
