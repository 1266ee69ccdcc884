"""What calls give: each Python dialect that needs no package, in the shapes that are published, in the wasm sandbox."""

from __future__ import annotations

import pytest

from runner.core.types import InputMapping
from tests.inputs.foreign.published import OBJECTS, Published, check

PROMPTFOO = [
    Published(
        "promptfoo's docs, a Python file",
        "from typing import Any, Dict, Union\n\n\n"
        "def get_assert(output: str, context) -> Union[bool, float, Dict[str, Any]]:\n"
        "    return {'pass': True, 'score': 0.6, 'reason': f'about {context[\"vars\"][\"topic\"]}'}\n",
        [("pass", 0.6)] * 2,
    ),
    Published(
        "promptfoo's docs, component results",
        "def get_assert(output, context):\n    parts = [{'pass': True, 'score': 1, 'reason': 'short'}]\n"
        "    return {'pass_': False, 'score': 0.5, 'reason': 'mixed', 'component_results': parts}\n",
        [("fail", 0.5)] * 2,
    ),
    Published(
        "promptfoo's docs, a dataclass as a dict, in a function of its own name",
        "from dataclasses import asdict, dataclass\n\n\n@dataclass\nclass Grade:\n    pass_: bool\n    score: float\n"
        "    reason: str\n\n\ndef graded(output, context):\n    return asdict(Grade(output.isdigit(), 1.0, 'r'))\n",
        [("pass", 1.0), ("fail", 1.0)],
        entry="graded",
    ),
    Published(
        "promptfoo's docs, inline expression",
        "output == '{{ expected }}'",
        [("pass", 1.0), ("fail", 0.0)],
        entry="<inline>",
    ),
    Published(
        "promptfoo's docs, inline lines",
        "import math\nif output.isdigit():\n  return math.sqrt(float(output))\nreturn {'pass': False, 'score': 0.5, "
        "'reason': context['vars']['question']}",
        [("pass", 2.0), ("fail", 0.5)],
        entry="<inline>",
    ),
    Published(
        "an apostrophe in a value breaks the code of its row alone, as there",
        "'{{ quote }}' == output",
        ["raised", ("pass", 1.0)],
        rows=[{"output": "x", "quote": "it's"}, {"output": "y", "quote": "y"}],
        entry="<inline>",
    ),
]

LANGSMITH = [
    Published(
        "LangSmith's page, custom code evaluator",
        "def perform_eval(run, example):\n"
        "    return {'exact_match': int(run['outputs']['answer'] == example['outputs']['answer'])}\n",
        [(None, 1.0), (None, 0.0)],
        OBJECTS,
    ),
    Published(
        "LangSmith's page, online evaluator",
        "def perform_eval(run):\n    text = run['outputs']['answer']\n"
        "    return {'long': len(text) > 3, 'n': len(text)}\n",
        [{"long": ("False", 0.0), "n": (None, 1.0)}] * 2,
        OBJECTS,
    ),
    Published(
        "LangSmith's docs, evaluate with inputs, outputs and reference outputs",
        "def correct(inputs: dict, outputs: dict, reference_outputs: dict) -> bool:\n"
        "    return outputs['answer'] == reference_outputs['answer']\n",
        [("True", 1.0), ("False", 0.0)],
        OBJECTS,
    ),
    Published(
        "LangSmith's docs, run and example with the SDK's types",
        "from langsmith.schemas import Example, Run\n\n\ndef concise(run: Run, example: Example) -> dict:\n"
        "    shorter = len(run.outputs['output']) <= len(example.outputs['output'])\n"
        "    return {'key': 'concise', 'score': shorter, 'comment': f'asked {example.inputs[\"question\"]}'}\n",
        [("True", 1.0), ("True", 1.0)],
    ),
    Published(
        "LangSmith's docs, categorical",
        "def kind(outputs):\n    return 'digit' if outputs['output'].isdigit() else 'word'\n",
        [("digit", None), ("word", None)],
    ),
    Published(
        "LangSmith's docs, several metrics from one evaluator",
        "def both(outputs, reference_outputs):\n    same = outputs['output'] == reference_outputs['output']\n"
        "    return [{'key': 'same', 'score': same}, {'key': 'length', 'score': len(outputs['output'])}]\n",
        [{"same": ("True", 1.0), "length": (None, 1.0)}, {"same": ("False", 0.0), "length": (None, 5.0)}],
    ),
    Published(
        "LangSmith's docs, EvaluationResult and a parameter with a default",
        "from langsmith.evaluation import EvaluationResult, run_evaluator\n\n\n@run_evaluator\n"
        "def near(run, example, least=0.5):\n    return EvaluationResult(key='near', score=least, comment='set')\n",
        [(None, 0.25)] * 2,
        mapping=InputMapping(literals={"least": 0.25}),
    ),
    Published(
        "the SDK's own refusals", "def empty(outputs):\n    return {} if outputs['output'] == '4' else None\n",
        ["invalid_result"] * 2,
    ),
    Published(
        "LangSmith's page, keys that a row does not have are mapped",
        "def perform_eval(run, example):\n"
        "    return {'same': int(run['outputs']['answer'] == example['outputs']['answer'])}\n",
        [(None, 1.0), (None, 0.0)],
        mapping=InputMapping(paths={"outputs.answer": "output", "reference_outputs.answer": "reference"}),
    ),
    Published(
        "any two names are run and example", "def mine(r, e):\n    return r.outputs == e.outputs\n",
        [("True", 1.0), ("False", 0.0)], dialect="langsmith",
    ),
]  # fmt: skip

