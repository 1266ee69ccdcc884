"""Sizes in messages are for people, and say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import Limits, evaluate

SCRIPTS = {
    "em.py": "def evaluate(output):\n    return 'x' * int(output)\n",
    "em.ts": "export function evaluate(output: string) { return 'x'.repeat(Number(output)); }\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_result_that_is_too_large(tmp_path: Path, name: str) -> None:
    (script := tmp_path / name).write_text(SCRIPTS[name])
    sandbox = "process" if name.endswith(".py") else "deno"
    report = evaluate(script, [{"output": "3000000"}], sandbox=sandbox, limits=Limits(result=2 << 20))
    error = report.results[0].error
    assert error is not None
    assert error.message == "evaluate returned 2.86 MB of JSON, and may return 2 MB; return less"
