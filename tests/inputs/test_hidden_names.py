"""A name that a script defines nowhere is told before the rows where its own `except` or `catch` would score it."""

from __future__ import annotations

import subprocess

import pytest

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import Language
from sandboxes.deno.binary import find_deno

PYTHON = (
    "def evaluate(output, reference):\n    try:\n        return float({}(output) == reference)\n    "
    "except {}:\n        {}\n"
)
TYPESCRIPT = (
    "export function evaluate({{ output, reference }}) {{\n  try {{ return {}; }} catch (error) {{ {}; }}\n}}\n"
)
GLOBALS = """
const names = [];
for (let from = globalThis; from; from = Object.getPrototypeOf(from)) names.push(...Object.getOwnPropertyNames(from));
console.log(names.map((name) => `${name}.x`).join());
"""


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", PYTHON.format("norm", "Exception", "return 0.0")),
        ("python", PYTHON.format("norm", "(ValueError, Exception)", "pass")),
        ("python", PYTHON.replace("except {}", "except").format("texts.norm", "return 0.0")),
        ("typescript", TYPESCRIPT.format("norm(output) > 0", "return 0")),
        ("typescript", TYPESCRIPT.format("texts.norm(output)", "return 0")),
        ("typescript", TYPESCRIPT.format("output === new Norm(reference)", "console.error(error)")),
    ],
)
def test_hidden_name_is_told_with_its_lines(language: Language, source: str) -> None:
    with pytest.raises(EvaluatorError, match=r"s:[23]: `(norm|Norm|texts)` is defined nowhere .* line [24] would make"):
        parse_evaluator(source, "s", language=language)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", PYTHON.format("norm", "ValueError", "return 0.0")),
        ("python", PYTHON.format("norm", "Exception", "raise")),
        ("python", PYTHON.format("unicode", "(NameError, Exception)", "return 0.0")),
        ("python", "from texts import *\n" + PYTHON.format("norm", "Exception", "return 0.0")),
        ("python", "from texts import norm\n" + PYTHON.format("norm", "Exception", "return 0.0")),
        ("python", PYTHON.format("(lambda x: str(x))", "Exception", "return 0.0")),
        ("typescript", TYPESCRIPT.format("norm(output)", "throw error")),
        ("typescript", "function norm(x) { return x; }\n" + TYPESCRIPT.format("norm(output)", "return 0")),
        ("typescript", TYPESCRIPT.format("output.split('').map((c) => c.trim()).length", "return 0")),
        ("typescript", "const { norm } = { norm: String };\n" + TYPESCRIPT.format("norm(output)", "return 0")),
        ("typescript", TYPESCRIPT.format("new Intl.Collator().compare(output, reference)", "return 0")),
    ],
)
def test_names_that_are_defined_or_errors_that_are_not_hidden_are_left(language: Language, source: str) -> None:
    assert parse_evaluator(source, "s", language=language).parameters


def test_all_that_deno_has_is_defined() -> None:
    names = subprocess.run([find_deno(), "eval", GLOBALS], capture_output=True, check=True, text=True).stdout.strip()
    assert "EvalError.x," in names
    assert parse_evaluator(TYPESCRIPT.format(f"[{names}].length", "return 0"), "s", language="typescript").parameters
