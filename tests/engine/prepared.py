"""A run made by hand: an evaluator and a sandbox that nobody had to find."""

from __future__ import annotations

from typing import Any

from runner.core.types import Evaluator
from runner.engine.request import PreparedRun, RunRequest
from sandboxes import Sandbox


def prepared(evaluator: Evaluator, sandbox: Sandbox, **asked: Any) -> PreparedRun:
    """`asked` is more of the request: its limits, its mapping."""
    return PreparedRun(RunRequest(evaluator=evaluator, **asked), evaluator, sandbox, why="")
