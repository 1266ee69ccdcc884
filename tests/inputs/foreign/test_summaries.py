"""Evaluators of a whole experiment: called once, with all rows, or refused; never row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator
from tests.cli.commands import evalcell

ROWS = [
    {"input": {"q": "1"}, "output": {"answer": "a"}, "reference": {"answer": "a"}},
    {"input": {"q": "2"}, "output": {"answer": "b"}, "reference": {"answer": "x"}},
    {"input": {"q": "3"}, "output": {"answer": "c"}, "reference": {"answer": "x"}},
    {"input": {"q": "4"}, "output": {"answer": "d"}, "reference": {"answer": "d"}},
]
_ZIP = "sum(o['answer'] == r['answer'] for o, r in zip(outputs, reference_outputs)) / len(outputs)"
_RUNS = "sum(r.outputs['answer'] == e.outputs['answer'] for r, e in zip(runs, examples)) / len(runs)"
SUMMARIES = {
    "LangSmith's docs": "def acc(outputs: list[dict], reference_outputs: list[dict]) -> dict:\n"
    f"    return {{'key': 'k', 'score': {_ZIP}}}\n",
    "LangSmith, typing and quotes": "from typing import List\n"
    f"def k(inputs: List[dict], outputs: 'List[dict]', reference_outputs):\n    return {_ZIP}\n",
    "LangSmith, without annotations": f"def k(outputs, reference_outputs):\n    return {_ZIP}\n",
    "LangSmith, by number": "def k(outputs, reference_outputs):\n    n = range(len(outputs))\n"
    "    return sum(outputs[i]['answer'] == reference_outputs[i]['answer'] for i in n) / len(outputs)\n",
    "LangSmith, one after the other": "def k(outputs, reference_outputs):\n    a = [o['answer'] for o in outputs]\n"
    "    b = [o['answer'] for o in reference_outputs]\n    return sum(map(str.__eq__, a, b)) / len(a)\n",
    "LangSmith, runs and examples": "from langsmith.schemas import Example, Run\n"
    "from langsmith.evaluation import EvaluationResult\n\ndef acc(runs: list[Run], examples: list[Example]):\n"
    f"    return EvaluationResult(key='k', score={_RUNS})\n",
    "LangSmith, async, a list of results": "async def evaluate(runs, examples):\n"
    f"    return [{{'key': 'k', 'score': {_RUNS}}}]\n",
    "Langfuse's docs": "from langfuse import Evaluation\n\ndef acc(*, item_results, **kwargs):\n"
    "    hits = [r.output == r.item.expected_output for r in item_results]\n"
    "    return Evaluation(name='k', value=sum(hits) / len(hits), comment='c')\n",
}
ROW_BY_ROW = {
    "keys": "sum(outputs[k] == reference_outputs[k] for k in reference_outputs) / len(reference_outputs)",
    "get": "sum(outputs.get(k) == v for k, v in reference_outputs.items()) / len(reference_outputs)",
    "a key": "float(outputs['answer'] == reference_outputs['answer']) / len(outputs)",
    "in": "sum(k in outputs for k in reference_outputs) / len(outputs) - (str(outputs) != str(reference_outputs))",
    "whole": "float(sorted(outputs.values()) == sorted(reference_outputs.values()))",
}


@pytest.mark.rotating("summary evaluators", "foreign")
@pytest.mark.parametrize("name", SUMMARIES)
def test_it_is_called_once_with_all_rows(name: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SUMMARIES[name])
    summary = runner.evaluate(tmp_path / "script.py", ROWS).summary
    assert (summary.aggregates, summary.aggregate_error, summary.aggregate_rows) == ({"k": 0.5}, None, 4)
    assert (summary.scored, summary.abstained, summary.mean) == (0, 4, None)


@pytest.mark.rotating("summary evaluators", "foreign")
@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_one_of_a_row_stays_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"def k(outputs, reference_outputs):\n    return {ROW_BY_ROW[name]}\n")
    summary = runner.evaluate(tmp_path / "script.py", ROWS).summary
    assert (summary.scored, summary.mean, summary.aggregates) == (4, 0.5, {})


@pytest.mark.rotating("summary evaluators", "foreign")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 'good'", "k is the text 'good': a figure of all rows is a number"),
        ("raise KeyError('x')", "KeyError: 'x' (line 2)"),
        ("return None", "return a bool, a number"),
    ],
)
def test_what_is_no_figure_is_told(body: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"def k(outputs: list[dict]):\n    {body}\n")
    summary = runner.evaluate(tmp_path / "script.py", ROWS).summary
    assert (summary.scored, summary.aggregates) == (0, {})
    assert summary.aggregate_error is not None
    assert why in summary.aggregate_error.message


@pytest.mark.rotating("summary evaluators", "foreign")
def test_a_text_among_figures_is_lost_alone_and_named(tmp_path: Path) -> None:
    values = '[{"key": "a", "score": 0.5}, {"key": "verdict", "value": "good"}, {"key": "b", "score": 1}]'
    script = f'def k(outputs: list[dict]):\n    return {{"results": {values}}}\n'
    (tmp_path / "script.py").write_text(script)
    summary = runner.evaluate(tmp_path / "script.py", ROWS, gates=["aggregate.a<0.5"]).summary
    assert (summary.aggregates, summary.aggregate_rows) == ({"a": 0.5, "b": 1.0}, 4)
    assert summary.aggregate_error is not None
    assert "aggregate returned 'good' for 'verdict'; return a finite number" in summary.aggregate_error.message
    assert [gate.verdict for gate in summary.gates] == ["passed"]
    gated = runner.evaluate(tmp_path / "script.py", ROWS, gates=["aggregate.verdict<1"]).summary
    assert [gate.verdict for gate in gated.gates] == ["unjudged"]
    assert "for 'verdict'" in gated.gates[0].reason


def test_one_that_may_be_either_is_refused_with_what_to_write() -> None:
    source = (
        "def k(outputs, reference_outputs):\n    return len(set(outputs) & set(reference_outputs)) / len(outputs)\n"
    )
    with pytest.raises(
        EvaluatorError, match=r"whether k takes one row or all rows cannot be seen; write `outputs: dict`"
    ):
        parse_evaluator(source, "script")
    for annotation, summary in (("dict", False), ("list[dict]", True)):
        found = parse_evaluator(source.replace("outputs,", f"outputs: {annotation},", 1), "script")
        assert (found.aggregate is not None) == summary


def test_gates_and_settings_reach_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("def k(outputs: list[dict], least=0.0):\n    return max(least, 1 / len(outputs))\n")
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n{"output": "b"}\n')
    asked = ["run", str(script), str(tmp_path / "rows.jsonl")]
    assert evalcell(*asked, "--require", "k>=0.6").exit_code == 1
    assert evalcell(*asked, "--require", "k>=0.6", "--set", "least=0.7").exit_code == 0
    told = evalcell("check", str(script))
    assert "judges all rows together" in told.output


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "def acc(*, item_results, **kwargs):\n    return [e.value for r in item_results for e in r.evaluations]\n",
            "acc reads other evaluators' evaluations, which are not there",
        ),
        ("def avg(test_results):\n    return 1.0\n", "`def aggregate(results): …`"),  # Opik
        ("def eval_fn(predictions, targets, metrics):\n    return 1.0\n", "`def aggregate(results): …`"),  # MLflow
        (
            "from pydantic_evals.evaluators import ReportEvaluator\n"
            "class A(ReportEvaluator):\n    def evaluate(self, ctx): return 1\n",
            "`def aggregate(results): …`",
        ),
        (
            "from inspect_ai.scorer import metric\n@metric\ndef m():\n    return lambda scores: 1.0\n",
            "`def aggregate(results): …`",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_and_aggregate_named(source: str, why: str) -> None:
    with pytest.raises(EvaluatorError) as error:
        parse_evaluator(source, "script")
    assert why in str(error.value)
    assert "aggregate(results)" in str(error.value)
