"""Packages that set up a terminal when they are imported."""

from __future__ import annotations

import runner
from runner.inputs.evaluators.load import parse_evaluator


def test_readline_is_there_and_does_nothing() -> None:
    source = (
        "import cmd, code, readline\n\nreadline.parse_and_bind('tab: complete')\n\n\n"
        "def evaluate(output):\n    return float(readline.get_completer() is None)\n"
    )
    (result,) = runner.evaluate(parse_evaluator(source, "script"), [{"output": "a"}], sandbox="process").results
    assert result.score == 1.0
