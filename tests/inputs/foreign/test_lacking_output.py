"""A dataset without the output that a script reads stops before the run, in every dialect of Python."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind

ROWS: list[dict[str, Any]] = [
    {"question": "q", "prediction": "4", "expected": "4"},
    {"question": "r", "prediction": "5", "expected": "4"},
]
WEAVE_OP = "import weave\n\n\n@weave.op\ndef f("
WEAVE = "from weave import Scorer\n\n\nclass F(Scorer):\n    n: int = 1\n\n    def score(self, "
OPIK = "from opik.evaluation.metrics import base_metric\n\n\nclass F(base_metric.BaseMetric):\n    def score(self, "
PHOENIX = "from phoenix.evals import create_evaluator\n\n\n@create_evaluator(name='a')\ndef f("
EXPERIMENT = "from phoenix.experiments.evaluators import {0}\n\n\n"
RAGAS = "from ragas.metrics import discrete_metric\n\n\n@discrete_metric(name='a', allowed_values=['pass'])\ndef f("
SAME = "):\n    return output == expected\n"
KEYWORDS = "**kw):\n        return kw.get('output') == kw['expected']\n"
HELPER = "\n    def go(self, output=None, expected=None, **kw):\n        return output == expected\n"
SCRIPTS = {
    "weave, a function": WEAVE_OP + "output, expected" + SAME,
    "weave, the older name": WEAVE_OP + "model_output, expected):\n    return model_output == expected\n",
    "weave, a default": WEAVE_OP + "expected, output=None" + SAME,
    "weave, a class": WEAVE + "output, expected):\n        return output == expected\n",
    "weave, keywords": WEAVE + "*, output, **kw):\n        return output == kw['expected']\n",
    "weave, inherited": WEAVE + "output, expected):\n        return 1\n\n\nclass G(F):\n    m: int = 2\n",
    "weave, made": WEAVE + "output, expected):\n        return 1\n\n\nf = F(n=2)\n",
    "opik": OPIK + "output, expected, **ignored):\n        return output == expected\n",
    "opik, keywords": OPIK + KEYWORDS,
    "opik, an index": OPIK + "**kw):\n        said = kw['output']\n        return said == kw['expected']\n",
    "opik, taken out": OPIK + "**kw):\n        return kw.pop('output', None) == kw['expected']\n",
    "opik, handed on": OPIK + "**kw):\n        return self.go(**kw)\n" + HELPER,
    "opik, inherited": OPIK + KEYWORDS + "\n\nclass G(F):\n    pass\n",
    "phoenix": PHOENIX + "output, expected" + SAME,
    "phoenix, keywords": PHOENIX + KEYWORDS,
    "phoenix, an experiment": EXPERIMENT.format("create_evaluator")
    + "@create_evaluator()\ndef f(output, expected"
    + SAME,
    "phoenix, an experiment's class": EXPERIMENT.format("Evaluator")
    + "class F(Evaluator):\n    def evaluate(self, "
    + KEYWORDS,
    "ragas": RAGAS + "response, reference):\n    return response == reference\n",
    "ragas, keywords": RAGAS + "**kw):\n    return kw.get('response') == kw['expected']\n",
    "mlflow": "from mlflow.genai import scorer\n\n\n@scorer\ndef f(**kw):\n    return kw.get('outputs') == 1\n",
    "deepeval": "from deepeval.metrics import BaseMetric\n\n\nclass F(BaseMetric):\n    def measure(self, case):\n"
    "        return getattr(case, 'actual_output', None) == case.expected_output\n",
    "pydantic-evals": "from pydantic_evals.evaluators import Evaluator\n\n\nclass F(Evaluator):\n"
    "    def evaluate(self, ctx):\n        return ctx.output == 1\n",
    "braintrust": "def handler(**kw):\n    return kw.get('output') == kw.get('expected')\n",
    "langfuse": "from langfuse import Evaluation\n\n\ndef f(*, input, output, **kw):\n"
    "    return Evaluation(name='s', value=output == kw.get('expected_output'))\n",
    "langsmith": "def f(run, example):\n    return {'score': run.outputs.get('output') == 1}\n",
    "lm-eval": "def process_results(doc, results):\n    return {'acc': doc['expected'] == results[0]}\n",
    "trl": "def f(completions, **kw):\n    return [float(a == b) for a, b in zip(completions, kw['expected'])]\n",
    "openai": "def grade(sample, item):\n    return sample.get('output_text') == item.get('expected')\n",
    "promptfoo": "def get_assert(output, context):\n    return output == context['vars']['expected']\n",
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_an_output_that_a_script_reads_is_asked_for(case: str) -> None:
    evaluator = parse_evaluator(SCRIPTS[case], "script", "script.py")
    assert evaluator.dialect == case.partition(",")[0]
    with pytest.raises(ColumnsError, match="no column for `output`") as caught:
        runner.evaluate(evaluator, ROWS)
    assert caught.value.paths["output"] == "prediction"


def test_keys_that_are_read_of_the_output_are_proposed_as_its_parts() -> None:
    source = WEAVE_OP + "output, expected):\n    return output.get('answer') == expected\n"
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(parse_evaluator(source, "script"), ROWS)
    assert caught.value.paths["output.answer"] == "prediction"


@pytest.mark.parametrize(
    "source",
    [
        OPIK + "prediction, expected, **ignored):\n        return prediction == expected\n",
        OPIK + "**kw):\n        return kw['prediction'] == kw['expected']\n",
        OPIK + "**kw):\n        return (kw.get('output') or kw.get('prediction')) == kw['expected']\n",
    ],
)
def test_a_script_that_reads_another_column_needs_no_output(source: str) -> None:
    evaluator = parse_evaluator(source, "script")
    needs, others = bind(evaluator).needs(), bind(evaluator).others
    assert all({name, *others.get(name, ())} & ROWS[0].keys() for name in needs)


def test_one_of_the_columns_that_a_script_reads_for_its_output_is_enough_and_none_stops() -> None:
    source = OPIK + "**kw):\n        return (kw.get('output') or kw.get('prediction')) == kw['expected']\n"
    with pytest.raises(ColumnsError, match="no column for `prediction`"):
        runner.evaluate(parse_evaluator(source, "script"), [{"said": "4", "expected": "4"}])
    assert bind(parse_evaluator(source, "script")).others["prediction"] == ("prediction", "output")
