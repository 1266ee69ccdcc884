"""Columns by a tool's own names, and what a script asks for that no column gives, in each dialect."""

from __future__ import annotations

import re
from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, MappingError
from runner.core.types import InputMapping
from runner.engine.scoring.label_notes import label_notes
from runner.engine.scoring.normalize import InvalidResultError, normalize
from runner.inputs.datasets import column_notes
from runner.inputs.datasets.peekable_cases import Lookahead
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.inline import read_inline
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind

DEEPEVAL = "from deepeval.metrics import BaseMetric\n\n\nclass Same(BaseMetric):\n    def measure(self, test_case):\n"
SCRIPTS = {
    "braintrust": ("def handler(output, expected):\n    return float(output == expected)\n", "expected"),
    "langfuse": (
        "from langfuse import Evaluation\n\n\ndef same(*, output, expected_output, **kwargs):\n"
        "    return Evaluation(name='same', value=float(output == expected_output))\n",
        "expected_output",
    ),
    "langsmith": (
        "def same(outputs, reference_outputs):\n    return outputs['answer'] == reference_outputs.get('answer')\n",
        "reference_outputs",
    ),
    "deepeval": (DEEPEVAL + "        return test_case.actual_output == test_case.expected_output\n", "expected_output"),
    "mlflow": (
        "from mlflow.genai import scorer\n\n\n@scorer\ndef same(outputs, expectations):\n"
        "    return outputs == expectations\n",
        "expectations",
    ),
    "inspect": (
        "from inspect_ai.scorer import Score, scorer\n\n\n@scorer(metrics=[])\ndef same():\n"
        "    async def score(state, target):\n        return Score(value=state.output.completion == target.text)\n"
        "    return score\n",
        "target",
    ),
    "pydantic-evals": (
        "from pydantic_evals.evaluators import Evaluator\n\n\nclass Same(Evaluator):\n    def evaluate(self, ctx):\n"
        "        return ctx.output == ctx.expected_output\n",
        "expected_output",
    ),
}
BY_COLUMN = {
    "phoenix": "from phoenix.evals import create_evaluator\n\n\n@create_evaluator(name='a')\n",
    "weave": "import weave\n\n\n@weave.op\n",
}


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_a_column_of_the_tools_own_name_is_the_reference(dialect: str) -> None:
    source, name = SCRIPTS[dialect]
    evaluator = parse_evaluator(source, "script", "script.py")
    assert evaluator.dialect == dialect
    rows: list[dict[str, Any]] = [{"output": "4", name: "gold"}, {"output": "4", "reference": "gold"}]
    for row in (*rows, {**rows[0], "reference": "another"}):
        (case,) = cases_from_rows([row])
        assert bind(evaluator).arguments(case)[1]["reference"] == "gold"
    (case,) = cases_from_rows([{"output": "4", "mine": "gold"}])
    assert bind(evaluator, InputMapping(paths={name: "mine"})).arguments(case)[1]["reference"] == "gold"


RAGAS = (
    "from ragas.metrics.base import SingleTurnMetric\n\n\nclass Same(SingleTurnMetric):\n"
    "    async def _single_turn_ascore(self, sample, callbacks):\n        return sample.response == sample.reference\n"
)
PHOENIX = (
    "from phoenix.experiments.evaluators import create_evaluator\n\n\n@create_evaluator()\n"
    "def same(output, reference):\n    return output == reference\n"
)


@pytest.mark.parametrize("source", [RAGAS, PHOENIX, *(source for source, _ in SCRIPTS.values())])
def test_the_rows_own_word_maps_where_the_tool_says_the_same(source: str) -> None:
    evaluator = parse_evaluator(source, "script", "script.py")
    (case,) = cases_from_rows([{"said": "4", "mine": "gold"}])
    found = bind(evaluator, InputMapping(paths={"output": "said", "reference": "mine"})).arguments(case)[1]
    assert (found["output"], found["reference"]) == ("4", "gold")


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_a_reference_that_is_asked_for_and_lacking_stops_before_the_run(dialect: str) -> None:
    source, name = SCRIPTS[dialect]
    evaluator = parse_evaluator(source, "script", "script.py")
    with pytest.raises(ColumnsError, match=f"`{name}` of the script is `reference` here") as caught:
        runner.evaluate(evaluator, [{"output": "4", "gold": "4"}])
    assert caught.value.paths["reference"] == "gold"


