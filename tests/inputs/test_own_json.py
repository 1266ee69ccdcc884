"""A column that the script itself reads as JSON is not proposed to be read as such."""

from __future__ import annotations

import pytest

import runner
from runner.inputs.evaluators.load import parse_evaluator

ROWS = {column: [{"output": "a", column: '["a"]'}] for column in ("expected_output", "gold")}
HEAD = "import json\n\n\n"
OWN = {
    "a key": "def get_assert(output, context):\n    return output in json.loads(context['vars']['expected_output'])\n",
    "a name": (
        "def get_assert(output, context):\n    gold = context['vars'].get('expected_output', '[]')\n"
        "    return output in json.loads(gold)\n"
    ),
    "a function": (
        "def read(text):\n    return json.loads(text)\n\n\n"
        "def get_assert(output, context):\n    return output in read(context['vars']['expected_output'])\n"
    ),
    "a parameter": "def evaluate(output, gold):\n    return float(output in json.loads(gold))\n",
}


@pytest.mark.parametrize("script", OWN)
def test_no_note_proposes_what_the_script_does(script: str) -> None:
    rows = ROWS["gold" if script == "a parameter" else "expected_output"]
    report = runner.evaluate(parse_evaluator(HEAD + OWN[script], "script"), rows)
    assert [one.score for one in report.results] == [1.0]
    assert not report.notes


def test_a_script_that_reads_other_json_is_told_so() -> None:
    source = HEAD + "def evaluate(output, gold):\n    json.loads('1')\n    return float(output in gold)\n"
    (note,) = runner.evaluate(parse_evaluator(source, "script"), ROWS["gold"]).notes
    assert "looks like JSON lists" in note
