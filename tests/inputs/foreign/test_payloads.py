"""Rows with the objects that a tool hands over: OpenAI's sample and item, and what a task of pydantic-evals returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter

import runner
from runner.core.errors import ColumnsError
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.guest.foreign.pydantic_evals import asked_types, typed_value

GRADER = """
def grade(sample, item):
    if item.get("task") != "web":
        raise ValueError("the wrong task")
    tools = [one["function"]["name"] for one in sample["output_tools"]]
    return float(tools == item["expected_tools"] and sample["output_text"] == "done")
"""


def test_a_sample_and_an_item_of_openai_are_handed_over_as_they_are() -> None:
    script = parse_evaluator(GRADER, "grader", "grader.py")
    tool = {"type": "function", "function": {"name": "find", "arguments": "{}"}}
    rows = [
        {"sample": {"output_text": "done", "output_tools": [tool]}, "item": {"task": "web", "expected_tools": names}}
        for names in (["find"], ["buy"])
    ]
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(script, rows)
    paths = dict(caught.value.paths)
    for _ in range(2):  # as many runs as a new user makes
        try:
            report = runner.evaluate(script, rows, mapping=paths)
            break
        except ColumnsError as error:
            paths |= error.paths
    assert [one.score for one in report.results] == [1, 0]
    assert not any("COLUMN" in path for path in paths.values())


def test_an_object_named_item_beside_other_columns_stays_in_the_item() -> None:
    script = parse_evaluator(
        "def grade(sample, item):\n    return float(item['item']['price'] == item.get('price') == item['wanted'])\n",
        "grader",
        "grader.py",
    )
    report = runner.evaluate(script, [{"output": "a", "item": {"price": 3}, "wanted": 3}])
    assert report.results[0].score == 1


@dataclass
class AgentResult:
    text: str
    calls: list[dict[str, Any]]


def typed(source: str, value: Any) -> Any:
    """A row's value as `ctx.output` of a script of this text."""
    asked = asked_types(source, globals(), TypeAdapter)
    return typed_value(value, asked.get("output"))


ASKS = "ctx.output.text if isinstance(ctx.output, AgentResult) else str(ctx.output)"


def test_an_object_is_of_the_class_that_a_script_asks_for() -> None:
    assert typed(ASKS, {"text": "a", "calls": []}) == AgentResult("a", [])
    assert typed("isinstance(ctx.output, (str, AgentResult))", {"text": "a", "calls": []}) == AgentResult("a", [])
    assert typed(ASKS, "plain") == "plain"


def test_an_object_that_cannot_be_of_it_says_so() -> None:
    with pytest.raises(
        TypeError,
        match=r"whether ctx\.output is AgentResult, and the row has an object of text, which is "
        r"none; AgentResult has text, calls",
    ):
        typed(ASKS, {"text": "a"})
    kept = typed("isinstance(ctx.output, (dict, AgentResult))", {"text": "a"})
    assert kept["text"] == "a"
    assert not isinstance(kept, AgentResult)