@pytest.mark.parametrize("dialect", BY_COLUMN)
def test_columns_that_a_function_names_stop_before_the_run_where_they_are_lacking(dialect: str) -> None:
    source = BY_COLUMN[dialect] + "def same(output, gold_answer, least=1):\n    return output == gold_answer\n"
    evaluator = parse_evaluator(source, "script", "script.py")
    assert evaluator.dialect == dialect
    with pytest.raises(ColumnsError, match="no column for `gold_answer`"):
        runner.evaluate(evaluator, [{"output": "4", "answer": "4"}])
    (case,) = cases_from_rows([{"output": "4", "gold_answer": "4"}])
    assert bind(evaluator).arguments(case)[1]["gold_answer"] == "4"


def test_a_function_that_names_columns_alone_needs_no_output() -> None:
    source = (
        "from ragas.metrics import discrete_metric\n\n\n@discrete_metric(name='a', allowed_values=['pass'])\n"
        "def same(predicted, expected):\n    return predicted == expected\n"
    )
    (case,) = cases_from_rows([{"predicted": "4", "expected": "5"}])
    given = bind(parse_evaluator(source, "script")).arguments(case)[1]
    assert (given["predicted"], given["expected"]) == ("4", "5")
    assert "output" not in given


def test_a_field_that_a_grader_needs_stops_before_the_run() -> None:
    source = "def grade(sample, item):\n    return float(sample['output_text'] == item['wanted'])\n"
    with pytest.raises(ColumnsError, match="no column for"):
        runner.evaluate(parse_evaluator(source, "grader"), [{"output": "4", "gold": "4"}])


def scores(source: str, rows: list[dict[str, Any]], mapping: InputMapping | None = None) -> list[Any]:
    return [one.score for one in runner.evaluate(parse_evaluator(source, "script"), rows, mapping=mapping).results]


def test_what_is_not_used_or_is_null_on_purpose_is_not_asked_for() -> None:
    unused = "def handler(input, output, expected, metadata):\n    return float(len(output) > 1)\n"
    assert scores(unused, [{"output": "44"}]) == [1.0]
    source = SCRIPTS["braintrust"][0]
    assert scores(source, [{"output": "4"}], InputMapping(literals={"expected": None})) == [0.0]


def test_a_default_is_enough_for_a_script_that_asks_for_it() -> None:
    rows = [{"output": "4", "gold": "4"}]
    for source, needs in (
        ("def handler(output, expected=None):\n    return float(output == expected)\n", True),
        ("def handler(output, expected=None):\n    return 0.5 if expected is None else 1.0\n", False),
        ("def handler(output, expected=None):\n    return 1.0 if expected and output else 0.5\n", False),
        ("def handler(output, expected=''):\n    return 0.5\n", False),
    ):
        if needs:
            with pytest.raises(ColumnsError, match="no column for `reference`"):
                scores(source, rows)
        else:
            assert scores(source, rows) == [0.5]


def test_keys_that_a_script_of_langsmith_reads_are_columns() -> None:
    alone = (
        "def label(run, example):\n    said, gold = run.outputs.get('output'), example.outputs.get('gold_label')\n"
        "    return {'score': said == gold}\n"
    )
    rows = [{"text": "q", "output": "a", "gold_label": "a"}, {"text": "q", "output": "a", "gold_label": "b"}]
    assert scores(alone, rows) == [1.0, 0.0]
    renamed = [{"output": row["output"], "mine": row["gold_label"]} for row in rows]
    assert scores(alone, renamed, InputMapping(paths={"reference": "mine"})) == [1.0, 0.0]
    several = (
        "def both(outputs, reference_outputs):\n"
        "    return outputs['answer'] == reference_outputs['gold_a'] + reference_outputs['gold_b']\n"
    )
    assert scores(several, [{"output": "ab", "gold_a": "a", "gold_b": "b"}]) == [1.0]
    # A key of both says nothing of the column that is meant: the model's own answer is not its reference.
    same = "def same(outputs, reference_outputs):\n    return outputs['answer'] == reference_outputs['answer']\n"
    with pytest.raises(ColumnsError, match="no column for `reference`"):
        scores(same, [{"answer": "4"}], InputMapping(paths={"output": "answer"}))


