"""Other tools' evaluators that are methods of a class, local to a function, or that the tool itself cannot call."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator
from runner.engine.scoring.outcome import error_text
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import ScriptError

LANGSMITH = """
from langsmith.evaluation import EvaluationResult, run_evaluator
class Evaluators:
    @staticmethod
    @run_evaluator
    def exact(run, example) -> EvaluationResult:
        right = run.outputs.get("report") == example.outputs.get("report")
        return EvaluationResult(key="exact", score=float(right), comment=str(run.id == run.id))
"""
LANGSMITH_OWN = """
from langsmith import Client
class Evaluators:
    k = 3
    def exact(self, outputs: dict, reference_outputs: dict):
        return {"key": "exact", "score": float(outputs["report"][:self.k] == reference_outputs["report"])}
    def _helper(self, run, example): return 1
"""
LANGFUSE = """
from langfuse import Evaluation
class Evaluators:
    def exact(self, *, output, expected_output, **kwargs):
        return Evaluation(name="exact", value=float(output == expected_output))
"""
BRAINTRUST = """
import braintrust
class Scorers:
    @classmethod
    def exact(cls, output, expected=None):
        return float(output == expected)
"""
TRL = """
class Rewards:
    weight = 1.0
    def exact(self, completions, reference, **kwargs):
        return [self.weight * (a == b) for a, b in zip(completions, reference)]
"""
OBJECTS = [{"outputs": {"report": one}, "reference_outputs": {"report": "abc"}} for one in ("abc", "x")]
TEXTS = [{"output": one, "reference": "abc"} for one in ("abc", "x")]
LOCAL = """
from braintrust import Eval
def upload(rows, model):
    by_id = {row["id"]: row for row in rows}
    def judged(input, output, expected, _rows=by_id):
        from json import dumps
        found = _rows.get(input)
        return {"name": model, "score": float(found["score"])}
    Eval("p", data=rows, task=len, scores=[judged])
