"""With the tools' own packages: what a script reads beyond the fields of its tool's objects is a column."""

from __future__ import annotations

import json
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
def test_what_is_set_for_all_rows_is_the_cases_where_the_metric_takes_no_such_argument() -> None:
    source = (
        "from deepeval.metrics import BaseMetric\n\n\nclass Plain(BaseMetric):\n    def measure(self, test_case):\n"
    )
    source += "        self.score = float(test_case.level == 1)\n        return self.score\n\n"
    source += "    def is_successful(self):\n        return True\n"
    mapping = InputMapping(literals={"level": 1})
    (result,) = runner.evaluate(
        parse_evaluator(source, "script"), [{"input": "q", "actual_output": "a"}], mapping=mapping
    ).results
    assert result.score == 1.0


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


SCORERS = """from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import Score, accuracy, scorer


@scorer(metrics=[accuracy()])
def stored():
    async def score(state, target):
        calls = [call["name"] for call in state.store.get("calls", [])]
        return Score(value=state.metadata["wanted"] in calls, explanation=",".join(calls))
    return score


@scorer(metrics=[accuracy()])
def called():
    async def score(state, target):
        said = [one for one in state.messages if isinstance(one, ChatMessageAssistant)]
        calls = [call for one in said for call in one.tool_calls or []]
        return Score(value=len(calls), explanation=f"{[one.function for one in calls]} {calls and calls[0].arguments}")
    return score


@scorer(metrics=[accuracy()])
def chosen():
    async def score(state, target):
        return Score(value=state.choices[ord(target.text) - ord("A")].value == state.output.completion)
    return score
"""


@pytest.mark.timeout(600)
def test_what_a_solver_leaves_for_a_scorer_is_a_column() -> None:
    def found(entry: str, rows: list[dict[str, Any]]) -> list[Any]:
        results = runner.evaluate(parse_evaluator(SCORERS, "script", entry=entry), rows).results
        return [(one.score, one.explanation) for one in results]

    row: dict[str, Any] = {"input": "q", "output": "4", "target": "A"}
    assert found("stored", [row | {"calls": [{"name": name}], "wanted": "a"} for name in "ab"]) == [(1, "a"), (0, "b")]
    function = {"name": "add", "arguments": '{"a": 1}'}
    chat = [
        *({"role": role, "content": "q"} for role in ("system", "user")),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "name": "add", "content": "4"},
    ]
    assert found("called", [row | {"messages": chat}, row]) == [(1, "['add'] {'a': 1}"), (0, "[] []")]
    assert [score for score, _ in found("chosen", [row | {"choices": [one, "5"]} for one in "47"])] == [1, 0]


STORES = """from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.util import StoreModel, store, store_as
from pydantic import Field


class Calls(StoreModel):
    calls: list[str] = Field(default_factory=list)


@scorer(metrics=[accuracy()])
def by_model():
    async def score(state, target):
        calls = store_as(Calls).calls
        store_as(Calls).calls = [*calls, "more"]
        return Score(value=target.text in calls, explanation=",".join(state.store_as(Calls).calls))
    return score


@scorer(metrics=[accuracy()])
def by_key():
    async def score(state, target):
        return Score(value=store().get("seen", "") == target.text, explanation=str(state.store.get("seen", "")))
    return score


@scorer(metrics=[accuracy()])
def by_text():
    async def score(state, target):
        return Score(value=state.output.completion == target.text, explanation=state.output.stop_reason)
    return score
"""


@pytest.mark.timeout(600)
def test_a_sample_of_an_inspect_log_has_its_store_and_output() -> None:
    kept: list[Any] = [{"Calls:calls": [one], "seen": one} for one in "xy"]
    kept.append({"Calls:instance": None})

    def found(entry: str, column: str = "store", as_text: bool = False) -> list[Any]:
        stores = [json.dumps(one) if as_text else one for one in kept]
        rows = [{"input": "q", "output": "a", "target": "x", column: one} for one in stores]
        mapping = None if column == "store" else InputMapping(paths={"store": column})
        results = runner.evaluate(parse_evaluator(STORES, "script", entry=entry), rows, mapping=mapping).results
        return [(one.score, one.explanation) for one in results]

    by_model = [(1, "x,more"), (0, "y,more"), (0, "more")]
    assert [found("by_model"), found("by_model", as_text=True), found("by_model", "kept")] == [by_model] * 3
    assert found("by_key") == [(1, "x"), (0, "y"), (0, "")]
    choice = {"message": {"role": "assistant", "content": "x"}, "stop_reason": "max_tokens"}
    row = {"input": "q", "target": "x", "output": {"model": "m", "choices": [choice], "completion": "x"}}
    (result,) = runner.evaluate(parse_evaluator(STORES, "script", entry="by_text"), [row]).results
    assert (result.score, result.explanation) == (1, "max_tokens")
