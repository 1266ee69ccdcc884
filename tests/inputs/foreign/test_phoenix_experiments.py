"""Evaluators of Phoenix's experiments, as arize-phoenix 8.32.1 and its client 3.5.0 judge."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError
from runner.inputs.evaluators.load import parse_evaluator

SERVER = "from phoenix.experiments.evaluators import create_evaluator\n"
CLIENT = "from phoenix.client.experiments import create_evaluator, run_experiment\n"
BODY = """
@create_evaluator(kind="CODE", name="mine")
def mine(output, expected):
    return {"1": 1, "true": True, "text": "good", "pair": (0.5, "why"), "three": (0.5, "good", "why"),
            "none": None, "dict": {"label": "good", "score": 1}, "empty": ""}[output]
"""
SAYS: dict[str, dict[str, Any]] = {
    SERVER: {
        "1": (None, 1.0, None),
        "true": ("True", 1.0, None),
        "text": ("good", None, None),
        "pair": (None, 0.5, "why"),
        "three": "Unsupported evaluation result type: <class 'tuple'>",
        "none": "Unsupported evaluation result type: <class 'NoneType'>",
        "dict": "Unsupported evaluation result type: <class 'dict'>",
        "empty": "Must specify score or label, or both",
    },
    CLIENT: {
        "1": (None, 1.0, None),
        "true": ("True", 1.0, None),
        "text": ("good", None, None),
        "pair": ("why", 0.5, None),
        "three": ("good", 0.5, "why"),
        "none": "Unsupported evaluation result type: <class 'NoneType'>",
        "dict": ("good", 1.0, None),
        "empty": (None, None, "the evaluator gave no result"),
    },
}


def run(source: str, *rows: dict[str, Any], entry: str | None = None) -> Any:
    evaluator = parse_evaluator(source, "s", "s.py", entry=entry)
    assert (evaluator.dialect, evaluator.packages) == ("phoenix", ())
    return runner.evaluate(evaluator, list(rows)).results


@pytest.mark.parametrize("package", SAYS)
def test_what_is_returned_is_read_as_by_the_package_of_that_time(package: str) -> None:
    rows = [{"output": name, "expected": {}} for name in SAYS[package]]
    for result, says in zip(run(package + BODY, *rows), SAYS[package].values(), strict=True):
        if isinstance(says, str):
            assert says in result.error.message
        else:
            assert (result.label, result.score, result.explanation) == says


ONE_KEY = """
@create_evaluator()
async def same(output, expected):
    return output == expected.get("category")
"""


@pytest.mark.parametrize(
    "row",
    [
        {"output": "a", "expected": {"category": "a"}},
        {"output": "a", "reference": {"category": "a"}},
        {"output": "a", "category": "a"},
        {"output": "a", "expected": "a"},
    ],
)
@pytest.mark.parametrize("package", SAYS)
def test_expected_is_the_reference_or_a_column_of_its_one_key(package: str, row: dict[str, Any]) -> None:
    other = {**row, "output": "b"}
    assert [one.score for one in run(package + ONE_KEY, row, other)] == [1.0, 0.0]


def test_expected_that_is_lacking_stops_before_the_run() -> None:
    with pytest.raises(ColumnsError, match="`expected` of the script is `reference` here"):
        run(SERVER + ONE_KEY, {"output": "a", "gold": "a"})


MORE = """
import phoenix as px
from phoenix.client import Client
from phoenix.experiments import run_experiment
from phoenix.experiments.evaluators.base import CodeEvaluator
from phoenix.experiments.types import EvaluationResult


class Long(CodeEvaluator):
    def evaluate(self, *, output, metadata, **kwargs):
        return EvaluationResult(score=len(output) > metadata.get("least", 1), explanation="so")


@create_evaluator(name="any")
def one(answer):
    return len(answer)


@create_evaluator(scorer=lambda value: EvaluationResult(label=value))
def question(input):
    return input["question"]


experiment = run_experiment(px.Client().get_dataset(name="d"), lambda input: input, evaluators=[one, Long()])
Client().datasets.get_dataset(dataset="d")
"""


@pytest.mark.parametrize(("entry", "says"), [("Long", [0.0, 1.0]), ("one", [1.0, 2.0]), ("question", ["who", "where"])])
def test_classes_single_parameters_and_scorers(entry: str, says: list[Any]) -> None:
    rows: list[dict[str, Any]] = [{"output": "x", "input": {"question": "who"}}, {"output": "xy", "question": "where"}]
    if entry == "question":
        found = [run(SERVER + MORE, row, entry=entry)[0].label for row in rows]
    else:
        found = [one.score for one in run(SERVER + MORE, *rows, entry=entry)]
    assert found == says


def test_parameters_that_phoenix_does_not_fill_are_refused_as_by_phoenix() -> None:
    (result,) = run(SERVER + "@create_evaluator()\ndef a(output, gold):\n    return 1\n", {"output": "x"})
    assert "Invalid parameter names in evaluation function: gold" in result.error.message
