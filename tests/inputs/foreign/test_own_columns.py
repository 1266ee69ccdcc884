"""What a script reads of its tool's objects that these have not: a column of that name, or a word to the user."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.core.types import InputMapping
from runner.inputs.datasets import column_notes
from runner.inputs.datasets.peekable_cases import Lookahead
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind
from tests.inputs.foreign.vendors.own_columns import SCORERS, SOURCES, STORES

PROMPTFOO = {
    "python": """
def _blocks(context):
    response = (context or {}).get("response") or {}
    return response.get("thinking")


def get_assert(output, context):
    found = _blocks(context)
    if not found:
        return {"pass": False, "score": 0.0, "reason": "no reasoning available"}
    try:
        step = int(context.get("config", {}).get("step", 0))
    except (TypeError, ValueError):
        return {"pass": False, "score": 0.0, "reason": f"invalid step"}
    return {"pass": True, "score": 1.0, "reason": found}
""",
    "typescript": """
module.exports = (output, context) => {
  const response = context.response ?? {};
  const pass = Boolean(response.thinking) && context.vars.wanted !== "never";
  return { pass, score: pass ? 1 : 0, reason: response.thinking ?? "no reasoning available" };
};
""",
}
ROW: dict[str, Any] = {"input": "q", "output": "4"}


def notes_of(source: str, row: dict[str, Any], language: Any = "python") -> list[str]:
    evaluator = parse_evaluator(source, "script", language=language)
    return column_notes.default_notes(Lookahead(cases_from_rows([row])), evaluator, bind(evaluator))


@pytest.mark.parametrize("language", PROMPTFOO)
@pytest.mark.parametrize("column", ["response", "said"])
def test_the_context_has_a_column_that_is_no_part_of_it(language: Any, column: str) -> None:
    evaluator = parse_evaluator(PROMPTFOO[language], "script", language=language)
    mapping = None if column == "response" else InputMapping(paths={"context.response": column})
    (result,) = runner.evaluate(evaluator, [ROW | {column: {"thinking": "sum"}}], mapping=mapping).results
    assert (result.score, result.explanation) == (1.0, "sum")


@pytest.mark.parametrize("language", PROMPTFOO)
def test_a_part_that_no_column_has_is_said(language: Any) -> None:
    (note,) = notes_of(PROMPTFOO[language], ROW | {"said": {}}, language)
    assert "the script reads `response` of its context, which no column has, and goes on without" in note
    assert 'InputMapping(paths={"context.response": "COLUMN"})' in note
    assert not notes_of(PROMPTFOO[language], ROW | {"response": {}}, language)


CONFIGURED = {
    "typescript": """const settings = (context) => context.config || {};
function called(output, context) {
  const { tool, most = 3 } = settings(context);
  return { pass: output.includes(tool), score: most ?? context.config.other, reason: "" };
}
module.exports = { called };
""",
    "python": """def get_assert(output, context):
    return context["config"]["tool"] in output and context["config"].get("most", 3) > 1
""",
}


@pytest.mark.parametrize("language", CONFIGURED)
def test_what_an_assertion_reads_of_its_config_is_to_be_set(language: Any) -> None:
    entry = "called" if language == "typescript" else None
    evaluator = parse_evaluator(CONFIGURED[language], "script", language=language, entry=entry)

    def notes(row: dict[str, Any], **given: Any) -> list[str]:
        own = bind(evaluator, InputMapping(literals=given))
        return column_notes.default_notes(Lookahead(cases_from_rows([row])), evaluator, own)

    (note,) = notes({"output": "a"})
    assert note.startswith("the script reads `tool`")
    assert "of `context.config`, which nothing sets; give" in note
    assert not notes({"output": "a"}, tool="a", other=1)
    assert not notes({"output": "a", "config": {"tool": "a", "other": 1}})


def test_a_part_that_is_read_without_a_default_stops_before_the_run() -> None:
    source = 'def get_assert(output, context):\n    return context["latency"] < 3\n'
    with pytest.raises(ColumnsError, match=r"no column for `context\.latency`"):
        runner.evaluate(parse_evaluator(source, "script"), [ROW | {"seconds": 1}])
    assert runner.evaluate(parse_evaluator(source, "script"), [ROW | {"latency": 1}]).results[0].score == 1


def test_a_field_that_only_a_column_gives_is_asked_for() -> None:
    guarded = parse_evaluator(SOURCES, "script")
    fields = {one.name: one.required for one in guarded.parameters}
    assert fields | {"expected_sources": False, "retrieval_context": False} == fields
    assert "additional_metadata" not in fields
    assert "tags" not in fields
    plain = SOURCES.replace('getattr(test_case, "expected_sources", None) or []', "test_case.expected_sources")
    row = {"input": "q", "actual_output": "a", "retrieval_context": ["a"], "gold_sources": ["a"]}
    with pytest.raises(ColumnsError, match="no column for `expected_sources`") as caught:
        runner.evaluate(parse_evaluator(plain, "script"), [row])
    assert caught.value.paths == {"expected_sources": "gold_sources"}
    (note,) = notes_of(SOURCES, row)
    assert 'if `gold_sources` is meant, give InputMapping(paths={"expected_sources": "gold_sources"})' in note
    lacking = {"input": "q", "actual_output": "a", "sources": ["a"], "expected_sources": ["a"]}
    (note,) = notes_of(SOURCES, lacking)
    assert "the script reads `retrieval_context` of its test case, which no column has" in note


def test_what_a_metric_sets_or_calls_itself_is_no_column() -> None:
    source = SOURCES.replace(
        "        self.success =", "        test_case.seen = len(test_case.model_dump())\n        self.success ="
    )
    assert {"seen", "model_dump"}.isdisjoint(one.name for one in parse_evaluator(source, "script").parameters)


@pytest.mark.parametrize(
    ("head", "dialect", "score"),
    [
        ("def evaluate(output, expected_output):", None, 1.0),
        ("def evaluate(output, expected_output, metadata=None):", None, 1.0),
        ("def evaluate(*, input, output, expected_output, metadata):", "langfuse", None),
        ("def evaluate(*, output, expected_output, **kwargs):", "langfuse", None),
    ],
)
def test_what_langfuse_cannot_call_is_called_with_its_columns(head: str, dialect: str | None, score: Any) -> None:
    source = f"{head}\n    return float(output == expected_output)\n"
    evaluator = parse_evaluator(source, "script")
    assert evaluator.dialect == dialect
    (result,) = runner.evaluate(evaluator, [{"input": "q", "output": "4", "expected_output": "4"}]).results
    assert result.score == score
    if dialect:
        assert "which Langfuse leaves out: return an Evaluation" in (result.explanation or "")


TRACED = {
    "python": """
