"""An `evaluate` that returns another tool's result object is read as that tool's, though a row could fill it."""

from __future__ import annotations

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

OTHERS = "\n\ndef judge(*, input, output, **kwargs):\n    return Evaluation(name='judge', value=1.0)\n"
ROWS = [{"input": "q", "output": "a", "expected_output": "a"}, {"input": "q", "output": "a", "expected_output": "b"}]
SAME = "Evaluation(name='same', value=float(output == expected_output))"
HEAD = "def evaluate(*, input, output, expected_output, **kwargs):\n"
LANGFUSE = [
    f"from langfuse import Evaluation\n\n\n{HEAD}    return {SAME}\n",
    f"from langfuse import Evaluation\n\n\n{HEAD}    return {SAME}\n{OTHERS}",
    f"from langfuse import Evaluation\n\n\n{HEAD}    scores = []\n    scores.append({SAME})\n"
    f"    return scores\n{OTHERS}",
    f"import langfuse\n\n\n{HEAD}    return langfuse.{SAME}\n",
    f"from langfuse.experiment import Evaluation as E\n\n\nasync {HEAD}    return {SAME.replace('Evaluation', 'E')}\n",
    f"{HEAD}    from langfuse import Evaluation\n    return [{SAME}]\n",
    f"from langfuse import Evaluation\n\n\ndef same(output, expected_output):\n    return {SAME}\n\n\n"
    f"{HEAD}    return [same(output, expected_output)]\n",
]


@pytest.mark.parametrize("source", LANGFUSE)
def test_evaluate_that_returns_langfuse_s_evaluation_is_langfuse_s(source: str) -> None:
    evaluator = parse_evaluator(source, "scores")
    assert (evaluator.dialect, evaluator.entry) == ("langfuse", "evaluate")
    assert parse_evaluator(source, "scores", entry="evaluate").dialect == "langfuse"
    if not evaluator.packages:
        results = runner.evaluate(evaluator, ROWS).results
        assert [one.outputs["same"].score if one.outputs else one.score for one in results] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("source", "dialect"),
    [
        (
            "from braintrust import Score\n\n\ndef evaluate(input, output, expected):\n    return Score('a', 1)\n",
            "braintrust",
        ),
        ("from langfuse import Evaluation\n\n\ndef evaluate(output, reference):\n    return 1.0\n", None),
        (
            "from langfuse import Evaluation\n\n\ndef same(output, expected_output):\n    return Evaluation(name='a', "
            "value=1)\n\n\ndef evaluate(output, reference):\n    return same(output, reference).value\n",
            None,
        ),
    ],
)
def test_only_what_returns_a_tool_s_object_is_that_tool_s(source: str, dialect: str | None) -> None:
    assert parse_evaluator(source, "scores").dialect == dialect


def test_an_object_of_a_tool_names_its_dialect() -> None:
    source = (
        "import sys, types\nmade = types.ModuleType('opik')\nclass ScoreResult:\n    pass\n"
        "ScoreResult.__module__ = 'opik.evaluation'\n\n\ndef evaluate(output):\n    return ScoreResult()\n"
    )
    (one,) = runner.evaluate(parse_evaluator(source, "scores"), [{"output": "a"}]).results
    assert one.error is not None
    assert "a value of the type opik.ScoreResult" in one.error.message
    assert 'dialect="opik"' in one.error.message


CALLED = """
from autoevals import Score
class Match:
    def __init__(self, weight=1.0): self.weight = weight
    def __call__(self, *, expected, output, **kwargs):
        return [Score(name="match", score=self.weight * (output == expected)), Score(name="half", score=0.5)]
class Plain:
    def __call__(self, *, expected, output, **kwargs): return output == expected
class Needs:
    def __init__(self, client): self.client = client
    def __call__(self, *, expected, output, **kwargs): return self.client(output)
"""


@pytest.mark.parametrize("dialect", [None, "braintrust"])
def test_class_that_is_called_is_braintrust_s_as_its_instance_is(dialect: str | None) -> None:
    evaluator = parse_evaluator(CALLED, "scores", entry="Match", dialect=dialect)
    assert (evaluator.dialect, evaluator.entry) == ("braintrust", "Match")
    results = runner.evaluate(evaluator, [{"output": "a", "expected": "a"}, {"output": "a", "expected": "b"}]).results
    assert [{name: one.score for name, one in (row.outputs or {}).items()} for row in results] == [
        {"match": 1.0, "half": 0.5},
        {"match": 0.0, "half": 0.5},
    ]
    with pytest.raises(EvaluatorError):
        parse_evaluator(CALLED, "scores", entry="Needs", dialect=dialect)
