"""Type errors are found without running the script."""

from __future__ import annotations

import asyncio

import pytest

from sandboxes import SandboxError
from sandboxes.base import Problem
from sandboxes.deno import DenoConfig, DenoSandbox
from tests.deno.opened import Opened

pytestmark = pytest.mark.rotating("deno", "deno")

RIGHT = """
/** Uses every type that is there without being imported. */
export const evaluate: Evaluator = async ({output, reference, input, metadata, anything}: EvaluatorParams) => {
  const score: EvaluatorScore = {score: output === reference ? 1 : 0, label: null};
  const result: EvaluatorResult = input || metadata || anything ? score : "none";
  const several: EvaluatorResults = {a: result, b: 0.5};
  console.log(Object.keys(several));
  return result;
};
"""

WRONG = {
    "const x: number = 'text';\nexport const evaluate = () => x;": (1, 7, "TS2322"),
    "export const evaluate = ({output}: EvaluatorParams) => missing;": (1, 56, "TS2304"),
    "\n\nexport const evaluate = (a) => b;": (3, 32, "TS2304"),
    "export const evaluate: Evaluator = () => new Map();": (1, 42, "TS"),
    "export const evaluate = ({text}: {text: string | null}) => text.length;": (1, 60, "TS18047"),
}


def test_a_script_without_type_errors_has_no_problems(opened: Opened) -> None:
    assert opened.problems(RIGHT) == []


def test_a_script_without_types_has_no_problems(opened: Opened) -> None:
    script = """
const same = (a, b) => a === b;
function evaluate({ output, reference }) { return same(output, reference); }
"""
    assert opened.problems(script) == []


@pytest.mark.parametrize("source", WRONG)
def test_a_type_error_is_told_with_its_place(opened: Opened, source: str) -> None:
    (found,) = opened.problems(source)
    line, column, number = WRONG[source]
    assert (found.line, found.column) == (line, column)
    assert number in found.message


def test_several_problems_are_told_in_order(opened: Opened) -> None:
    found = opened.problems("const a: number = 'a';\nconst b: string = 1;\nexport const evaluate = () => [a, b];\n")
    assert [(p.line, "TS2322" in p.message) for p in found] == [(1, True), (2, True)]


def test_problems_without_end_are_cut(opened: Opened) -> None:
    lines = "".join(f"const a{n}: number = 'a';\n" for n in range(500))
    assert 0 < len(opened.problems(lines + "export const evaluate = () => 1;")) <= 50


def test_what_cannot_be_read_is_a_problem(opened: Opened) -> None:
    (found,) = opened.problems("export const evaluate = (\n")
    assert isinstance(found, Problem)
    assert found.message


NEEDS = [
    'import found from "npm:lodash";',
    'import found from "https://modules.example/x.ts";',
    'import found from "file:///etc/passwd";',
    'import found from "/etc/passwd" with {type: "text"};',
    '/// <reference path="/etc/passwd" />\nconst found: string = 1;',
    '/// <reference types="npm:@types/node" />\nconst found: string = 1;',
]


@pytest.mark.parametrize("line", NEEDS)
def test_a_check_fetches_nothing_and_reads_no_file_of_the_host(opened: Opened, line: str) -> None:
    found = opened.problems(f"{line}\nexport const evaluate = () => found;\n")
    assert found
    assert "root" not in str(found)


def test_a_check_does_not_run_the_script(opened: Opened) -> None:
    assert opened.problems("while (true) console.log(1);\n") == []


def test_a_check_that_takes_too_long_is_stopped(opened: Opened) -> None:
    with pytest.raises(SandboxError, match="type check"):
        opened.run(opened.sandbox().problems(RIGHT, 0.05))


def test_a_closed_sandbox_checks_nothing() -> None:
    with pytest.raises(SandboxError, match="not open"):
        asyncio.run(DenoSandbox(DenoConfig()).problems("export const evaluate = () => 1;"))