GUARDED = {
    "native": ("def evaluate(output, reference=None):\n    return float(output == reference)\n", "reference"),
    "braintrust": (
        "def handler(output, expected=None):\n    return 0.0 if expected is None else float(output == expected)\n",
        "expected",
    ),
    "openai": (
        "def grade(sample, item):\n    return float(sample['output_text'] == item.get('reference_answer'))\n",
        "item.reference_answer",
    ),
    "promptfoo": (
        "def get_assert(output, context):\n    return output == context['vars'].get('expected')\n",
        "vars.expected",
    ),
}
JAVASCRIPT = {
    "native": (
        "export function evaluate({ output, reference }: { output: string; reference?: string }) {\n"
        "  return output === reference ? 1 : 0;\n}\n",
        "reference",
    ),
    "promptfoo": (
        "module.exports = (output, context) => output === context.vars.expected;\n",
        "vars.expected",
    ),
}


def default_notes(
    source: str, row: dict[str, Any], mapping: InputMapping | None = None, language: Any = "python"
) -> Any:
    evaluator = parse_evaluator(source, "script", language=language)
    return column_notes.default_notes(Lookahead(cases_from_rows([row])), evaluator, bind(evaluator, mapping))


@pytest.mark.parametrize("dialect", GUARDED)
def test_a_reference_left_to_its_default_beside_a_likely_column_is_said(dialect: str) -> None:
    source, name = GUARDED[dialect]
    evaluator = parse_evaluator(source, "script")
    assert evaluator.dialect == (None if dialect == "native" else dialect)
    rows = [{"output": "4", "answer_key": "4"}]
    report = runner.evaluate(evaluator, rows)
    (note,) = report.notes
    mapping = InputMapping(paths={name: "answer_key"})
    assert "no column has what the script reads" in note
    assert [one.score for one in report.results] == [0.0]
    report = runner.evaluate(evaluator, rows, mapping=mapping)
    assert (list(report.notes), [one.score for one in report.results]) == ([], [1.0])


@pytest.mark.parametrize("dialect", JAVASCRIPT)
def test_it_is_said_of_typescript_too(dialect: str) -> None:
    source, name = JAVASCRIPT[dialect]
    row = {"output": "4", "answer_key": "4"}
    (note,) = default_notes(source, row, language="typescript")
    assert f'paths={{"{name}": "answer_key"}}' in note
    assert not default_notes(source, row, InputMapping(paths={name: "answer_key"}), "typescript")


@pytest.mark.parametrize(
    ("source", "row"),
    [
        (GUARDED["native"][0], {"output": "4", "reference": "4", "label": "b"}),
        (GUARDED["native"][0], {"output": "4", "model": "a", "input": "b", "context": "c"}),
        ("def evaluate(output, labels=('a', 'b')):\n    return output in labels\n", {"output": "4", "label": "b"}),
        ("def evaluate(output, reference=None):\n    return len(output)\n", {"output": "4", "label": "b"}),
        ("def handler(output, expected=None):\n    return len(output)\n", {"output": "4", "label": "b"}),
        (GUARDED["openai"][0], {"output": "4", "reference_answer": "b", "label": "b"}),
        (
            "def grade(sample, item):\n    return float(item.get('gold', 0) == item['label'])\n",
            {"output": "4", "label": "b"},
        ),
        (GUARDED["promptfoo"][0], {"output": "4", "expected": "b", "label": "b"}),
    ],
)
def test_nothing_is_said_where_no_column_is_likely(source: str, row: dict[str, Any]) -> None:
    assert not default_notes(source, row)