"""


def read(text: str, entry: str | None = None) -> Evaluator:
    return parse_evaluator(text, "s", "s.py", entry=entry)


@pytest.mark.parametrize(
    ("text", "dialect", "entry", "rows"),
    [
        (LANGSMITH, "langsmith", "Evaluators.exact", OBJECTS),
        (LANGSMITH_OWN, "langsmith", "Evaluators.exact", OBJECTS),
        (LANGFUSE, "langfuse", "Evaluators.exact", TEXTS),
        (BRAINTRUST, "braintrust", "Scorers.exact", TEXTS),
        (TRL, "trl", "Rewards.exact", TEXTS),
    ],
)
def test_a_method_is_called_as_a_function_is(text: str, dialect: str, entry: str, rows: Any) -> None:
    for asked in (None, entry):
        evaluator = read(text, asked)
        assert (evaluator.dialect, evaluator.entry) == (dialect, entry)
    assert [one.score for one in runner.evaluate(evaluator, rows).results] == [1.0, 0.0]


@pytest.mark.parametrize("text", [LANGSMITH_OWN, LANGFUSE, TRL])
def test_a_method_of_a_class_that_needs_arguments_is_not_called(text: str) -> None:
    text = text.replace("s:\n", "s:\n    def __init__(self, key): self.key = key\n", 1)
    for entry in ("Evaluators.exact", "Rewards.exact"):
        if f"class {entry.partition('.')[0]}" in text:
            with pytest.raises(EvaluatorError, match="needs arguments to be made"):
                read(text, entry)


def test_several_methods_are_told_as_the_tools_own() -> None:
    with pytest.raises(EvaluatorError, match=r"`Evaluators.exact`, `Evaluators.near`, and each is a LangSmith"):
        read(LANGSMITH + "    @staticmethod\n    def near(run, example): return 1\n")


@pytest.mark.parametrize("own", ["output, expected_output", "*, input, output, expected_output"])
def test_what_langfuse_itself_cannot_call_is_refused(own: str) -> None:
    text = f"from langfuse import Evaluation\ndef exact({own}): return Evaluation(name='e', value=1)\n"
    told = r"s.py:2: Langfuse calls .* takes no (`input`, )?`metadata`: Langfuse logs .* add `\*\*kwargs`"
    for entry in (None, "exact"):
        with pytest.raises(EvaluatorError, match=told):
            read(text, entry)
    assert read(text.replace(f"({own}", f"({own}, **kwargs")).dialect == "langfuse"


def test_a_scorer_that_is_local_to_a_function_is_to_be_copied_out() -> None:
    with pytest.raises(EvaluatorError) as told:
        read(LOCAL)
    assert "`judged(input, output, expected)` (line 5) that is local to `upload`" in str(told.value)
    assert "copy it out, with what it takes of that, `by_id`, `model`, to the top level" in str(told.value)
    assert "scorer = " not in str(told.value)


@pytest.mark.parametrize(
    "head", ["def correct(run, example)", "async def correctness_eval(outputs, reference_outputs)"]
)
def test_a_local_evaluator_of_any_tool_is_named(head: str) -> None:
    text = f"def main():\n    k = 1\n    def helper(x): return x\n    {head}:\n        return k\n    run([correct])\n"
    with pytest.raises(EvaluatorError, match=r"\(line 4\) that is local to `main`.* what it takes of that, `k`"):
        read(text)


def test_a_script_without_any_scorer_is_told_as_before() -> None:
    with pytest.raises(EvaluatorError, match="defines `main`"):
        read("def main():\n    def helper(x): return x\n    return helper(1)\n")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ('client = OpenAI(\n    api_key=os.environ.get("MY_KEY", ""),\n)', "MY_KEY"),
        ('KEY = os.getenv("MY_TOKEN")\nclient = OpenAI(api_key=KEY)\n', "MY_TOKEN"),
        ('KEY = os.getenv("MY_TOKEN")\nother = len(str(KEY))\nclient = OpenAI()\n', "OPENAI_API_KEY"),
        ('client = OpenAI(api_key=os.getenv("MY_KEY") or os.getenv("OPENAI_API_KEY"))\n', "OPENAI_API_KEY"),
    ],
)
def test_the_variable_is_the_one_that_the_script_gives(lines: str, name: str) -> None:
    text = f"import os\n{lines}\ndef evaluate(output): return 1\n"
    line = next(at for at, one in enumerate(text.split("\n"), 1) if "OpenAI" in one)
    said = "set the `OPENAI_API_KEY` environment variable"
    trace = f'File "/x/evaluator.py", line {line}, in <module>\n  File "/p/openai.py", line 9, in __init__'
    hint = 'name it: SandboxConfig(env=["OPENAI_API_KEY"])'
    error = ScriptError(type="OpenAIError", message=said, traceback=trace, hint=hint)
    assert f'env=["{name}"]' in error_text("error", error, read(text))


@pytest.mark.parametrize("text", [LANGSMITH_OWN, LANGFUSE])
def test_a_tools_method_in_a_class_that_needs_arguments_is_named_at_once(text: str) -> None:
    text = text.replace("s:\n", "s:\n    def __init__(self, key): self.key = key\n", 1)
    more = "def average(*, item_results, **kwargs): return [one.evaluations for one in item_results]\n"
    with pytest.raises(EvaluatorError, match=r"`scorer = Evaluators\(key=…\)\.exact`"):
        read(text + more * ("langfuse" in text))


def test_a_factory_is_called_at_the_top() -> None:
    text = (
        "def Scorer(limit, name='a'):\n    def scorer(output, expected=None, **kw): return limit\n    return scorer\n"
    )
    with pytest.raises(EvaluatorError, match=r"which Scorer makes: add `scorer = Scorer\(limit=…\)` .*`s\.py:scorer`"):
        read(text)
    assert read(f"{text}scorer = Scorer(1)\n", "scorer").entry == "scorer"


def test_local_evaluator_of_an_experiment_is_named_rather_than_its_helper() -> None:
    source = """
def exact_score(output, metadata): return float(output == metadata["exact"]), "why"
def run_experiment(dataset, judge):
    def item_evaluator(*, input, output, expected_output, metadata, **_):
        if metadata["kind"] == "exact": return exact_score(output, metadata)[0]
        return judge(output)
    return dataset.run_experiment(task=print, evaluators=[item_evaluator])
"""
    with pytest.raises(EvaluatorError, match=r"scores with is `item_evaluator\(.*local to `run_experiment`.* `judge`"):
        parse_evaluator(source, "s")
    assert parse_evaluator(source, "s", entry="exact_score").entry == "exact_score"
