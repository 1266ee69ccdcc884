"""Scores that a script names count by their names, also in rows where there is one alone."""

from __future__ import annotations

import runner
from runner.inputs.evaluators.load import parse_evaluator

_LANGFUSE = (
    "from langfuse import Evaluation\n\ndef check(*, output, expected_output=None, **kwargs):\n"
    "    found = [Evaluation(name=k, value=float(output.get(k) == v)) for k, v in (expected_output or {}).items()]\n"
    "    return [*found, Evaluation(name='pass', value=float(all(one.value for one in found)))]\n"
)


def test_a_score_alone_in_its_row_counts_under_its_name() -> None:
    rows = [
        {"output": {"a": 1}, "expected_output": {}},
        {"output": {"a": 2}, "expected_output": {"a": 1}},
        {"output": {"a": 1}, "expected_output": {"a": 1}},
    ]
    report = runner.evaluate(parse_evaluator(_LANGFUSE, "mine", entry="check"), rows)
    figures = {name: (one.count, one.mean) for name, one in report.summary.outputs.items()}
    assert figures == {"a": (2, 0.5), "pass": (3, 2 / 3)}