def tools(run, example):
    calls = [one for one in (run.child_runs or []) if one.run_type == "tool"]
    seconds = (run.end_time - run.start_time).total_seconds()
    split = getattr(example, "split", None)
    return {"key": "tools", "score": len(calls), "comment": f"{run.error} {seconds:g} {split}"}
""",
    "typescript": """
export function tools(run, example) {
  const calls = (run.child_runs ?? []).filter((one) => one.run_type === "tool");
  const seconds = (Date.parse(run.end_time) - Date.parse(run.start_time)) / 1000;
  return { key: "tools", score: calls.length, comment: `${run.error} ${seconds} ${example.split}` };
}
""",
}


@pytest.mark.parametrize("language", TRACED)
def test_a_run_and_an_example_have_the_columns_of_their_fields(language: Any) -> None:
    evaluator = parse_evaluator(TRACED[language], "script", language=language, dialect="langsmith", entry="tools")
    row = {
        "outputs": {"a": 1},
        "error": "late",
        "split": "test",
        "child_runs": [{"run_type": "tool"}, {"run_type": "llm"}],
    }
    row |= {"start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:02"}
    traced, plain = runner.evaluate(evaluator, [row, {"outputs": {"a": 1}}]).results
    assert (traced.score, traced.explanation) == (1, "late 2 test")
    assert plain.error is not None
    assert "a row has no child_runs, which the script reads; give the rows a column `child_runs`" in plain.error.message


def test_what_no_column_gives_fails_a_row_whose_script_catches_that() -> None:
    source = "export function quick(run, example) {\n  try {\n    return { key: 'q', score: run.latency < 2 };\n"
    source += "  } catch {\n    return { key: 'q', score: 0 };\n  }\n}\n"
    evaluator = parse_evaluator(source, "script", language="typescript", dialect="langsmith", entry="quick")
    (result,) = runner.evaluate(evaluator, [{"outputs": {"a": 1}}], max_failed="100%").results
    assert result.error is not None
    assert "a row has no latency" in result.error.message


def test_a_column_that_is_the_output_is_not_proposed_for_the_reference() -> None:
    source = """from langfuse import Evaluation


def overlap(*, input, output, expected_output, metadata=None, **kwargs):
    said, gold = output.get("answer"), expected_output.get("answer")
    return Evaluation(name="same", value=float(said == gold))
"""
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(parse_evaluator(source, "script"), [{"question": "q", "answer": "a", "ground_truth": "b"}])
    assert {"output.answer": "answer", "reference.answer": "ground_truth"}.items() <= caught.value.paths.items()


def test_an_instance_among_an_evals_scorers_can_be_named() -> None:
    source = """from braintrust import Eval


def cited(output, expected=None):
    return 1.0


class Brief:
    def __init__(self, limit):
        self.limit = limit

    def __call__(self, output, expected=None):
        return float(len(output) <= self.limit)


Eval("p", data=lambda: [], task=lambda input: input, scores=[cited, Brief(3)])
"""
    with pytest.raises(EvaluatorError, match=r"for `Brief\(3\)` write `scorer = Brief\(3\)` above its Eval, and name"):
        parse_evaluator(source, "script")
    source = source.replace('\n\nEval("p"', '\n\nscorer = Brief(3)\nEval("p"')
    results = runner.evaluate(
        parse_evaluator(source, "script", entry="scorer"), [{"output": "abc"}, {"output": "abcd"}]
    )
    assert [one.score for one in results.results] == [1.0, 0.0]


GRADER = """
import json


