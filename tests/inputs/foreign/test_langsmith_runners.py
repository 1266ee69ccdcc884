"""LangSmith's `RunEvaluator` in TypeScript: a class, an instance or an object with `evaluateRun`."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

ROWS = [
    {"outputs": {"text": "a"}, "reference_outputs": {"text": "a"}},
    {"outputs": {"text": "a"}, "reference_outputs": {"text": "b"}},
]
HELPER = """
import type { Example, Run } from "langsmith";
import type { RunEvaluator } from "langsmith/evaluation";
export function outputAsString(run: Run): string {
  return run.outputs?.text as string;
}
"""
BODY = """(run: Run, example?: Example) {
    const score = outputAsString(run) === example?.outputs?.text ? 1 : 0;
    return { key: "exact", value: outputAsString(run), score, comment: "c" };
  }"""
CLASS = f"class Exact implements RunEvaluator {{\n  async evaluateRun{BODY}\n}}\n"
NEEDS = f"class Exact {{\n  constructor(private key: string) {{}}\n  evaluateRun{BODY}\n}}\n"


def read(text: str, entry: str | None = None) -> Any:
    return parse_evaluator(HELPER + text, "exact", "exact.ts", language="typescript", entry=entry)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (f"export {CLASS}", "Exact.evaluateRun"),
        (CLASS, "Exact.evaluateRun"),
        (f"export default {CLASS}", "Exact.evaluateRun"),
        (f"export default {CLASS.replace('Exact ', '')}", "default.evaluateRun"),
        (f"export {CLASS}export const exact = new Exact();\n", "exact.evaluateRun"),
        (f"{NEEDS}export const exact = new Exact('k');\n", "exact.evaluateRun"),
        (f"export {CLASS}export class Exacter extends Exact {{}}\n", "Exacter.evaluateRun"),
        (f"export const exact: RunEvaluator = {{ evaluateRun{BODY} }};\n", "exact.evaluateRun"),
        (f"export default {{ evaluateRun{BODY} }};\n", "default.evaluateRun"),
    ],
)
def test_what_has_evaluate_run_is_the_evaluator_and_no_helper(text: str, entry: str) -> None:
    for asked in (None, entry):
        evaluator = read(text, asked)
        assert (evaluator.dialect, evaluator.entry) == ("langsmith", entry)
    report = runner.evaluate(evaluator, ROWS)
    assert [(one.label, one.score, one.explanation) for one in report.results] == [("a", 1.0, "c"), ("a", 0.0, "c")]


def test_a_class_is_named_by_its_own_name_too() -> None:
    assert read(f"export {CLASS}", "Exact").entry == "Exact.evaluateRun"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NEEDS, r"`Exact` is a LangSmith evaluator that cannot be made.*`const evaluator = new Exact\(…\);`.*"),
        (CLASS + CLASS.replace("Exact", "Near"), r"Exact\.evaluateRun`?, `?Near\.evaluateRun.*say which"),
    ],
)
def test_what_cannot_be_chosen_says_what_to_write(text: str, why: str) -> None:
    with pytest.raises(EvaluatorError, match=why):
        read(text)


def test_a_helper_of_a_run_that_others_call_is_none() -> None:
    text = f"export function correct{BODY}\n"
    assert (read(text).dialect, read(text).entry) == ("langsmith", "correct")


@pytest.mark.parametrize(
    "text",
    [
        f"export {CLASS}",
        "export const exact = (run: Run, example?: Example) => {\n  const { text } = example?.outputs ?? {};\n"
        "  return { key: 'exact', score: outputAsString(run) === text ? 1 : 0 };\n};\n",
    ],
)
def test_an_example_that_is_read_is_asked_for(text: str) -> None:
    with pytest.raises(ColumnsError, match="no column for `reference`"):
        runner.evaluate(read(text), [{"outputs": {"text": "a"}}])


def test_the_proposed_mapping_brings_the_example_that_is_read() -> None:
    text = f"export class Exact {{\n  judge{BODY}\n}}\n"
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(read(text, "Exact.judge"), ROWS)
    assert told.value.paths == {"run.outputs": "outputs", "example.outputs": "reference_outputs"}