def test_a_parameter_of_phoenix_is_mapped_by_its_role() -> None:
    source = "from phoenix.evals import create_evaluator\n\n\n@create_evaluator(name='a', kind='code')\n"
    source += "def same(output: str, expected: str):\n    return output == expected\n"
    row = {"output": "4", "expected": "4"}
    assert not default_notes(source, row, InputMapping(paths={"reference": "expected"}))


def test_nothing_is_said_of_a_reference_that_is_given() -> None:
    row = {"output": "4", "label": "b", "gold": "c"}
    for mapping in (
        InputMapping(literals={"reference": "4"}),
        InputMapping(paths={"reference": "gold"}),
    ):
        assert not default_notes(GUARDED["native"][0], row, mapping)
    assert not default_notes(GUARDED["promptfoo"][0], row, InputMapping(paths={"reference": "gold"}))
    assert not default_notes(GUARDED["braintrust"][0], row, InputMapping(paths={"expected.label": "gold"}))


KEYS = {
    "native": "def evaluate(output, reference):\n    return float(output['answer'] == reference['label'])\n",
    "braintrust": "def handler(output, expected):\n    return float(output['answer'] == expected['label'])\n",
    "langfuse": (
        "from langfuse import Evaluation\n\n\ndef same(*, output, expected_output, **kwargs):\n"
        "    return Evaluation(name='same', value=float(output['answer'] == (expected_output or {}).get('label')))\n"
    ),
    "verl": (
        "def compute_score(solution_str, ground_truth, extra_info=None):\n"
        "    return float(solution_str['answer'] == ground_truth['label'])\n"
    ),
}


@pytest.mark.parametrize("dialect", KEYS)
def test_keys_that_are_read_of_flat_columns_are_proposed_as_parts_of_an_object(dialect: str) -> None:
    evaluator = parse_evaluator(KEYS[dialect], "script")
    assert evaluator.dialect == (None if dialect == "native" else dialect)
    for same, other in (("a", "b"), (["a"], ["b"]), (None, ["b"])):
        rows = [{"answer": same, "label": same}, {"answer": same, "label": other}]
        with pytest.raises(ColumnsError) as caught:
            runner.evaluate(evaluator, rows)
        report = runner.evaluate(evaluator, rows, mapping=caught.value.paths)
        assert [one.score for one in report.results] == [1.0, 0.0]


def test_an_object_is_made_of_several_columns_and_values() -> None:
    source = (
        "def evaluate(output, gold, /):\n"
        "    return float(output == gold['target'] + gold['more'] + len(gold['nums']))\n"
    )
    evaluator = parse_evaluator(source, "script")
    paths = {"gold.target": "goal", "gold.nums": "$.metadata.numbers"}
    row = {"output": 12, "goal": 3, "numbers": [1, 2]}
    report = runner.evaluate(evaluator, [row], mapping=InputMapping(paths=paths, literals={"gold.more": 7}))
    assert [one.score for one in report.results] == [1.0]
    with pytest.raises(MappingError, match=r"`gold` and its part `gold\.target` are both mapped"):
        bind(evaluator, InputMapping(paths={**paths, "gold": "goal"}))
    with pytest.raises(MappingError, match=r"has no parameter `other\.x`"):
        bind(evaluator, InputMapping(paths={"other.x": "goal"}))
    header = evaluator.model_copy(update={"mapping": InputMapping(paths={"gold.target": "a"})})
    (case,) = cases_from_rows([{"output": 1, "a": 2, "b": 3}])
    assert bind(header).arguments(case)[0] == (1, {"target": 2})
    assert bind(header, InputMapping(paths={"gold": "b"})).arguments(case)[0] == (1, 3)


