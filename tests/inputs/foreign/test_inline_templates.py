"""Inline code that is filled as a template: a row's text becomes code, and must not decide other rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import runner
from runner import SandboxConfig
from runner.inputs.evaluators.inline import read_inline
from runner.inputs.evaluators.resolve import choose
from sandboxes.base import Language
from sandboxes.errors import UnsupportedConfigError
from tests.cli.commands import evalcell
from tests.skips import need

PYTHON = "output == '{{ expected }}'"
ENEMIES: dict[Language, tuple[str, str]] = {
    # What the code sees of later rows is true, whatever they are.
    "python": (
        PYTHON,
        "' or [json.__class__, __import__('builtins').__dict__.update(compile=lambda *a, **k: 1/0)] or '",
    ),
    "typescript": (
        "output === '{{ expected }}'",
        "' || (globalThis.Function = () => () => true, String.prototype.replace = () => 'true', true) || '",
    ),
}


def rows(enemy: str) -> list[dict[str, Any]]:
    return [{"output": "a", "expected": enemy}, *({"output": "a", "expected": one} for one in ("b", "a", "c"))]


@pytest.mark.parametrize("sandbox", ["process", "deno", "wasm"])
@pytest.mark.rotating("inline templates", "foreign")
def test_a_row_decides_no_other_row(sandbox: str) -> None:
    language: Language = "typescript" if sandbox == "deno" else "python"
    need(sandbox)
    code, enemy = ENEMIES[language]
    report = runner.evaluate(read_inline(code, language=language), rows(enemy), sandbox=sandbox)
    assert [result.label for result in report.results[1:]] == ["fail", "pass", "fail"]


@pytest.mark.parametrize("code", [PYTHON, "output == {#- note -#} 'a'"])
def test_a_template_gets_a_state_for_each_row_and_never_shares_one(code: str) -> None:
    for backend in ("process", "wasm"):
        assert choose(read_inline(code), backend).config.isolation == "call"
        with pytest.raises(UnsupportedConfigError, match="a row's text becomes code"):
            choose(read_inline(code), SandboxConfig(backend=backend, isolation="batch"))
    assert choose(read_inline("output == context['vars']['expected']"), "process").config.isolation is None


def test_the_command_line_says_what_to_leave_out(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"output": "a", "expected": "a"}\n')
    asked = ["run", "--inline", PYTHON, str(tmp_path / "rows.jsonl"), "--sandbox", "process"]
    result = evalcell(*asked, "--isolation", "batch")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "leave --isolation out, or write context.vars.NAME" in result.stderr
    assert evalcell(*asked).exit_code == 0
