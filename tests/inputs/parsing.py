"""Scripts parsed and refused."""

from __future__ import annotations

import pytest

from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import Language

GOOD = "def evaluate(output, reference):\n    return output == reference\n"


def parsed(source: str | bytes, language: Language = "python") -> Evaluator:
    return parse_evaluator(source, "x", "x.py" if language == "python" else "x.ts", language=language)


def refusal(source: str | bytes, language: Language = "python") -> str:
    """The message; also that there is one."""
    with pytest.raises(EvaluatorError) as caught:
        parsed(source, language)
    return str(caught.value)