LANGFUSE = [
    Published(
        "Langfuse's page, code evaluator",
        "def evaluate(ctx: EvaluationContext) -> EvaluationResult:\n"
        "    same = ctx.observation.output == ctx.experiment.item_expected_output\n"
        "    return EvaluationResult(scores=[Score(name='exact', value=1 if same else 0, comment='compared')])\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "Langfuse's page, several scores and data types",
        "def evaluate(ctx):\n    text = ctx.observation.output\n    return {'scores': [\n"
        "        {'name': 'digits', 'value': 'true' if text.isdigit() else 'false', 'dataType': 'BOOLEAN'},\n"
        "        {'name': 'kind', 'value': 'short', 'data_type': 'CATEGORICAL'},\n    ]}\n",
        [
            {"digits": ("True", 1.0), "kind": ("short", None)},
            {"digits": ("False", 0.0), "kind": ("short", None)},
        ],
    ),
    Published(
        "Langfuse's page, awaited, metadata of the observation and of the item",
        "async def evaluate(ctx):\n    experiment = ctx.experiment\n"
        "    same = ctx.observation.metadata['topic'] == experiment.item_metadata['topic']\n"
        "    return EvaluationResult(scores=[Score(float(same), 'same')])\n",
        [(None, 1.0)] * 2,
    ),
    Published(
        "Langfuse's page, a score by place has its value first; text of a truth, and a score that is text",
        "def evaluate(ctx):\n    kind = ctx.observation.output\n    truth = Score(' TRUE ', 'truth', 'BOOLEAN')\n"
        "    if kind == '4':\n        return EvaluationResult([truth, Score('said', 'about', 'TEXT')])\n"
        "    return EvaluationResult([Score(0.5, 'a', comment=5)])\n",
        [{"truth": ("True", 1.0), "about": ("said", None)}, "invalid_result"],
    ),
    Published(
        "the page's own refusals",
        "def evaluate(ctx):\n    value = ctx.observation.output == '4'\n"
        "    return EvaluationResult(scores=[Score(name='x', value=value)] if value else [])\n",
        ["invalid_result"] * 2,
    ),
    Published(
        "Langfuse's docs, experiments with the SDK",
        "from langfuse import Evaluation\n\n\ndef accuracy(*, input, output, expected_output=None, **kwargs):\n"
        "    if expected_output and expected_output.lower() in output.lower():\n"
        "        return Evaluation(name='accuracy', value=1.0, comment='found')\n"
        "    return Evaluation(name='accuracy', value=0.0)\n",
        [(None, 1.0)] * 2,
    ),
    Published(
        "Langfuse's docs, several evaluations",
        "from langfuse import Evaluation\n\n\ndef many(*, output, expected_output, metadata, **kwargs):\n"
        "    topic = Evaluation(name='topic', value=metadata['topic'])\n"
        "    return [Evaluation(name='length', value=len(output)), topic]\n",
        [{"length": (None, 1.0), "topic": ("math", None)}, {"length": (None, 5.0), "topic": ("world", None)}],
    ),
    Published(
        "the SDK leaves out what is no Evaluation",
        "def nothing(*, output, expected_output, **kwargs):\n    return None if output == '4' else 0.5\n",
        ["abstained"] * 2,
    ),
]

