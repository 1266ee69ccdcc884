"""What an audit finds in graders of the shapes that tools publish, each in our own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner import Audit, audit
from runner.core.types import Evaluator, InputMapping
from runner.inputs.evaluators.inline import read_inline
from runner.inputs.evaluators.load import parse_evaluator

WORDS = ["red", "green", "blue", "grey", "pink", "teal", "plum", "gold", "lime", "navy"]
NUMBERED = [
    {"input": "q", "output": f"{w} {n}", "reference": f"{w} {n if n % 3 else n + 4}"} for n, w in enumerate(WORDS, 20)
]
BOXED = [{"input": "q", "output": f"so \\boxed{{{w}}}" if n % 4 else w, "solution": w} for n, w in enumerate(WORDS)]
NESTED = [{"output": {"said": row["output"], "n": 1}, "reference": {"meant": row["reference"]}} for row in NUMBERED]
JSON = [
    {"output": json.dumps({"name": w, "n": n + (n % 3 == 1)}), "reference": json.dumps({"name": w, "n": n})}
    for n, w in enumerate(WORDS)
]
STEPS = [{"output": {"error": None if n % 3 else "no table", "rows": [n]}} for n in range(10)]
SIZED = [{"output": " ".join(f"{w}{n}" for w in WORDS[:n]), "size": n} for n in range(1, 10)]
SIZED = [row | {"reference": row["output"]} for row in SIZED]
SUMMARIES = [{"output": row["output"], "summary": row["output"][: 4 + n]} for n, row in enumerate(NUMBERED)]
LEVELS = [row | {"level": "long" if n % 2 else "short"} for n, row in enumerate(NUMBERED)]


def grader(source: str, dialect: str) -> Evaluator:
    if "return" not in source:
        return read_inline(source, dialect=dialect)
    return parse_evaluator(source, "published", dialect=dialect)


def ids(found: Audit) -> set[str]:
    assert found.no_verdict is None
    return {one.id for one in found.findings}


HOLDS = "def holds(*, input, output, expected_output=None, **kwargs):\n    return {'name': 'holds', 'value': "
LONG = """
def long(*, output, metadata, **kwargs):
    return {"name": "long", "value": len(output) >= {"short": 4, "long": 8}[metadata["level"]]}
"""
ITEM = "(sample, item):\n    return float("
SIZE = """
def size(*, output, metadata, **kwargs):
    return {"name": "size", "value": len(output.split()) == metadata["size"]}
"""
PAIRS = "(outputs, reference_outputs):\n    return "
IN_A_BOX = r"""
import re

def reward(completions, solution, **kwargs):
    every = [re.search(r"boxed\{(.*?)\}", one) for one in completions]
    return [float(bool(one) and one[1] == right) for one, right in zip(every, solution)]
"""


@pytest.mark.parametrize(
    ("dialect", "source", "rows", "mapping", "finds"),
    [
        # A reference that is looked for in the output is in more numbers than its own.
        ("langfuse", HOLDS + "float(expected_output in output)}\n", NUMBERED, {}, {"changed.digit"}),
        ("langfuse", HOLDS + "float(output in expected_output)}\n", NUMBERED, {}, {"wrong.empty"}),
        ("promptfoo", "context['vars']['solution'] in output", BOXED, {"reference": "solution"}, {"changed.longer"}),
        # The tool prescribes the parameters; nothing reads the reference.
        ("langfuse", HOLDS + "len(output)}\n", NUMBERED, {}, set()),
        # A changed column that the script fails on proves nothing.
        ("langfuse", LONG, LEVELS, {}, set()),
        # The size that a row asks for is judged alone, and that of other rows is another.
        ("langfuse", SIZE, SIZED, {}, set()),
        # Outputs and references are objects of other keys.
        ("langsmith", f"def same{PAIRS}outputs['said'] == reference_outputs['meant']\n", NESTED, {}, set()),
        # No row has a reference, as nothing reads one.
        ("braintrust", "async def no_error(output):\n    return output['error'] is None\n", STEPS, {}, set()),
        ("langsmith", f"def rate{PAIRS}0.8\n", NESTED, {}, {"discrimination"}),
        ("langsmith", f"def kind{PAIRS}'english'\n", NESTED, {}, {"discrimination"}),
        # Another column is judged than the output: map that.
        ("openai", f"def grade{ITEM}'7' in item['summary'])\n", SUMMARIES, {}, {"discrimination"}),
        ("openai", f"def grade{ITEM}'7' in item['summary'])\n", SUMMARIES, {"output": "summary"}, set()),
        # A format is wanted, and outputs show it.
        ("trl", IN_A_BOX, BOXED, {"reference": "solution"}, set()),
    ],
)
def test_a_grader_of_another_tool(
    dialect: str, source: str, rows: Any, mapping: dict[str, str], finds: set[str]
) -> None:
    found = audit(grader(source, dialect), rows, mapping=InputMapping(paths=mapping), mutants=0)
    assert ids(found) >= finds if finds else ids(found) == finds


def test_a_distance_without_a_direction_is_read_by_its_right_answers() -> None:
    source = """
import json

def evaluate(output, reference):
    got, want = json.loads(output), json.loads(reference)
    if not isinstance(got, dict):
        return {"label": "invalid", "score": None, "explanation": "no object"}
    return float(sum(got.get(key) != want[key] for key in want))
"""
    found = audit(parse_evaluator(source, "distance"), JSON, mutants=0)
    assert found.lower_taken
    assert not {"right", "damage"} & ids(found)


def test_what_another_output_judges_is_seen() -> None:
    source = f"def parts{PAIRS}[{{'key': k, 'score': outputs.get(k) == reference_outputs[k]}} for k in ('a', 'b')]\n"
    rows = [
        {"output": {"a": n % 2 == 0, "b": n % 3 == 0}, "reference": {"a": n % 2 == 0, "b": n % 4 != 0}}
        for n in range(10)
    ]
    assert ids(audit(grader(source, "langsmith"), rows, mutants=0)) == set()
