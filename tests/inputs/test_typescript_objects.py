"""Keys that TypeScript functions read of an object that they hand on in another one, or by another name."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError
from runner.core.types import InputMapping
from runner.inputs.evaluators.load import parse_evaluator

ROWS: list[dict[str, Any]] = [
    {"id": "1", "words": ["x", "y"], "most": 10, "response": "x alone"},
    {"id": "2", "words": ["x"], "most": 10, "response": "nothing"},
]
HELPERS = {
    "a destructured name": ("found({ evalCase, response })", "({ evalCase, response })", "evalCase.words"),
    "another name": ("found({ evalCase, response })", "({ evalCase: c, response })", "c.words"),
    "another key": ("found({ one: evalCase, response })", "({ one, response })", "one.words"),
    "a part of the pattern": ("found({ evalCase, response })", "({ evalCase: { words }, response })", "words"),
    "a whole object": ("found({ evalCase, response })", "(a)", "a.evalCase.words", "a.response"),
    "taken apart inside": (
        "found({ evalCase, response })",
        "(a)",
        "words",
        "response",
        "const { evalCase: { words }, response } = a;",
    ),
    "an object in an object": ("found({ in: { evalCase }, response })", "({ in: i, response })", "i.evalCase.words"),
    "a spread": ("found({ ...evalCase, response })", "(a)", "a.words", "a.response"),
    "a name for the object": (
        "found(box)",
        "({ evalCase, response })",
        "evalCase.words",
        "response",
        "",
        "const box = { evalCase, response };",
    ),
    "a name for the case": ("found(c, response)", "(c, response)", "c.words", "response", "", "const c = evalCase;"),
    "a rest": ("found({ response, evalCase })", "({ response, ...rest })", "rest.evalCase.words"),
}


def script(call: str, formals: str, words: str, response: str = "response", inner: str = "", outer: str = "") -> str:
    return f"""
function found{formals} {{
  {inner}
  const own = {words} ?? [];
  return own.length === 0 ? 1 : own.filter((x) => {response}.includes(x)).length / own.length;
}}
export function scoreResponse(evalCase, response) {{
  {outer}
  return {{ score: {call} * evalCase.most, reason: evalCase.id }};
}}
"""


def told_and_scores(text: str) -> tuple[dict[str, str], list[float | None]]:
    evaluator = parse_evaluator(text, "scorer.ts", language="typescript", entry="scoreResponse")
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(evaluator, ROWS)
    report = runner.evaluate(evaluator, ROWS, mapping=InputMapping(paths=told.value.paths))
    return dict(told.value.paths), [one.score for one in report.results]


@pytest.mark.parametrize("how", HELPERS)
def test_an_object_is_followed_into_another_one(how: str) -> None:
    paths, scores = told_and_scores(script(*HELPERS[how]))
    assert paths == {"evalCase.words": "words", "evalCase.most": "most", "evalCase.id": "id"}
    assert scores == [5, 0]


UNSEEN = {
    "a constructor": "new Finder(evalCase, response).score()",
    "a method": "finder.score({ evalCase, response })",
    "a list": "[evalCase].map((c) => found(c, response))[0]",
    "a key that is made": "((key) => found({ words: evalCase[key] }, response))('words')",
}
KEEPS = """
function found(c, response) { return (c.words ?? []).filter((x) => response.includes(x)).length / c.words?.length; }
class Finder { constructor(c, response) { this.c = c; this.r = response; } score() { return found(this.c, this.r); } }
const finder = { score({ evalCase, response }) { return found(evalCase, response); } };
export function scoreResponse(evalCase, response) { return { score: CALL * evalCase.most }; }
"""


@pytest.mark.parametrize("how", UNSEEN)
def test_an_object_that_cannot_be_followed_has_all_columns(how: str) -> None:
    paths, scores = told_and_scores(KEEPS.replace("CALL", UNSEEN[how]))
    assert {key.removeprefix("evalCase.") for key in paths} >= {"words", "most", "id"}
    assert scores == [5, 0]


@pytest.mark.parametrize("formals", ["{ evalCase: c, response }", "params"])
def test_a_key_of_one_object_is_followed_too(formals: str) -> None:
    own = "c" if formals.startswith("{") else "params.evalCase"
    response = "response" if formals.startswith("{") else "params.response"
    text = script(f"found({{ evalCase: {own}, response: {response} }})", "({ evalCase, response })", "evalCase.words")
    text = text.replace("(evalCase, response) {", f"({formals}) {{").replace(": evalCase.id", f": {own}.id")
    paths, scores = told_and_scores(text.replace("* evalCase.most", f"* {own}.most"))
    assert {*paths} == {"evalCase.words", "evalCase.most", "evalCase.id"}
    assert scores == [5, 0]
