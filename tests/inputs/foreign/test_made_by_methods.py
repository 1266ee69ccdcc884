"""MLflow scorers that methods of classes make, and classes that are abstract."""

from __future__ import annotations

import pytest

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

BASE = """
from abc import ABC, abstractmethod
from mlflow.genai.judges import meets_guidelines
from mlflow.genai.scorers import scorer


class Base(ABC):
    def __init__(self, name):
        self.name = name

    @abstractmethod
    def get_scorer(self):
        pass
"""
MAKES = """

class Kind(Base):
    def __init__(self, name, rules):
        super().__init__(name)
        self.rules = rules

    def get_scorer(self):
        @scorer(name=self.name)
        def inner(inputs, outputs):
            return CALL
        return inner
"""
JUDGES = MAKES.replace("CALL", "meets_guidelines(name=self.name, guidelines=self.rules, context={})")
PLAIN = MAKES.replace("CALL", "outputs in self.rules").replace("Kind", "Other")


@pytest.mark.parametrize("entry", [None, "Kind", "Kind.get_scorer"])
def test_a_scorer_that_a_method_makes_says_what_to_write_and_that_it_asks_a_model(entry: str | None) -> None:
    with pytest.raises(EvaluatorError) as told:
        parse_evaluator(BASE + JUDGES + PLAIN, "s", "s.py", entry=entry)
    text = str(told.value)
    assert "`metric = Kind(name=…, rules=…).get_scorer()`, and name s.py:metric" in text
    assert "`Other.get_scorer` makes one, too" in text
    assert "it asks a model, by `meets_guidelines`, and evalcell brings none" in text
    assert "Base(" not in text


def test_one_that_asks_no_model_does_not_say_so() -> None:
    with pytest.raises(EvaluatorError, match=r"metric = Other\(name=…, rules=…\)\.get_scorer\(\)") as told:
        parse_evaluator(BASE + PLAIN, "s", "s.py")
    assert "model" not in str(told.value)


@pytest.mark.parametrize("entry", [None, "metric"])
def test_what_the_method_made_is_read_as_the_tool_s(entry: str | None) -> None:
    evaluator = parse_evaluator(f"{BASE}{PLAIN}\nmetric = Other('a', ['b']).get_scorer()\n", "s", entry=entry)
    assert (evaluator.dialect, evaluator.entry) == ("mlflow", "metric")


@pytest.mark.parametrize("decorator", ["abstractmethod", "abc.abstractmethod"])
def test_an_abstract_class_is_never_proposed(decorator: str) -> None:
    source = (
        "import abc\nfrom abc import ABC, abstractmethod\n\n\nclass Base(ABC):\n    def __init__(self, name):\n"
        f"        self.name = name\n\n    @{decorator}\n    def score(self):\n        pass\n\n\n"
        "class Exact(Base):\n    def score(self):\n        return self.name == 'a'\n"
    )
    with pytest.raises(EvaluatorError) as told:
        parse_evaluator(source, "s", "s.py")
    assert "return Exact(name).score()`" in str(told.value)
    assert "Base(" not in str(told.value)
    with pytest.raises(EvaluatorError, match=r"`Base` is an abstract class.*name one that extends it: `Exact`"):
        parse_evaluator(source, "s", "s.py", entry="Base")
