"""What is mapped or set by a name that a tool has not reaches the script, as an object by its keys, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import MappingError
from runner.core.types import InputMapping
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind
from runner.runs.project.suite import has
from tests.cli.commands import evalcell, run

LANGFUSE = """
from langfuse import Evaluation


def ev(*, output, expected_output=None, **kwargs):
    return Evaluation(name="x", value=float(kwargs.get("item", {}).get("p", -1)))
"""
BRAINTRUST = """
from autoevals import Score


def handler(output, expected=None, item=None):
    return Score(name="x", score=(item or {}).get("p", 0.0))
"""
BRAINTRUST_JS = """
import type { Score } from "autoevals";

export function handler(args: any) {
  return { name: "x", score: args.item?.p ?? 0, metadata: { expected: args.expected } };
}
"""
TRL = "def reward(completions, item=None, **kwargs):\n    return [float(one['p']) for one in item]\n"
TRL_SET = "def reward(completions, item=None, **kwargs):\n    return [float(item['p'])] * len(completions)\n"
VERL = (
    "def compute_score(data_source, solution_str, ground_truth, item=None, **kwargs):\n"
    "    return float((item or kwargs.get('item', {})).get('p', -1))\n"
)
PLAIN = "def evaluate(output, **kwargs):\n    return float(kwargs.get('item', {}).get('p', -1))\n"
PROMPTFOO = (
    "def get_assert(output, context):\n"
    "    return {'pass': True, 'score': context['config']['item']['p'], 'reason': 'r'}\n"
)
PROMPTFOO_JS = "module.exports = (output, context) => ({ pass: true, score: context.config.item.p, reason: output });\n"
OPIK = """
from opik.evaluation.metrics import base_metric, score_result


class M(base_metric.BaseMetric):
    def __init__(self, name="m"):
        self.name = name

    def score(self, output, item=None{}):
        return score_result.ScoreResult(name="m", value=float((item or {{}}).get("p", -1)))