BRAINTRUST = [
    Published(
        "Braintrust's page, Python scorer",
        "def handler(input, output, expected, metadata):\n    return 1.0 if output == expected else 0.0\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "Braintrust's docs, a scorer that returns None",
        "def handler(output, expected, input=None, **kwargs):\n"
        "    return None if kwargs['metadata']['topic'] == 'math' else 0.5\n",
        ["abstained", (None, 0.5)],
    ),
    Published(
        "Braintrust's docs, Score of autoevals",
        "from autoevals import Score\n\n\ndef equal(output, expected):\n"
        "    return Score(name='equal', score=int(output == expected), metadata={'n': len(output)})\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "Braintrust's docs, several scores",
        "from braintrust import Score\n\n\ndef handler(output, expected):\n"
        "    return [Score(name='a', score=1), {'name': 'b', 'score': 0.5}]\n",
        [{"a": (None, 1.0), "b": (None, 0.5)}] * 2,
    ),
    Published(
        "Braintrust's docs, the file of an evaluation: its `Eval` is not run",
        "from braintrust import Eval\n\n\ndef exact(input, output, expected):\n    return output == expected\n\n\n"
        "Eval('Say Hi', data=lambda: [{'input': 'Foo'}], task=lambda input: 'Hi ' + input, scores=[exact])\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "autoevals' README, a scorer of one's own",
        "from autoevals import Score\nfrom autoevals.score import Scorer\n\n\nclass Same(Scorer):\n"
        "    def __init__(self, least=0):\n        self.least = least\n\n"
        "    def _run_eval_sync(self, output, expected=None, **kwargs):\n"
        "        return Score(name=self._name(), score=max(self.least, int(output == expected)))\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "autoevals' own base, of which only the scoring is defined",
        "from autoevals import Score\nfrom autoevals.partial import ScorerWithPartial\n\n\n"
        "class Same(ScorerWithPartial):\n    def _run_eval_sync(self, output, expected=None, least=0, **kwargs):\n"
        "        return Score(name=self._name(), score=max(least, int(output == expected)))\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "the same with arguments of its own",
        "from autoevals import Score\nfrom autoevals.partial import ScorerWithPartial\n\n\n"
        "class Same(ScorerWithPartial):\n    def _run_eval_sync(self, output, expected=None, least=0, **kwargs):\n"
        "        return Score(name=self._name(), score=max(least, int(output == expected)))\n\n\n"
        "Near = Same.partial(least=0.5)\n",
        [(None, 1.0), (None, 0.5)], entry="Near", dialect="braintrust",
    ),
    Published(
        "Braintrust's framework, names that it does not know are given by position, input first",
        "def compare(first, expected):\n    return float(first['question'] == '2 + 2')\n",
        [(None, 1.0), (None, 0.0)], dialect="braintrust",
    ),
    Published(
        "the framework's own refusals",
        "def handler(output, expected):\n    return 1.5 if output == '4' else 'good'\n",
        ["invalid_result"] * 2,
    ),
]  # fmt: skip

OPENAI = [
    Published(
        "OpenAI's docs, Python graders",
        "def grade(sample, item) -> float:\n    return 1.0 if sample['output_text'] == item['reference'] else 0.0\n",
        [(None, 1.0), (None, 0.0)],
    ),
    Published(
        "OpenAI's docs, structured output",
        "def grade(sample: dict, item: dict):\n    return float(sample['output_json']['answer'])\n",
        [(None, 4.0), (None, 7.0)],
        OBJECTS,
    ),
    Published(
        "OpenAI's docs, string check",
        '{"type": "string_check", "name": "same", "input": "{{sample.output_text}}", '
        '"reference": "{{ item.reference }}", "operation": "ilike"}',
        [("pass", 1.0), ("pass", 1.0)],
        entry="<json>",
    ),
    Published(
        "OpenAI's docs, text similarity",
        '{"type": "text_similarity", "name": "near", "input": "{{sample.output_text}}", '
        '"reference": "{{item.reference}}", "evaluation_metric": "fuzzy_match"}',
        [(None, 1.0), (None, 0.8)],
        entry="<json>",
    ),
    Published(
        "OpenAI's docs, a Python grader in a request",
        '{"grader": {"type": "python", "image_tag": "2025-05-08", '
        '"source": "def grade(sample, item):\\n    return len(item[\'topic\'])\\n"}}',
        [(None, 4.0), (None, 5.0)],
        entry="<json>",
    ),
    Published(
        "OpenAI's docs, multi grader",
        '{"type": "multi", "calculate_output": "max(0, 0.5 * same + near / 2)", "graders": {'
        '"same": {"type": "string_check", "input": "{{sample.output_text}}", "reference": "{{item.reference}}", '
        '"operation": "eq"}, "near": {"type": "text_similarity", "input": "{{sample.output_text}}", '
        '"reference": "{{item.reference}}", "evaluation_metric": "rouge_l"}}}',
        [(None, 1.0), (None, 0.5)],
        entry="<json>",
    ),
    Published(
        "OpenAI's docs, `^` is power and binds before `*`, and `neq`",
        '{"type": "multi", "calculate_output": " 2 * 3 ^ 2 + (other + 1) ^ 2", "graders": {'
        '"other": {"type": "string_check", "input": "{{sample.output_text}}", "reference": "{{item.reference}}", '
        '"operation": "neq"}}}',
        [(None, 19.0), (None, 22.0)],
        entry="<json>",
    ),
]

EVERY = {
    "promptfoo": PROMPTFOO,
    "langsmith": LANGSMITH,
    "langfuse": LANGFUSE,
    "braintrust": BRAINTRUST,
    "openai": OPENAI,
}


@pytest.mark.rotating("dialect", "foreign", "scripts")
@pytest.mark.parametrize("dialect", EVERY)
def test_published_scripts_run_as_they_are(dialect: str) -> None:
    check(dialect, EVERY[dialect])