def test_the_ground_truth_of_verl_is_proposed_where_its_own_files_have_it() -> None:
    source = (
        "def compute_score(solution_str, ground_truth, method='strict'):\n"
        "    return float(solution_str == str(ground_truth['target'] + len(ground_truth['numbers'])))\n"
    )
    evaluator = parse_evaluator(source, "script")
    nested = [{"completion": "5", "reward_model": {"style": "rule", "ground_truth": {"target": 3, "numbers": [1, 2]}}}]
    flat = [{"response": "5", "target": 3, "nums": [1, 2]}]
    own = [{"solution_str": "5", "ground_truth": {"target": 3, "numbers": [1, 2]}}]
    assert [one.score for one in runner.evaluate(evaluator, own).results] == [1.0]
    for rows in (nested, flat):
        with pytest.raises(ColumnsError) as caught:
            runner.evaluate(evaluator, rows)
        assert "of the script is" not in str(caught.value)
        assert [one.score for one in runner.evaluate(evaluator, rows, mapping=caught.value.paths).results] == [1.0]
    with pytest.raises(MappingError, match=r"^compute_score\(solution_str, ground_truth, method\) has no parameter"):
        bind(evaluator, InputMapping(paths={"prediction": "completion"}))


TUPLE = "def f1_score(prediction, truth):\n    f1, recall = float(prediction == truth), 0.5\n    return f1, recall\n"


def test_a_tuple_has_a_way_out_that_works() -> None:
    evaluator = parse_evaluator(TUPLE, "script", entry="f1_score")
    rows = [{"prediction": "4", "truth": "4"}]
    (result,) = runner.evaluate(evaluator, rows).results
    assert result.outcome == "failed"
    assert result.error is not None
    first, every = re.findall(r"`(def [^`]+)`", result.error.message)
    (result,) = runner.evaluate(parse_evaluator(f"{TUPLE}\n\n{first}\n", "script"), rows).results
    assert result.score == 1.0
    (result,) = runner.evaluate(parse_evaluator(f"{TUPLE}\n\n{every}\n", "script"), rows).results
    assert result.error is not None
    assert 'outputs = {f1 = {kind = "continuous"}, recall = {kind = "continuous"}}' in result.error.message


def test_verl_takes_the_first_of_a_tuple() -> None:
    source = (
        "def compute_score(solution_str, ground_truth):\n    return float(solution_str == ground_truth), True, 'x'\n"
    )
    rows = [{"solution_str": "4", "ground_truth": "4"}, {"solution_str": "4", "ground_truth": "5"}]
    assert scores(source, rows) == [1.0, 0.0]


@pytest.mark.parametrize("language", ["python", "typescript"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"name": "exact", "score": 1}, "score: 1"),
        ({"name": "exact", "score": 0.5, "metadata": {"a": 1}}, "score: 0.5"),
        ({"key": "exact", "score": True, "comment": "why"}, 'score: 1.0, explanation: "why"'),
        ({"name": "exact", "value": 1, "comment": "why"}, 'score: 1, explanation: "why"'),
        ({"scorer": "exact", "value": 1, "detail": "why"}, 'score: 1, explanation: "why"'),
    ],
)
def test_a_result_of_another_tool_is_told_as_ours(language: Any, value: dict[str, Any], shown: str) -> None:
    with pytest.raises(InvalidResultError, match="is a result of another tool") as caught:
        normalize(value, {}, language)
    plain = str(caught.value).partition("another tool")[2].partition("}")[0].replace("'", '"')
    for part in shown.split(", "):
        name, _, text = part.partition(": ")
        assert re.search(rf'"?{name}"?: {re.escape(text)}', plain)
    assert "header of these lines" not in str(caught.value)


@pytest.mark.parametrize("source", ["output == 'a'", "x = output\nreturn x == 'a'"])
def test_code_of_a_config_has_no_notes(source: str) -> None:
    evaluator = read_inline(source)
    report = runner.evaluate(evaluator, [{"output": "b", "label": "a"}])
    assert (list(report.notes), list(label_notes(report.summary, evaluator))) == ([], [])


def test_tools_that_a_grader_reads_of_the_sample_are_a_column() -> None:
    source = "def grade(sample, item):\n    return float(sample.get('output_tools') == item['expected'])\n"
    rows: list[dict[str, Any]] = [{"output_tools": [{"name": "a"}], "expected": [{"name": "a"}]}]
    rows += [{"output_tools": [], "expected": [1]}]
    assert scores(source, rows) == [1.0, 0.0]
    assert scores(source, [{"tool_calls": [1], "expected": [1]}]) == [1.0]
    with pytest.raises(ColumnsError, match="no column for"):
        runner.evaluate(parse_evaluator(source, "grader"), [{"output": "", "expected": []}])


