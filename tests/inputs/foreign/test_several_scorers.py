"""Functions and classes of one tool beside each other in a script."""

from __future__ import annotations

import pytest

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

BOTH = """
import weave
from weave import Scorer


@weave.op()
def same(output: str, expected: str) -> dict:
    return {"match": output == expected}


class Length(Scorer):
    @weave.op()
    def score(self, output: str) -> dict:
        return {"length": len(output)}
"""
HELPER = """
import weave
from weave import Scorer


@weave.op()
def words(output: str) -> list:
    return output.split()


class Length(Scorer):
    @weave.op()
    def score(self, output: str) -> dict:
        return {"length": len(words(output))}
"""


@pytest.mark.parametrize("dialect", [None, "weave"])
def test_a_decorated_function_beside_a_class_is_a_scorer_too(dialect: str | None) -> None:
    with pytest.raises(EvaluatorError, match="has `Length`, `same`, and each is a Weave scorer"):
        parse_evaluator(BOTH, "script", "script.py", dialect=dialect)
    for entry in ("same", "Length"):
        found = parse_evaluator(BOTH, "script", "script.py", dialect=dialect, entry=entry)
        assert (found.dialect, found.entry) == ("weave", entry)


def test_a_decorated_function_that_a_class_calls_is_a_scorer_only_by_its_name() -> None:
    assert parse_evaluator(HELPER, "script", "script.py").entry == "Length"
    assert parse_evaluator(HELPER, "script", "script.py", entry="words").dialect == "weave"


def test_what_stands_under_main_is_not_proposed() -> None:
    with_main = BOTH + '\n\nif __name__ == "__main__":\n    mine = Length()\n'
    with pytest.raises(EvaluatorError, match="has `Length`, `same`, and each"):
        parse_evaluator(with_main, "script", "script.py")
    plain = 'if __name__ == "__main__":\n    def evaluate(output):\n        return 1\n'
    with pytest.raises(EvaluatorError):
        parse_evaluator(plain, "script", "script.py")
    other = 'if __name__ == "__main__":\n    pass\nelse:\n    def evaluate(output):\n        return 1\n'
    assert parse_evaluator(other, "script", "script.py").dialect is None
