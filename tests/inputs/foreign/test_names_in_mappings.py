"""What a mapping names in a script's own words: taken as such, or refused, and never dropped without a word."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import MappingError
from runner.core.types import Evaluator, InputMapping
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind

SAME = "def same(run, example):\n    return {'key': 'k', 'score': float(run.outputs['a'] == example.outputs['b'])}\n"
DEEP = SAME.replace("['b']", "['n']['b']['c']")
WORDS = (
    "def same(outputs, reference_outputs, strict=False):\n    return float(outputs['a'] == reference_outputs['b'])\n"
)
CLASS = (
    "from langsmith.evaluation import RunEvaluator\nclass Same(RunEvaluator):\n"
    "    def evaluate_run(self, run, example):\n"
    "        return {'key': 'k', 'score': float(run.outputs['a'] == example.outputs['b'])}\n"
)
SCRIPT = (
    "export const same = (run: Run, example?: Example) =>\n"
    "  ({ key: 'k', score: +(run.outputs.a === example?.outputs?.b) })\n"
)
ROWS = [{"x": "1", "y": "1", "outputs": "o"}, {"x": "1", "y": "2", "outputs": "o"}]
METRIC = """
from deepeval.metrics import BaseMetric
class M(BaseMetric):
    def __init__(self, threshold=0.5): self.threshold = threshold
    def measure(self, case):
        return float(case.extra)
metric = {made}
"""


def read(text: str, entry: str | None = None, language: Any = "python") -> Evaluator:
    return parse_evaluator(text, "s", "s.py", entry=entry, language=language)


def scores(evaluator: Evaluator, **paths: str) -> list[float | None]:
    mapping = InputMapping(paths={name.replace("__", "."): path for name, path in paths.items()})
    return [one.score for one in runner.evaluate(evaluator, ROWS, mapping=mapping).results]


@pytest.mark.parametrize("text", [SAME, CLASS, WORDS])
def test_langsmiths_own_places_are_a_rows(text: str) -> None:
    assert scores(read(text), run__outputs__a="x", example__outputs__b="y") == [1.0, 0.0]
    assert scores(read(text), run__outputs="x", example__outputs="y") == [1.0, 0.0]


def test_langsmiths_own_places_are_a_rows_in_typescript() -> None:
    evaluator = parse_evaluator(SCRIPT, "s", "s.ts", entry="same", language="typescript", dialect="langsmith")
    assert scores(evaluator, run__outputs__a="x", example__outputs__b="y") == [1.0, 0.0]


@pytest.mark.parametrize("text", [SAME, CLASS, WORDS])
@pytest.mark.parametrize("name", ["nonsense", "answer", "run"])
@pytest.mark.parametrize("kind", ["paths", "literals"])
def test_what_langsmith_gives_nobody_is_refused(text: str, name: str, kind: str) -> None:
    with pytest.raises(MappingError, match=rf"`{name}`.*`outputs\.KEY`"):
        bind(read(text), InputMapping(**{kind: {name: "x"}}))
    bind(read(WORDS), InputMapping(literals={"strict": True}))


def test_a_key_below_a_key_is_one() -> None:
    assert scores(read(DEEP), outputs__a="x", reference__n__b__c="y") == [1.0, 0.0]
    plain = "def evaluate(row):\n    return float(row['n']['b'] == row['m'])\n"
    assert scores(read(plain), row__n__b="x", row__m="y") == [1.0, 0.0]
    dotted = "def evaluate(row):\n    return float(row['n.b'] == row['m'])\n"
    assert scores(read(dotted), row__n__b="x", row__m="y") == [1.0, 0.0]
    with pytest.raises(MappingError, match=r"`row\.n` and a part of it are both mapped"):
        scores(read(plain), row__n="x", row__n__b="y")


@pytest.mark.parametrize(
    ("made", "name", "why"),
    [
        ("M(0.5)", "threshold", "takes no `threshold` any more: write it where `metric` is made, in line 7"),
        ("M(0.5)", "nonsense", "takes no `nonsense` any more: leave it out"),
    ],
)
def test_a_metric_that_is_made_takes_no_more_arguments(made: str, name: str, why: str) -> None:
    with pytest.raises(MappingError, match=why):
        bind(read(METRIC.format(made=made), "metric"), InputMapping(literals={name: 1}))


def test_a_case_takes_what_the_metric_reads_of_it() -> None:
    bind(read(METRIC.format(made="M(0.5)"), "metric"), InputMapping(paths={"extra": "x"}))


@pytest.mark.parametrize(
    ("text", "paths", "rows", "told"),
    [
        (
            "def evaluate(output, metadata):\n    return float(metadata.get('gold', 'x') == output)\n",
            {},
            {"output": "a", "answer": "a"},
            "reads `gold` of `metadata`, which has none in the first rows, and goes on without; it has `answer`",
        ),
        (
            "def score(sample, other):\n    return float(sample.get('prediction', 'x') == other)\n",
            {"sample": "$.metadata"},
            {"answer": "a", "other": "b"},
            "reads `prediction` of `sample`",
        ),
        (
            SAME.replace("['a']", ".get('a', 'x')").replace("['b']", ".get('b', 'x')"),
            {},
            {"outputs": {"z": 1}, "reference_outputs": {"b": 1}},
            "reads `a` of `outputs`, which has none",
        ),
    ],
)
def test_a_key_that_no_row_has_is_told(text: str, paths: dict[str, str], rows: dict[str, Any], told: str) -> None:
    entry = "score" if "score(" in text else None
    report = runner.evaluate(read(text, entry), [rows], mapping=InputMapping(paths=paths))
    assert any(told in note for note in report.notes)


def test_a_key_that_some_row_has_or_that_is_one_of_several_is_not_told() -> None:
    text = "def evaluate(output, metadata):\n    return float(metadata.get('gold', 'x') == output)\n"
    rows = [{"output": "a", "answer": "a"}, {"output": "a", "answer": "b", "gold": "a"}]
    assert not any("goes on without" in note for note in runner.evaluate(read(text), rows).notes)
    text = text.replace("metadata.get('gold', 'x')", "(metadata['answer'] if metadata.get('strict') else 'a')")
    assert not any("goes on without" in note for note in runner.evaluate(read(text), rows[:1]).notes)