RESPONSE = {
    "python": "def get_assert(output, context):\n"
    "    seen = (context.get('providerResponse') or {}).get('metadata') or {}\n"
    "    return float(seen.get('ids') == context['config']['ids'])\n",
    "typescript": "module.exports = (output, context) =>\n"
    "  Number(context.providerResponse?.metadata?.ids?.[0] === context.config.ids[0]);\n",
}


@pytest.mark.parametrize("language", RESPONSE)
def test_columns_of_promptfoos_context_are_its_keys(language: Any) -> None:
    evaluator = parse_evaluator(RESPONSE[language], "script", language=language)
    own = {"output": "a", "config": {"ids": [1]}}
    rows = [own | {"providerResponse": {"metadata": {"ids": ids}}} for ids in ([1], [2])]
    assert [one.score for one in runner.evaluate(evaluator, rows).results] == [1.0, 0.0]
    with pytest.raises(ColumnsError, match="no column for `providerResponse`"):
        runner.evaluate(evaluator, [own])


def test_a_list_beside_the_numbers_of_a_scorer_of_weave_is_left_out() -> None:
    source = (
        "import weave\n\n\nclass Tools(weave.Scorer):\n    @weave.op\n    def score(self, output):\n        return {}\n"
    )
    rows = [{"output": "a"}]
    lists = source.replace("{}", "{'recall': 0.5, 'missing': []}")
    assert [one.score for one in runner.evaluate(parse_evaluator(lists, "script"), rows).results] == [0.5]
    (found,) = runner.evaluate(parse_evaluator(source.replace("{}", "{'seen': [1]}"), "script"), rows).results
    assert found.outcome == "failed"


BOUND = """
def score(run, example):
    {}
    return {{"key": "same", "score": int(o.get("answer") == r.get("label"))}}
"""


@pytest.mark.parametrize(
    "lines",
    [
        "o, r = run.outputs, example.outputs",
        "o = run.outputs or {}; r = dict(example.outputs)",
        "o = getattr(run, 'outputs', {}); ex = example; r = ex.outputs if ex.outputs else {}",
        "o: dict = run.outputs; all = example.outputs; r = all",
    ],
)
def test_keys_are_seen_behind_names_that_a_script_gives_their_objects(lines: str) -> None:
    rows = [{"output": "a", "reference": "a"}, {"output": "a", "reference": "b"}]
    assert scores(BOUND.format(lines), rows) == [1.0, 0.0]
    columns = [{"output": row["output"], "label": row["reference"]} for row in rows]
    assert scores(BOUND.format(lines), columns) == [1.0, 0.0]


def test_a_key_that_is_read_out_of_sight_is_no_none_where_the_row_has_plain_text() -> None:
    source = "def read(one, key):\n    return one.get(key)\n" + BOUND.format("o, r = run.outputs, example.outputs")
    source = source.replace('o.get("answer")', 'read(o, "answer")').replace('r.get("label")', 'read(r, "label")')
    rows = [{"output": "a", "reference": "b"}]
    (found,) = runner.evaluate(parse_evaluator(source, "script"), rows, dialect="langsmith").results
    assert found.error is not None
    assert "the script reads answer of it; map outputs.answer" in found.error.message
    parts = InputMapping(paths={"outputs.answer": "output", "reference_outputs.label": "reference"})
    assert scores(source, rows, parts) == [0.0]


def test_a_scorer_of_braintrust_core_is_the_scripts_own_beside_one_that_it_imports() -> None:
    source = (
        "from autoevals import Levenshtein\nfrom braintrust_core.score import Score, Scorer\n\n\n"
        "class Same(Scorer):\n    def _run_eval_sync(self, output, expected=None, **kwargs):\n"
        "        return Score(name='same', score=float(output == expected))\n"
    )
    assert parse_evaluator(source, "script").entry == "Same"
