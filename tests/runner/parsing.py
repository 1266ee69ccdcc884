"""Scripts parsed and refused."""

from __future__ import annotations

import pytest

from runner.errors import EvaluatorError
from runner.evaluator import parse_evaluator
from runner.types import Evaluator

GOOD = "def evaluate(output, reference):\n    return output == reference\n"


def parsed(source: str | bytes) -> Evaluator:
    return parse_evaluator(source, "x", "x.py")


def refusal(source: str | bytes) -> str:
    """The message; also that there is one."""
    with pytest.raises(EvaluatorError) as caught:
        parsed(source)
    return str(caught.value)
