"""With the tools' own packages: what a script reads beyond the fields of its tool's objects is a column."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.types import InputMapping
from runner.inputs.evaluators.load import parse_evaluator

SOURCES = """from deepeval.metrics import BaseMetric


def _texts(case):
    return getattr(case, "retrieval_context", None) or []


class Sources(BaseMetric):
    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case, *args, **kwargs):
        wanted = getattr(test_case, "expected_sources", None) or []
        self.score = len({*wanted} & {*_texts(test_case)}) / max(1, len(wanted))
        self.reason = f"{test_case.tags} {(test_case.additional_metadata or {}).get('level')} {test_case.name}"
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case, *args, **kwargs):
        return self.measure(test_case)

    def is_successful(self):
        return self.success
"""
ORDERS = """from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext


class Item(BaseModel):
    name: str


class Order(BaseModel):
    items: list[Item]


@dataclass
class Declared(Evaluator):
    def evaluate(self, ctx: EvaluatorContext[str, Order, dict]) -> EvaluationReason:
        same = [one.name for one in ctx.output.items] == [one.name for one in ctx.expected_output.items]
        return EvaluationReason(value=same, reason=type(ctx.output).__name__)


@dataclass
class Plain(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return any(call.tool == ctx.metadata.wanted for call in ctx.output.calls) and isinstance(ctx.output, dict)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("column", ["expected_sources", "gold_sources"])
def test_a_case_has_the_columns_that_a_metric_reads_of_it(column: str) -> None:
    row: dict[str, Any] = {"input": "q", "actual_output": "a", "retrieval_context": ["a", "b"], "tags": ["t"]}
    rows = [row | {column: wanted, "level": "hard", "name": "n"} for wanted in (["a"], ["a", "c"])]
    mapping = None if column == "expected_sources" else InputMapping(paths={"expected_sources": column})
    results = runner.evaluate(parse_evaluator(SOURCES, "script"), rows, mapping=mapping).results
    assert [(one.score, one.explanation) for one in results] == [(1.0, "['t'] hard n"), (0.5, "['t'] hard n")]


@pytest.mark.timeout(600)
def test_objects_of_a_row_are_those_that_a_task_returns() -> None:
    items = [{"name": "a"}, {"name": "b"}]
    rows = [{"output": {"items": items}, "expected_output": {"items": items[:most]}} for most in (2, 1)]
    results = runner.evaluate(parse_evaluator(ORDERS, "script", entry="Declared"), rows).results
    assert [(one.label, one.explanation) for one in results] == [("pass", "Order"), ("fail", "Order")]
    called = [{"output": {"calls": [{"tool": tool}]}, "wanted": "search"} for tool in ("search", "book")]
    called.append({"output": {"text": ""}, "wanted": "search"})
    *first, last = runner.evaluate(parse_evaluator(ORDERS, "script", entry="Plain"), called).results
    assert [one.label for one in first] == ["pass", "fail"]
    assert last.error is not None
    assert "no 'calls': there are text" in last.error.message
