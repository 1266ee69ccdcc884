"""What is decorated as a tool's inside a function of the script: it is called there, and what it makes is named."""

from __future__ import annotations

import pytest

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

INSIDE = {
    "ragas": (
        "from ragas.metrics import discrete_metric\n\n\ndef make(llm):\n    @discrete_metric(name='cites')\n"
        "    def cites(response, source):\n        return 'pass' if '[1]' in response else 'fail'\n    return cites\n",
        "script:6: `cites` is a Ragas metric that only `make` makes: call it at the end of the script with what it "
        "needs, as `metric = make(llm=…)`, and name script:metric; `llm` is for the script to make, as evalcell brings "
        "no model",
    ),
    "inspect": (
        "from inspect_ai.scorer import Score, scorer\n\n\ndef make(word):\n    @scorer(metrics=[])\n    def has():\n"
        "        async def score(state, target):\n            return Score(value=word in state.output.completion)\n"
        "        return score\n    return has()\n",
        "script:6: `has` is an Inspect scorer that only `make` makes: call it at the end of the script with what it "
        "needs, as `metric = make(word=…)`, and name script:metric",
    ),
    "mlflow": (
        "from mlflow.genai import scorer\n\n\ndef make(most=9):\n    @scorer\n    def short(outputs):\n"
        "        return len(outputs) < int(most)\n    return short\n",
        "script:6: `short` is an MLflow scorer that only `make` makes: call it at the end of the script, as "
        "`metric = make()`, and name script:metric",
    ),
}


@pytest.mark.parametrize("dialect", INSIDE)
@pytest.mark.parametrize("entry", [None, "make"])
def test_what_a_function_makes_is_called_and_named(dialect: str, entry: str | None) -> None:
    source, says = INSIDE[dialect]
    with pytest.raises(EvaluatorError) as caught:
        parse_evaluator(source, "script", entry=entry)
    assert str(caught.value) == says
    made = source + "\n\nmetric = make('9')\n"
    evaluator = parse_evaluator(made, "script", entry="metric")
    assert (evaluator.dialect, evaluator.entry) == (dialect, "metric")
    assert parse_evaluator(made, "script").entry == "metric"


def test_a_function_of_a_row_beside_it_is_called_as_ever() -> None:
    source = INSIDE["inspect"][0] + "\n\ndef evaluate(output, reference):\n    return output == reference\n"
    assert parse_evaluator(source, "script").dialect is None


def test_a_method_of_a_class_in_a_function_is_given_its_instance() -> None:
    source = "import weave\n\n\ndef make():\n    class S(weave.Scorer):\n        @weave.op\n"
    source += (
        "        def score(self, output: str, task: str = '', **kwargs):\n            return {'ok': task in output}\n"
    )
    source += "    return S()\n\n\nmetric = make()\n"
    evaluator = parse_evaluator(source, "script")
    assert (evaluator.dialect, evaluator.entry) == ("weave", "metric")
    assert not {"self", "input"} & {one.name for one in evaluator.parameters if one.required}


IMPORTED_INSIDE = """
def _extract(inputs, outputs):
    return str(inputs), str(outputs)


def _make_panel_scorer():
    from mlflow.genai.scorers import scorer

    @scorer
    def panel(inputs, outputs):
        return len(_extract(inputs, outputs)[1])

    return panel
"""


@pytest.mark.parametrize("entry", [None, "panel", "_make_panel_scorer"])
def test_what_is_imported_inside_decorates_too(entry: str | None) -> None:
    with pytest.raises(EvaluatorError, match="`panel` is an MLflow scorer that only `_make_panel_scorer` makes"):
        parse_evaluator(IMPORTED_INSIDE, "script", entry=entry)
    made = parse_evaluator(f"{IMPORTED_INSIDE}\nmetric = _make_panel_scorer()\n", "script")
    assert (made.dialect, made.entry) == ("mlflow", "metric")


@pytest.mark.parametrize("parameters", ["run, example", "outputs, reference_outputs", "completions, **kwargs"])
def test_a_private_function_is_not_taken_on_its_own(parameters: str) -> None:
    source = f"def _helper({parameters}):\n    return [1.0]\n"
    with pytest.raises(EvaluatorError, match="has no function `evaluate`"):
        parse_evaluator(source, "script")
    assert parse_evaluator(source, "script", entry="_helper").dialect in ("langsmith", "trl")


def test_a_private_function_that_is_decorated_is_meant() -> None:
    source = "from mlflow.genai import scorer\n\n\n@scorer\ndef _panel(outputs):\n    return len(outputs)\n"
    assert parse_evaluator(source, "script").entry == "_panel"