"""
WEAVE = "import weave\n\n\n@weave.op()\ndef sc(output, expected=None) -> dict:\n    return {'x': 1.0}\n"
WEAVE_CLASS = (
    "import weave\n\n\nclass S(weave.Scorer):\n    limit: float = 1\n\n    @weave.op\n"
    "    def score(self, output, item=None) -> dict:\n        return {'x': 1.0}\n"
)
PHOENIX = (
    "from phoenix.evals import create_evaluator\n\n\n@create_evaluator(name='x', kind='code')\n"
    "def x(output, expected=None):\n    return 1.0\n"
)
MLFLOW = "from mlflow.genai.scorers import scorer\n\n\n@scorer\ndef x(outputs, expectations):\n    return 1.0\n"
INSPECT = (
    "from inspect_ai.scorer import Score, scorer\n\n\n@scorer(metrics=[])\ndef near(limit=1):\n"
    "    async def score(state, target):\n        return Score(value=1)\n\n    return score\n"
)
RAGAS = (
    "from ragas.metrics import numeric_metric\n\n\n@numeric_metric(name='x')\ndef x(response, reference=''):\n"
    "    return 1.0\n"
)
OPENAI = "def grade(sample, item):\n    return float(item['p'])\n"
LM_EVAL = "def process_results(doc, results):\n    return {'x': float(doc['p'])}\n"
PAGE = (
    "def evaluate(ctx):\n    return EvaluationResult(scores=[Score(name='x', value=float(ctx.observation.output))])\n"
)
PAGE_JS = (
    "export function evaluate(ctx: EvaluationContext) {\n"
    "  return { scores: [{ name: 'x', value: Number(ctx.observation.output) }] };\n}\n"
)
ROWS: list[dict[str, Any]] = [{"output": "3", "m": 0.25}, {"output": "4", "m": 0.5}]
VERL_ROWS = [{**row, "reference": "r", "data_source": "d"} for row in ROWS]

READS = [
    ("langfuse", LANGFUSE, "python", ROWS),
    ("braintrust", BRAINTRUST, "python", ROWS),
    ("braintrust", BRAINTRUST_JS, "typescript", [{**row, "reference": "r"} for row in ROWS]),
    ("trl", TRL, "python", ROWS),
    ("verl", VERL, "python", VERL_ROWS),
    ("promptfoo", PROMPTFOO, "python", ROWS),
    ("promptfoo", PROMPTFOO_JS, "typescript", ROWS),
    (None, PLAIN, "python", ROWS),
]
NAMES = [f"{dialect}-{language}" for dialect, _, language, _ in READS]


@pytest.mark.parametrize(("dialect", "source", "language", "rows"), READS, ids=NAMES)
def test_a_part_of_an_object_of_any_name_is_given(dialect: Any, source: str, language: Any, rows: Any) -> None:
    evaluator = parse_evaluator(source, "script", language=language)
    assert evaluator.dialect == dialect
    mapping = InputMapping(paths={"item.p": "m"})
    assert [one.score for one in runner.evaluate(evaluator, rows, mapping=mapping).results] == [0.25, 0.5]


@pytest.mark.parametrize(("dialect", "source", "language", "rows"), READS, ids=NAMES)
def test_a_part_of_an_object_of_any_name_is_set(dialect: Any, source: str, language: Any, rows: Any) -> None:
    evaluator = parse_evaluator(TRL_SET if dialect == "trl" else source, "script", language=language)
    mapping = InputMapping(literals={"item.p": 0.75})
    assert [one.score for one in runner.evaluate(evaluator, rows, mapping=mapping).results] == [0.75, 0.75]


@pytest.mark.parametrize("how", ["header", "toml", "option"])
def test_a_part_is_given_by_each_way_to_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.chdir(tmp_path)
    header = '# /// script\n# [tool.evalcell.mapping]\n# "item.p" = "m"\n# ///\n' if how == "header" else ""
    Path("lf.py").write_text(header + LANGFUSE)
    Path("rows.csv").write_text("output,m\n3,0.25\n4,0.5\n")
    if how == "toml":
        entry = '[run.a]\nevaluator = "lf.py"\ndataset = "rows.csv"\nmap = { "item.p" = "m" }\n'
        Path("evalcell.toml").write_text(entry)
    option = ["--map", "item.p=m"] if how == "option" else []
    result = evalcell("run") if how == "toml" else run("lf.py", "rows.csv", *option)
    assert result.exit_code == 0, result.output
    assert "mean 0.375" in result.output


@pytest.mark.parametrize("rest", ["", ", **kwargs"])
def test_a_metric_of_opik_is_bound_to_the_object(rest: str) -> None:
    binding = bind(parse_evaluator(OPIK.format(rest), "script"), InputMapping(paths={"item.p": "m"}))
    (case,) = cases_from_rows([{"output": "3", "m": 0.25}])
    assert binding.arguments(case)[1]["item"] == {"p": 0.25}


REFUSED = {
    "opik": OPIK.format(""),
    "weave": WEAVE,
    "weave class": WEAVE_CLASS,
    "phoenix": PHOENIX,
    "mlflow": MLFLOW,
    "inspect": INSPECT,
    "ragas": RAGAS,
    "openai": OPENAI,
    "lm-eval": LM_EVAL,
    "braintrust": BRAINTRUST,
    "langfuse": LANGFUSE.replace(", **kwargs", ", metadata=None, input=None").replace("kwargs.get('item', {})", "{}"),
    "langfuse page": PAGE,
    "langfuse page in TypeScript": PAGE_JS,
}


@pytest.mark.parametrize("name", ["bogus", "bogus.x"])
@pytest.mark.parametrize("tool", REFUSED)
@pytest.mark.parametrize("kind", ["paths", "literals"])
def test_a_name_that_the_script_does_not_take_is_refused(tool: str, name: str, kind: str) -> None:
    language: Any = "typescript" if "TypeScript" in tool else "python"
    evaluator = parse_evaluator(REFUSED[tool], "script", language=language)
    assert evaluator.dialect == tool.split()[0]
    with pytest.raises(MappingError, match="has no parameter `bogus`"):
        bind(evaluator, InputMapping(**{kind: {name: "m"}}))
    assert not has(evaluator, name)


def test_the_way_to_give_a_tools_own_object_one_more_key_is_said() -> None:
    with pytest.raises(MappingError, match=r"grade\(sample, item\) has no parameter `p`; write `item\.p`, or"):
        bind(parse_evaluator(OPENAI, "script"), InputMapping(paths={"p": "m"}))
    with pytest.raises(MappingError, match=r"write `doc\.p`"):
        bind(parse_evaluator(LM_EVAL, "script"), InputMapping(paths={"p": "m"}))
    for source, name in ((OPENAI, "item.p"), (LM_EVAL, "doc.p")):
        result = runner.evaluate(parse_evaluator(source, "script"), ROWS, mapping=InputMapping(paths={name: "m"}))
        assert [next(iter(one.outputs.values())).score if one.outputs else one.score for one in result.results]


def test_what_a_script_does_not_read_of_its_keywords_is_said() -> None:
    evaluator = parse_evaluator(LANGFUSE, "script")
    (note,) = bind(evaluator, InputMapping(paths={"itm.p": "m"})).notes
    assert note == "ev(output, expected_output, **…) does nothing with `itm`: it reads `item` of its **kwargs"
    assert bind(evaluator, InputMapping(paths={"item.p": "m"})).notes == []
    handed_on = LANGFUSE.replace("kwargs.get(", "dict(**kwargs).get(")
    assert bind(parse_evaluator(handed_on, "script"), InputMapping(paths={"itm.p": "m"})).notes == []
