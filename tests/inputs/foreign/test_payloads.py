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


def typed(source: str, value: Any, name: str = "output") -> Any:
    """A row's value as `ctx.output` of a script of this text, or as another of its attributes."""
    asked = asked_types(source, globals(), TypeAdapter)
    return typed_value(value, asked.get(name))


ASKS = "ctx.output.text if isinstance(ctx.output, AgentResult) else str(ctx.output)"


def test_an_object_is_of_the_class_that_a_script_asks_for() -> None:
    assert typed(ASKS, {"text": "a", "calls": []}) == AgentResult("a", [])
    assert typed("isinstance(ctx.output, (str, AgentResult))", {"text": "a", "calls": []}) == AgentResult("a", [])
    assert typed(ASKS, "plain") == "plain"


@pytest.mark.parametrize(
    "source",
    [
        ASKS,
        "isinstance(ctx.expected_output, AgentResult)",
        "seen = ctx.output\nisinstance(seen, (str, AgentResult))",
        "type(ctx.output) is AgentResult",
        "match ctx.output:\n    case AgentResult():\n        pass",
    ],
)
def test_an_output_and_what_is_expected_have_one_type(source: str) -> None:
    for name in ("output", "expected_output"):
        assert typed(source, {"text": "a", "calls": []}, name) == AgentResult("a", [])


def test_what_is_expected_may_be_of_no_class_that_an_output_is_asked_for() -> None:
    assert typed(ASKS, {"least": 1}, "expected_output") == {"least": 1}
    assert type(typed("", {"a": 1})) is type(typed("", {"b": 1}, "expected_output"))


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
