"""What a script of another tool is bound to: the tool that it is read as, objects that it makes, and what rows lack."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.guest.foreign.mlflow import object_of
from sandboxes.guest.foreign.vendor import FactoryCache, case_words, plain, text_or_none


def read(source: str, entry: str | None = None) -> tuple[str | None, str | None]:
    evaluator = parse_evaluator(source, "script", "script.py", entry=entry)
    return evaluator.dialect, evaluator.entry


def scores(source: str, *rows: dict[str, Any]) -> list[Any]:
    return [one.score for one in runner.evaluate(parse_evaluator(source, "script"), list(rows), sandbox="wasm").results]


def required(source: str, entry: str | None = None) -> set[str]:
    evaluator = parse_evaluator(source, "script", "script.py", entry=entry)
    return {one.name for one in evaluator.parameters if one.required}


SCORE = "def f(input=None, output=None, **kwargs):\n    return Score(name='f', score=float(output == 'a'))\n"
EVALUATION = (
    "def f(*, input, output, **kwargs):\n    return Evaluation(name='f', value=Levenshtein()(output, 'a').score)\n"
)


@pytest.mark.parametrize("entry", [None, "f"])
def test_a_function_of_shared_words_is_of_the_tool_whose_result_it_returns(entry: str | None) -> None:
    assert read(f"from autoevals import Score\n\n\n{SCORE}", entry) == ("braintrust", "f")
    assert read(f"from braintrust import Score\n\n\n{SCORE}", entry) == ("braintrust", "f")
    both = "from autoevals import Levenshtein\nfrom langfuse import Evaluation\n\n\n"
    assert read(both + EVALUATION, entry) == ("langfuse", "f")


def test_a_score_of_braintrust_is_scored() -> None:
    source = f"from autoevals import Score\n\n\n{SCORE}"
    assert scores(source, {"input": "q", "output": "a"}, {"input": "q", "output": "b"}) == [1.0, 0.0]


def test_words_alone_make_no_evaluator_of_langfuse() -> None:
    source = "def f(input, output, **kwargs):\n    return float(output == 'a')\n"
    assert read(source, "f") == (None, "f")
    assert scores(source.replace("def f", "def evaluate"), {"input": "q", "output": "a"}) == [1.0]


def test_what_judges_all_rows_is_not_asked_about_beside_what_judges_one() -> None:
    own = "def same(*, output, expected_output, **kwargs):\n    return {'name': 'a', 'value': 1}\n"
    other = "def mean(*, item_results, **kwargs):\n    return {'name': 'a', 'value': 1}\n"
    assert read(own + other) == ("langfuse", "same")
    assert read(own + other, "mean") == ("langfuse", "mean")


OPTIONAL = "def f(run, example: Example | None = None):\n    return run.outputs['output'] == example.outputs['label']\n"
CLASS = (
    "from langsmith.evaluation import EvaluationResult, RunEvaluator\n\n\n"
    "class Same(RunEvaluator):\n    def evaluate_run(self, run, example=None, evaluator_run_id=None):\n"
    "        good = run.outputs['output'] == example.outputs['label']\n"
    "        return EvaluationResult(key='same', score=good)\n"
)
WORD = (
    "from langsmith.evaluation import EvaluationResult, RunEvaluator\n\n\n"
    "class Has(RunEvaluator):\n    def __init__(self, word):\n        self.word = word\n\n"
    "    async def aevaluate_run(self, run, example=None):\n"
    "        return EvaluationResult(key='has', score=self.word in run.outputs['output'])\n"
)


@pytest.mark.parametrize("source", [f"from langsmith.schemas import Example\n\n\n{OPTIONAL}", CLASS])
def test_an_example_with_a_default_is_given(source: str) -> None:
    assert read(source)[0] == "langsmith"
    rows = [{"output": "a", "label": "a"}, {"output": "a", "label": "b"}]
    assert scores(source, *rows) == [1.0, 0.0]


def test_a_class_that_needs_arguments_is_refused_with_what_to_write_which_works() -> None:
    wanted = r"Has needs `word` to be made; add `metric = Has\(word=…\)`.*`script.py:metric`"
    with pytest.raises(EvaluatorError, match=wanted):
        parse_evaluator(WORD, "script", "script.py")
    source = f"{WORD}\n\nmetric = Has(word='b')\n"
    assert read(source) == ("langsmith", "metric")
    assert scores(source, {"output": "abc"}, {"output": "ac"}) == [1.0, 0.0]


OPIK = "from opik.evaluation.metrics import BaseMetric\n\n\nclass Has(BaseMetric):\n    def __init__(self, word):\n"
OPIK += "        self.word = word\n\n    def score(self, output, **ignored):\n        return self.word in output\n"
MADE = {
    "opik": (OPIK, "metric = Has('a')"),
    "deepeval": (
        "from deepeval.metrics import BaseMetric\n\n\nclass A(BaseMetric):\n    def measure(self, test_case):\n"
        "        return 1\n",
        "metric = A(threshold=1)",
    ),
    "pydantic-evals": (
        "from pydantic_evals.evaluators import Evaluator\n\n\nclass A(Evaluator):\n    def evaluate(self, ctx):\n"
        "        return ctx.output\n",
        "metric = A()",
    ),
    "mlflow": (
        "from mlflow.genai.scorers import Scorer\n\n\nclass A(Scorer):\n    def __call__(self, outputs):\n"
        "        return 1\n",
        "metric = A(name='a')",
    ),
    "weave": (
        "import weave\n\n\nclass A(weave.Scorer):\n    def score(self, output):\n        return 1\n",
        "metric = A(name='a')",
    ),
    "ragas": (
        "from ragas.metrics.base import SingleTurnMetric\n\n\nclass A(SingleTurnMetric):\n"
        "    async def _single_turn_ascore(self, sample, callbacks):\n        return sample.response\n",
        "metric = A()",
    ),
    "inspect": (
        "from inspect_ai.scorer import scorer\n\n\n@scorer(metrics=[])\ndef near(tolerance):\n"
        "    async def score(state, target):\n        return state\n    return score\n",
        "metric = near(1)",
    ),
}


@pytest.mark.parametrize("dialect", MADE)
def test_what_a_script_makes_of_a_class_is_an_entry(dialect: str) -> None:
    source, made = MADE[dialect]
    assert read(f"{source}\n\n{made}\n") == (dialect, "metric")
    assert read(f"{source}\n\n{made}\n", "metric") == (dialect, "metric")


def test_a_metric_of_opik_that_needs_arguments_is_refused_with_what_to_write() -> None:
    with pytest.raises(EvaluatorError, match=r"Has needs `word` to be made; add `metric = Has\(word=…\)`"):
        parse_evaluator(OPIK, "script", "script.py")


def test_nothing_as_an_output_stands_under_the_key_that_is_read() -> None:
    source = "def f(outputs, reference_outputs):\n    return outputs['answer'] == reference_outputs['label']\n"
    assert scores(source, {"output": None, "label": "a"}, {"output": "a", "label": "a"}) == [0.0, 1.0]


def test_an_object_in_the_text_of_a_cell_is_read_by_its_keys() -> None:
    source = "def f(outputs, reference_outputs):\n    return outputs['answer'] == reference_outputs['label']\n"
    assert scores(source, {"outputs": '{"answer": "a"}', "reference_outputs": '{"label": "a"}'}) == [1.0]
    assert scores(source, {"outputs": "{a}", "reference_outputs": '{"label": "{a}"}'}) == [1.0]


def test_no_key_is_looked_for_in_vain_in_what_is_no_object_of_mlflow() -> None:
    assert object_of("a", "reference", "expected_response", ["label"]) == {"label": "a"}
    assert object_of(None, "reference", "expected_response", ["label"]) == {}
    assert object_of('{"label": "a"}', "reference", "expected_response", ["label"]) == {"label": "a"}
    with pytest.raises(TypeError, match=r"reads label, topic of it; map reference\.label"):
        object_of("a", "reference", "expected_response", ["label", "topic"])
    alone: Any = object_of("a", "reference", "expected_response", ["label"])
    assert "error" not in alone
    for look in (alone.get, alone.__getitem__):
        with pytest.raises(TypeError, match=r"reads topic of it; map reference\.topic"):
            look("topic")
    assert object_of("a", "reference", "expected_response", ["label", "expected_response"]).get("label") is None
    whole: Any = object_of("a", "reference", "expected_response", [])
    for use in (lambda: whole == "a", lambda: list(whole), lambda: dict(whole), lambda: str(whole)):
        with pytest.raises(TypeError, match="the row's reference is no object, and MLflow gives one here"):
            use()
    assert whole["expected_response"] == "a"


RAGAS = MADE["ragas"][0].replace("sample.response", "len(sample.retrieved_contexts or [])")
DEEPEVAL = MADE["deepeval"][0].replace("return 1", "return len(test_case.retrieval_context or [])")


def test_an_output_is_asked_for_only_where_something_reads_it() -> None:
    assert required(RAGAS) == {"retrieved_contexts"}
    assert required(DEEPEVAL) == {"retrieval_context"}
    assert required(MADE["ragas"][0]) == {"output"}
    item = "def grade(sample, item):\n    return float(len(item['messages']))\n"
    assert required(item) == {"item.messages"}
    assert scores(item, {"messages": ["a", "b"]}) == [2.0]
    assert "output" in required("def grade(sample, item):\n    return float(sample['output_text'] == item['a'])\n")
    assert required("from ragas.metrics import NonLLMContextRecall\n\nmetric = NonLLMContextRecall()\n") == {
        *("retrieved_contexts", "reference_contexts")
    }


def test_a_field_that_a_metric_asks_for_itself_may_be_absent() -> None:
    guarded = MADE["deepeval"][0].replace(
        "return 1",
        "return test_case.actual_output if test_case.context is None else 1",
    )
    assert required(guarded) == {"output"}
    assert {"output"} < {one.name for one in parse_evaluator(guarded, "script", "script.py").parameters}


def test_an_instance_of_phoenix_is_read_as_its_class() -> None:
    source = (
        "from phoenix.experiments.evaluators import CodeEvaluator\n\n\nclass Same(CodeEvaluator):\n"
        "    def evaluate(self, output, expected):\n        return {'score': float(output == expected)}\n\n\n"
    )
    assert required(source) == {"output", "reference"}
    assert required(f"{source}same = Same()\n") == {"output", "reference"}


LM_EVAL = (
    "def process_results(doc, results):\n    good = results[0].strip() == doc['answer']\n"
    "    return {'exact_match': int(good), 'pair': (1, 2), 'long': len(results[0])}\n"
)
LIKELY = (
    "def process_results(doc, results):\n    (value, greedy), = results\n    return {'acc': greedy, 'value': value}\n"
)


def test_a_task_of_lm_eval_is_given_a_row_of_its_samples_or_of_its_dataset() -> None:
    assert read(LM_EVAL) == ("lm-eval", "process_results")
    assert read("def process_results_mgsm(doc, prediction):\n    return {}\n") == ("lm-eval", "process_results_mgsm")
    rows: list[dict[str, Any]] = [
        {"doc": {"answer": "4"}, "filtered_resps": [" 4"], "target": "5"},
        {"answer": "4", "output": "4"},
        {"answer": "4", "output": "5"},
        {"doc": '{"answer": "4"}', "output": ["4"]},
    ]
    found = runner.evaluate(parse_evaluator(LM_EVAL, "script"), rows, sandbox="wasm").results
    assert [one.outputs["exact_match"].score for one in found] == [1, 1, 0, 1]
    assert set(found[0].outputs) == {"exact_match", "long"}


def test_a_likelihood_of_lm_evals_samples_is_a_number_and_a_bool() -> None:
    (found,) = runner.evaluate(
        parse_evaluator(LIKELY, "script"), [{"doc": {}, "filtered_resps": [["-4.5", "False"]]}], sandbox="wasm"
    ).results
    assert (found.outputs["acc"].score, found.outputs["value"].score) == (0.0, -4.5)


def test_a_bool_of_numpy_is_a_bool() -> None:
    numpy = pytest.importorskip("numpy")
    assert plain(numpy.argmax([3, 1]) == 0) == {"label": "True", "score": 1.0, "explanation": None}


def test_nothing_is_not_the_text_null() -> None:
    assert text_or_none({"output": None}, "output") is None
    assert text_or_none({"output": {"a": None}}, "output") == '{"a": null}'
    assert text_or_none({"output": "null"}, "output") == "null"


class Numeric:
    def __init__(self, expected_output: Any, threshold: float = 0.5) -> None:
        self.made_with = (expected_output, threshold)


def test_a_class_that_needs_a_part_of_the_row_is_made_with_it() -> None:
    cache = FactoryCache(Numeric)
    words = [case_words({"reference": one, "metadata": {"a": 1}}, expected_output="reference") for one in (1, 2, None)]
    assert [cache({}, one).made_with for one in words] == [(1, 0.5), (2, 0.5), (None, 0.5)]
    assert cache({"expected_output": 7, "threshold": 1}, words[0]).made_with == (7, 1)
    with pytest.raises(TypeError, match="or map expected_output to a column, or set it to a value for all rows"):
        cache({}, case_words({"output": 1}, expected_output="reference"))


NEEDS = {
    "deepeval": "from deepeval.metrics import BaseMetric\n\n\nclass A(BaseMetric):\n"
    "    def __init__(self, keywords, expected_output):\n        self.keywords = keywords\n\n"
    "    def measure(self, test_case):\n        return 1\n",
    "pydantic-evals": "from dataclasses import dataclass\n\nfrom pydantic_evals.evaluators import Evaluator\n\n\n"
    "@dataclass\nclass A(Evaluator):\n    keywords: list\n    expected_output: str\n\n"
    "    def evaluate(self, ctx):\n        return 1\n",
}


@pytest.mark.parametrize("dialect", NEEDS)
def test_what_a_class_needs_to_be_made_is_asked_for_as_a_column(dialect: str) -> None:
    evaluator = parse_evaluator(NEEDS[dialect], "script", "script.py")
    rows = [{"response": "a", "expected_keywords": ["a"], "expected_output": "b"}]
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(evaluator, rows)
    assert caught.value.paths == {"output": "response", "keywords": "expected_keywords"}
    made = parse_evaluator(f"{NEEDS[dialect]}\n\nmetric = A(['a'], 'b')\n", "script", "script.py")
    assert {one.name for one in made.parameters if one.required} == {"output"}
