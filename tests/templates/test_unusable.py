"""What the JSON templates make of text that is no JSON: the table of docs/templates.md, and what a fence is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from docs import catalogue
from templates.json_difference.evaluator import evaluate as json_difference
from templates.json_distance.evaluator import evaluate as json_distance
from templates.json_distance_strict.evaluator import evaluate as json_distance_strict
from templates.json_similarity.evaluator import evaluate as json_similarity
from templates.parts.json_text import find_json
from tests.templates.scoring import DENO, score

RIGHT = {"a": 1, "b": [2, 3]}
FENCED = f"```json\n{json.dumps(RIGHT)}\n```"
UNUSABLE = [
    "I cannot tell.",
    "",
    " \n",
    json.dumps(RIGHT)[:9],
    f"Here: {json.dumps(RIGHT)}.",
    f"{FENCED}\n{FENCED}",
    "{'a': 1}",
]
COMPARE: dict[str, Callable[[Any, Any], dict[str, object]]] = {
    "json-distance": json_distance,
    "json-distance-strict": lambda output, reference: json_distance_strict(reference, output),
    "json-difference": json_difference,
    "json-similarity": json_similarity,
}
BEGINNING = "| template | JSON in a fence, perhaps with prose around |"


def table() -> dict[str, list[str]]:
    """What each template gives for a fence, for unusable output, and for an unusable reference."""
    page = catalogue.PAGE.read_text("utf-8")
    lines = page[page.index(BEGINNING) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name.strip("`"): rest for name, *rest in cells}


def told(result: dict[str, object]) -> str:
    if result.get("label") != "invalid":
        return "scored"
    return "`invalid`, no score" if result["score"] is None else f"`invalid`, {result['score']:g}"


@pytest.mark.parametrize("name", COMPARE)
def test_the_table_holds(name: str) -> None:
    compare, (fence, output, reference) = COMPARE[name], table()[name]
    assert told(compare(FENCED, RIGHT)) == told(compare(f"Here:\n{FENCED}\nRight?", RIGHT)) == fence
    assert {told(compare(text, RIGHT)) for text in UNUSABLE} == {output}
    broken = [text for text in UNUSABLE if name.startswith("json-distance") or text[:1] == "{"]
    assert {told(compare(RIGHT, text)) for text in broken} == {reference}
    assert {told(compare(text, text)) for text in broken} == {reference}


def test_the_table_has_each_template_that_takes_json() -> None:
    assert table().keys() == COMPARE.keys() | {"json-schema"}


@pytest.mark.parametrize("name", ["json-difference", "json-similarity"])
def test_broken_json_scores_no_better_than_any_other_output(name: str) -> None:
    worst = COMPARE[name]({"a": None, "b": [None, None]}, RIGHT)["score"]
    assert all(COMPARE[name](text, RIGHT)["score"] == worst == 0 for text in UNUSABLE)


FENCES = [
    ("```\n1\n```", "1"),
    ("```json\n1\n2\n```", "1\n2"),
    ("\n  ~~~~ json5\t\n 1\n\t~~~~ \r\n", " 1"),
    ("```json\r\n1\r\n```", "1\r"),
    ("```\n```", ""),
    ("```\n```\n1\n```\n```", None),
    ("a\n```\n{1}\n```\nb", "{1}"),
    ("```json\n1\n````", None),
    ("````json\n1\n```", None),
    ("```json\n1\n~~~", None),
    ("``\n1\n``", None),
    ("```json {}\n1\n```", None),
    ("```json 1```", None),
    ("```", None),
    ("a\n```\n1\n```", None),
    ("```\n1\n```\na", None),
    ("\ufeff```\n1\n```", None),
    ("```\r1\r```", None),
    ("```" + " " * 200_000 + "x y\n1\n```", None),
    ("`" * 200_000 + "\n1\n```", None),
    ("\n" * 200_000 + "1", None),
]


@pytest.mark.parametrize(("text", "inside"), FENCES, ids=range(len(FENCES)))
def test_what_a_fence_is(text: str, inside: str | None) -> None:
    assert find_json(text, "fence") == (text if inside is None else inside)


def test_a_fence_is_the_same_in_typescript() -> None:
    values = [re.sub("1", str(number), text) for number, (text, _) in enumerate(FENCES, 10)]
    rows = [{"output": text, "reference": 0} for text in values]
    found = [(r.label, r.score) for r in score("json-distance-strict", DENO, rows)]
    expected = [json_distance_strict(0, text) for text in values]
    assert found == [(one.get("label"), one["score"]) for one in expected]
    assert len(set(found)) > 1
