"""Parameters of Python functions that are read by attributes, and filled by columns of these names."""

from __future__ import annotations

import pytest

import runner
from runner.core.errors import ColumnsError
from runner.core.types import InputMapping
from runner.inputs.evaluators.load import parse_evaluator

ROWS = [
    {"prompt": "p", "gold": "a", "prediction": "a"},
    {"prompt": "p", "gold": "b", "prediction": "a"},
]
METHOD = (
    "class Bench:\n    def score(self, prediction, query: Query):\n        return float(prediction == query.gold)\n"
)
DATA = (
    "from dataclasses import dataclass\n@dataclass\nclass Query:\n    prompt: str\n    gold: str\n    level: int = 1\n"
)
SCRIPTS = {
    "a class from elsewhere": ("from __future__ import annotations\n" + METHOD, "Bench.score"),
    "a class of the file": (DATA + METHOD, "Bench.score"),
    "a method of that class": (
        DATA + "    def right(self, one): return self.gold == one and self.level == 1\n"
        "def score(prediction, query: Query):\n    return float(query.gold == 'a' and query.right(prediction))\n",
        "score",
    ),
    "without an annotation": ("def score(prediction, query): return float(prediction == query.gold)\n", "score"),
    "in a helper": (
        "def same(one, q): return one == q.gold\ndef score(prediction, query): return float(same(prediction, query))\n",
        "score",
    ),
    "async": ("async def score(prediction, query): return float(prediction == query.gold)\n", "score"),
    "evaluate": ("def evaluate(prediction, query): return float(prediction == query.gold)\n", None),
}


@pytest.mark.parametrize("how", SCRIPTS)
def test_attributes_are_columns_of_their_names(how: str) -> None:
    source, entry = SCRIPTS[how]
    evaluator = parse_evaluator(source, "scorer", entry=entry)
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(evaluator, ROWS)
    assert told.value.paths == {"query.gold": "gold"}
    report = runner.evaluate(evaluator, ROWS, mapping=InputMapping(paths=told.value.paths))
    assert ([one.score for one in report.results], report.notes) == ([1, 0], ())


def test_a_function_that_asks_what_it_gets_is_given_the_object_as_it_is() -> None:
    source = "def score(prediction, query):\n    return float(isinstance(query, dict) and not hasattr(query, 'gold'))\n"
    evaluator = parse_evaluator(source, "scorer", entry="score")
    report = runner.evaluate(evaluator, ROWS, mapping=InputMapping(paths={"query.gold": "gold"}))
    assert [one.score for one in report.results] == [1, 1]