def _said(sample):
    return sample.get("output_json") or json.loads(sample["output_text"])


def grade(sample, item):
    calls = sample.get("output_tools") or []
    return float(_said(sample)["name"] == item["expected"]["name"]) + 0 * len(calls)
"""


def test_a_grader_is_asked_for_what_it_needs_alone() -> None:
    evaluator = parse_evaluator(GRADER, "script")
    expected = {"expected": {"name": "Ann"}}
    rows = [{"output": f'{{"name": "{name}"}}'} | expected for name in ("Ann", "Bob")]
    assert [one.score for one in runner.evaluate(evaluator, rows).results] == [1.0, 0.0]
    own = {"item": expected, "sample": {"output_text": '{"name": "Ann"}'}}
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(evaluator, [own])
    assert caught.value.paths == {
        "output": "$.metadata.sample.output_text",
        "item.expected": "$.metadata.item.expected",
    }
    mapping = InputMapping(paths=dict(caught.value.paths))
    assert [one.score for one in runner.evaluate(evaluator, [own], mapping=mapping).results] == [1.0]
    required = parse_evaluator(GRADER.replace('.get("output_tools") or []', '["output_tools"]'), "script")
    with pytest.raises(ColumnsError, match=r"no column for `sample\.output_tools`"):
        runner.evaluate(required, rows)


REWARDS = """
def right(completions, answer, **kwargs):
    return [float(one == gold) for one, gold in zip(completions, answer)]


class Short:
    def __init__(self, limit=2):
        self.limit = limit

    def __call__(self, completions, **kwargs):
        return [float(len(one) <= self.limit) for one in completions]
"""


def test_an_instance_that_is_called_is_a_reward_function() -> None:
    rows = [{"prompt": "q", "completion": one, "answer": "a"} for one in ("a", "abc")]
    evaluator = parse_evaluator(REWARDS, "script", entry="Short")
    assert evaluator.dialect == "trl"
    assert [one.score for one in runner.evaluate(evaluator, rows).results] == [1.0, 0.0]
    with pytest.raises(EvaluatorError, match="has `right`, `Short`, and each is a reward function of TRL"):
        parse_evaluator(REWARDS, "script")
    with pytest.raises(EvaluatorError, match=r"Short needs `limit` to be made; add `metric = Short\(limit=…\)`"):
        parse_evaluator(REWARDS.replace("limit=2", "limit"), "script", entry="Short")
    made = REWARDS.replace("limit=2", "limit") + "\n\nmetric = Short(3)\n"
    results = runner.evaluate(parse_evaluator(made, "script", entry="metric"), rows).results
    assert [one.score for one in results] == [1.0, 1.0]


def test_keys_of_another_function_are_not_asked_for() -> None:
    source = """from langfuse import Evaluation


def first(*, output, expected_output=None, **kwargs):
    return Evaluation(name="a", value=len(output["answer"]))


def second(*, output, expected_output=None, **kwargs):
    return Evaluation(name="b", value=output["tool"] == "x")
"""
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(parse_evaluator(source, "script", entry="first"), [{"question": "q", "answer": "a", "n": 1}])
    assert [one for one in caught.value.paths if one.startswith("output")] == ["output.answer"]


def test_a_part_that_only_a_column_gives_can_be_left_out() -> None:
    source = """
def get_assert(output, context):
    calls = (context.get("providerResponse") or {}).get("raw", {}).get("tool_calls", [])
    return {"pass": True, "score": len(calls), "reason": ""}
"""
    evaluator = parse_evaluator(source, "script")
    with pytest.raises(ColumnsError, match="if the script can do without, give `providerResponse` the value null"):
        runner.evaluate(evaluator, [ROW])
    mapping = InputMapping(literals={"providerResponse": None})
    assert runner.evaluate(evaluator, [ROW], mapping=mapping).results[0].score == 0


@pytest.mark.parametrize(
    ("entry", "read", "columns"),
    [
        ("by_model", "store_as(Calls)", {"Calls:calls": ["x"]}),
        ("by_key", 'store().get("seen")', {"seen": "x"}),
        ("stored", 'state.store.get("calls")', {"calls": []}),
    ],
)
def test_a_store_that_no_column_holds_is_said(entry: str, read: str, columns: dict[str, Any]) -> None:
    source = SCORERS if entry == "stored" else STORES
    evaluator, whole = parse_evaluator(source, "script", entry=entry), ROW | {"wanted": "a"}

    def notes(row: dict[str, Any], mapping: InputMapping | None = None) -> list[str]:
        return column_notes.default_notes(Lookahead(cases_from_rows([row])), evaluator, bind(evaluator, mapping))

    (note,) = notes(whole | {"kept": {}})
    assert f"the scorer reads a sample's store, by `{read}`, which no column holds" in note
    assert 'InputMapping(paths={"store": "COLUMN"})' in note
    assert not notes(whole | {"kept": {}}, InputMapping(paths={"store": "kept"}))
    assert not notes(whole | {"store": {}}) + notes(whole | columns)
