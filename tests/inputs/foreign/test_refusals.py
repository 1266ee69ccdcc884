"""What no row has and a script reads fails the row, although the script catches the error."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

CATCHES = "def calls(run, example):\n    try:\n        return {'score': len(run.child_runs)}\n    except Exception:\n"
SCRIPTS = {
    "an attribute": CATCHES + "        return {'score': 0}\n",
    "an attribute that is awaited": "async " + CATCHES + "        return {'score': 0}\n",
    "a default": "def calls(run, example):\n    return {'score': len(getattr(run, 'child_runs', None) or [])}\n",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_attribute_of_a_run_is_a_column_or_fails_the_row(script: str) -> None:
    evaluator = parse_evaluator(SCRIPTS[script], "script")
    assert evaluator.dialect == "langsmith"
    rows: list[dict[str, Any]] = [{"output": "a"}, {"output": "a", "child_runs": [1, 2]}, {"output": "a"}]
    first, second, third = runner.evaluate(evaluator, rows).results
    assert (first.outcome, second.score, third.outcome) == ("failed", 2.0, "failed")
    assert first.error is not None
    assert "a row has no child_runs" in first.error.message
    assert "give the rows a column `child_runs`" in first.error.message


def test_a_key_of_what_is_no_object_fails_the_row() -> None:
    source = (
        "def perform_eval(run, example):\n    own = run['outputs']\n    try:\n"
        "        return {'same': own['a'] == own['b']}\n"
        "    except Exception:\n        return {'same': 0}\n"
    )
    evaluator = parse_evaluator(source, "script")
    text, whole = runner.evaluate(evaluator, [{"output": "x"}, {"output": {"a": 1, "b": 1}}]).results
    assert text.error is not None
    assert "map outputs.a" in text.error.message
    assert whole.outcome == "scored"


def test_what_a_script_itself_raises_and_catches_is_its_own() -> None:
    source = (
        "def same(run, example):\n    try:\n        return {'score': run.outputs['none'] == 1}\n"
        "    except (KeyError, AttributeError):\n        return {'score': hasattr(run, 'nothing')}\n"
    )
    (result,) = runner.evaluate(parse_evaluator(source, "script"), [{"output": {"b": 1}}]).results
    assert result.score == 0.0


@pytest.mark.parametrize(
    ("body", "refused"), [("len(trace.data) < 3", True), ("trace is None or len(trace) < 3", False)]
)
def test_a_trace_that_is_used_unasked_is_refused_before_anything_runs(body: str, refused: bool) -> None:
    source = f"from mlflow.genai import scorer\n\n\n@scorer\ndef steps(outputs, trace=None):\n    return {body}\n"
    if not refused:
        assert parse_evaluator(source, "script").dialect == "mlflow"
        return
    with pytest.raises(EvaluatorError, match="steps takes `trace`, which no row has; do without it where it is None"):
        parse_evaluator(source, "script")
