"""With the tools' own packages: what no row has and a script reads fails the row, although the script catches it."""

from __future__ import annotations

import pytest

import runner
from runner.inputs.evaluators.load import parse_evaluator
from tests.inputs.foreign.test_made_inside import INSIDE

CAUGHT = """from pydantic_evals.evaluators import Evaluator


class Caught(Evaluator):
    def evaluate(self, ctx):
        try:
            return READ
        except Exception:
            return False
"""
SCORER = """from inspect_ai.model import get_model
from inspect_ai.scorer import Score, accuracy, scorer


@scorer(metrics=[accuracy()])
def judge():
    async def score(state, target):
        try:
            return Score(value=(await get_model().generate("Is it right?")).completion == "yes")
        except Exception:
            return Score(value=0)
    return score
"""
SPANS = "a row has no spans"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (CAUGHT.replace("READ", "ctx.span_tree.any(lambda node: True)"), SPANS),
        (CAUGHT.replace("READ", "ctx.duration < 1"), "give the rows a column `duration`"),
        (CAUGHT.replace("READ", "ctx.metrics.get('tokens', 0) < 5"), "give the rows a column `metrics`"),
        (CAUGHT.replace("READ", "'a' in ctx.attributes"), "give the rows a column `attributes`"),
        (SCORER, "no model is set"),
    ],
)
def test_what_no_row_has_fails_the_row(source: str, says: str) -> None:
    (result,) = runner.evaluate(parse_evaluator(source, "script"), [{"input": "q", "output": "a"}]).results
    assert result.outcome == "failed"
    assert result.error is not None
    assert says in result.error.message


@pytest.mark.timeout(600)
def test_what_was_measured_is_a_column() -> None:
    source = CAUGHT.replace("READ", "ctx.duration < 1 and ctx.metrics['tokens'] < 5")
    rows = [{"output": "a", "duration": seconds, "metrics": {"tokens": 3}} for seconds in (0.5, 2)]
    assert [one.score for one in runner.evaluate(parse_evaluator(source, "script"), rows).results] == [1.0, 0.0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("dialect", INSIDE)
def test_what_a_function_of_the_script_makes_scores_rows(dialect: str) -> None:
    source = INSIDE[dialect][0] + "\n\nmetric = make('9')\n"
    rows = [{"output": "[1] 9", "source": "s"}, {"output": "a longer text", "source": "s"}]
    results = runner.evaluate(parse_evaluator(source, "script"), rows).results
    assert [one.outcome for one in results] == ["scored"] * 2, [one.error for one in results]
    first, second = ((one.label, one.score) for one in results)
    assert first != second
