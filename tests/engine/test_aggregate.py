"""`aggregate`: what it is given, what it may return, and what its figures are good for."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runner import InputMapping, RequirementError, SandboxConfig, evaluate, stream
from runner.core.errors import EvaluatorError, InputError, MappingError
from runner.core.types import Evaluator, Result, ResultError, Score
from runner.engine.aggregate import Aggregation
from runner.engine.scoring.aggregate_rows import AggregateRows, GatherError
from runner.engine.scoring.figures import MOST, Figures, figures_of
from runner.engine.scoring.gates import judge, parse_gate
from runner.engine.scoring.normalize import InvalidResultError
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.score_cache import store
from runner.runs.report import Report
from sandboxes import Call, Execution, Limits, SandboxLostError
from sandboxes.base import Language
from sandboxes.fake import FakeProgram, ok
from tests.cli.commands import evalcell, write_rows
from tests.engine.scripted import Custom
from tests.test_how_to import PAGES, blocks

WASM = SandboxConfig(backend="wasm", jobs=1)
ROWS = [{"output": n % 3, "reference": n % 2} for n in range(12)]
EQUAL = "def evaluate(output, reference):\n    return float(output == reference)\n\n"


def script(aggregate: str, evaluates: str = EQUAL) -> Evaluator:
    return parse_evaluator(f"{evaluates}{aggregate}\n", "whole")


def report(aggregate: str, rows: Any = ROWS, evaluates: str = EQUAL, **more: Any) -> Report:
    return evaluate(script(aggregate, evaluates), rows, sandbox=WASM, **more)


def test_it_gets_each_row_with_its_result_in_order() -> None:
    body = "def aggregate(results):\n    raise ValueError(repr(results))"
    evaluates = "def evaluate(output, k=2):\n    return {'score': output * k, 'label': 'é'}\n\n"
    found = report(body, [{"id": "a", "output": 1}, {"output": 2}], evaluates).summary
    given = [
        {"id": "a", "outcome": "scored", "label": "é", "score": 2.0, "arguments": {"output": 1}},
        {"id": "2", "outcome": "scored", "label": "é", "score": 4.0, "arguments": {"output": 2}},
    ]
    assert found.aggregate_error is not None
    assert found.aggregate_error.kind == "raised"
    assert f"ValueError: {given}" in found.aggregate_error.message
    assert found.aggregates == {}
    assert found.mean == 3  # the rows' own figures stay


def test_what_failed_is_in_no_figure_and_what_abstained_is() -> None:
    evaluates = (
        "def evaluate(output):\n    return {'score': None, 'label': 'odd'} if output == 1 else 1 / (output - 2)\n\n"
    )
    body = "def aggregate(results): return {r['outcome']: len(results) for r in results}"
    found = report(body, [{"output": n} for n in range(4)] + [{"x": 1}], evaluates).summary
    assert (found.scored, found.abstained, found.failed) == (2, 1, 2)
    assert found.aggregates == {"scored": 3, "abstained": 3}
    assert found.aggregate_rows == 3


def test_constant_values_go_to_parameters_of_their_name() -> None:
    evaluates = "def evaluate(output, k=1, unused=3):\n    return output\n\n"
    body = "def aggregate(results, k=5, other=6): return {'k': k, 'other': other, **results[0]['arguments']}"
    mapping = {"k": "metadata.k"}
    found = report(body, ROWS, evaluates, mapping=InputMapping(literals={"k": 7, "unused": 8}))
    assert found.summary.aggregates == {"k": 7, "other": 6, "output": 0}
    rows = [{"output": 1, "k": 9}]
    assert report(body, rows, evaluates, mapping=mapping).summary.aggregates == {"k": 9, "other": 6, "output": 1}
    needs = body.replace("k=5", "k")
    with pytest.raises(MappingError, match="aggregate needs one value of `k` for all rows"):
        report(needs, rows, evaluates, mapping=mapping)


def test_a_script_may_have_aggregate_alone() -> None:
    body = "def aggregate(results): return sum(r['arguments']['output'] for r in results)"
    found = report(body, evaluates="", require=["aggregate==12"])
    assert found.summary.aggregates == {"aggregate": 12}
    assert {result.outcome for result in found.results} == {"abstained"}
    assert found.summary.judged
    assert [gate.verdict for gate in found.summary.gates] == ["passed"]
    assert found.require("aggregate > 11") is found
    with pytest.raises(RequirementError):
        found.require("aggregate > 12")


def test_a_row_that_is_scored_several_times_is_given_once() -> None:
    body = "def aggregate(results): return {'n': len(results), 'sum': sum(r['score'] for r in results)}"
    found = report(body, ROWS, repeat=3).summary
    assert (found.aggregates, found.aggregate_error) == ({"n": 12, "sum": 4}, None)


def test_rows_that_are_not_run_again_are_given_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "cache_dir", lambda: tmp_path / "cache")
    body = (
        "def aggregate(results): return {str(n): r['score'] + r['arguments']['output'] for n, r in enumerate(results)}"
    )
    folder = tmp_path / "run"
    figures = report(body, output=folder).summary.aggregates
    assert figures == {str(n): float(n % 3 == n % 2) + n % 3 for n in range(12)}
    for lines in (12, 5):
        path = folder / "results.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
        assert report(body, output=folder, resume=True).summary.aggregates == figures
    for cached in (0, 12):  # equal rows are there once the first of them has run
        found = report(body, cache=True).summary
        assert found.aggregates == figures
        assert (found.cached or 0) >= cached


def test_without_rows_or_in_a_stream_it_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    found = report("def aggregate(results): return 1", [])
    assert (found.summary.aggregates, found.summary.aggregate_error) == ({}, None)
    failing = report(
        "def aggregate(results): return 1", [{"output": "x", "reference": 1}], "def evaluate(output): oops\n"
    )
    assert (failing.summary.failed, failing.summary.aggregates, failing.summary.aggregate_error) == (1, {}, None)

    async def called(*_: object) -> None:
        raise AssertionError("it is called")

    async def streamed() -> int:
        return len([result async for result in stream(script("def aggregate(results): return 1"), ROWS, sandbox=WASM)])

    monkeypatch.setattr(Aggregation, "run", called)
    assert asyncio.run(streamed()) == len(ROWS)
    with pytest.raises(AssertionError, match="it is called"):
        report("def aggregate(results): return 1")


@pytest.mark.parametrize(
    ("value", "figures"),
    [
        (1, {"aggregate": 1.0}),
        (0.5, {"aggregate": 0.5}),
        ({"f1": 1, "f1 (macro)": None, "né": -2.5}, {"f1": 1.0, "f1 (macro)": None, "né": -2.5}),
    ],
)
def test_what_it_may_return(value: object, figures: dict[str, float | None]) -> None:
    assert figures_of(value, "python") == figures


@pytest.mark.parametrize("language", ["python", "typescript"])
@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "0.5",
        [1],
        {},
        {"": 1},
        {" a": 1},
        {"a\nb": 1},
        {"a\x1b[31m": 1},
        {"a<b": 1},
        {"a" * 61: 1},
        {"a": "1"},
        {"a": True},
        {"a": [1]},
        {"a": {"b": 1}},
        {"a": 10**400},
        {str(n): n for n in range(MOST + 1)},
        float("nan"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_what_it_may_not_return(value: object, language: Language) -> None:
    with pytest.raises(InvalidResultError, match=r"^aggregate returned") as caught:
        figures_of(value, language)
    assert len(str(caught.value)) < 600
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "aggregate", "alone"),
    [
        ("def aggregate(results): pass", True, True),
        ("async def aggregate(results, *, k=1): pass", True, True),
        ("def judge(results): pass\naggregate = judge", True, True),
        ("aggregate = lambda results: 1", True, True),
        ("def evaluate(output): pass\ndef aggregate(scores): pass", False, False),
        ("def evaluate(output): pass\ndef aggregate(): pass", False, False),
        ("def evaluate(output): pass\ndef aggregate(*, results): pass", False, False),
        ("def evaluate(output, k): pass\ndef aggregate(results, k): pass", True, False),
        ("def aggregate(results): pass\naggregate = 1\ndef evaluate(output): pass", False, False),
    ],
)
def test_which_python_function_it_is(source: str, aggregate: bool, alone: bool) -> None:
    found = parse_evaluator(source, "x")
    assert (found.aggregate is not None, not found.evaluates) == (aggregate, alone)


@pytest.mark.parametrize(
    ("source", "aggregate", "alone"),
    [
        ("export function aggregate(results) { return 1 }", True, True),
        ("export default function aggregate(results: any[]) { return 1 }", True, True),
        ("const aggregate = (results: any[], { k = 1 } = {}) => 1;", True, True),
        ("export const evaluate = ({ output }) => 1; function aggregate(results) { return 1 }", True, False),
        ("export const evaluate = ({ output }) => 1; function aggregate(scores) { return 1 }", False, False),
        ("export default function evaluate(results: string, output: string) { return 1 }", False, False),
        ("export default ({ output }) => 1; export const aggregate = (results) => 1", True, False),
    ],
)
def test_which_typescript_function_it_is(source: str, aggregate: bool, alone: bool) -> None:
    found = parse_evaluator(source, "x", language="typescript")
    assert (found.aggregate is not None, not found.evaluates) == (aggregate, alone)


def test_a_parameter_that_nothing_gives_is_refused() -> None:
    with pytest.raises(EvaluatorError, match=r"x\.py: aggregate needs `beta`, which nothing gives"):
        parse_evaluator("def evaluate(output): pass\ndef aggregate(results, beta): pass", "x", "x.py")


def result(number: int, **more: Any) -> Result:
    values = {"id": f"r{number}", "number": number, "evaluator": "e", "version": "v", "sandbox": "s"}
    return Result(**{**values, "outcome": "scored", "score": 1.0, **more})


def gathered(memory: int, count: int, size: int = 100) -> AggregateRows:
    found = AggregateRows(script("def aggregate(results): pass"), (), memory)
    for number in range(count):
        one = result(number)
        found.watch(one, Call(id=number, arguments={"output": "x" * size}))
        found.add(one)
    return found


def test_rows_beyond_the_memory_are_counted_and_not_kept() -> None:
    with gathered(1 << 20, 1000) as found, pytest.raises(GatherError) as caught:
        found.read()
    error = caught.value.figures.aggregate_error
    assert error is not None
    assert error.kind == "memory"
    assert error.message.startswith("1,000 rows are 0.2 MB of JSON, and aggregate can be given 0.1 MB")
    assert "raise Limits(memory=…) to 3 MB" in error.message
    with gathered(3 << 20, 1000) as enough:
        assert len(json.loads(enough.read())) == 1000


def test_several_outputs_and_odd_text_are_carried() -> None:
    with gathered(1 << 20, 0) as found:
        one = result(1, label="\ud800é", outputs={"a": Score(score=1, label="x"), "b": Score()})
        found.watch(one, Call(id=1, arguments={"output": {"\udfff": [None, 1e400]}}))
        found.add(one)
        (row,) = json.loads(found.read())
    assert row["outputs"] == {"a": {"label": "x", "score": 1.0}, "b": {"label": None, "score": None}}
    assert row["label"] == "\ud800é"
    assert row["arguments"] == {"output": {"\udfff": [None, float("inf")]}}


def test_a_row_whose_arguments_are_not_known_spoils_all_figures() -> None:
    with gathered(1 << 20, 3) as found:
        found.add(result(9))
        with pytest.raises(GatherError, match="what row r9 was given is not known"):
            found.read()


SUMMARY = Summary(rows=4, scored=4, count=4, mean=0.5, aggregates={"f1": 0.8, "mean": 9, "none": None})


@pytest.mark.parametrize(
    ("text", "verdict", "value"),
    [
        ("f1>=0.8", "passed", 0.8),
        ("f1 > 0.8", "failed", 0.8),
        ("aggregate.f1>=0.8", "passed", 0.8),
        ("mean>=1", "failed", 0.5),
        ("aggregate.mean>=1", "passed", 9),
        ("none>0", "unjudged", None),
        ("recall>0", "unjudged", None),
    ],
)
def test_a_figure_is_required(text: str, verdict: str, value: float | None) -> None:
    gate = parse_gate(text, {}, required=True, figures=True)
    (found,) = judge(SUMMARY, [gate]).gates
    assert (found.verdict, found.value) == (verdict, value)


def test_a_figure_cannot_be_judged_while_rows_failed() -> None:
    gate = parse_gate("f1>=0.1", {}, required=True, figures=True)
    (found,) = judge(SUMMARY.model_copy(update={"failed": 1, "rows": 5}), [gate]).gates
    assert (found.verdict, found.missing_rows) == ("unjudged", True)


def test_a_failed_aggregate_leaves_its_gates_unjudged() -> None:
    error = ResultError(kind="timeout", message="the call took longer than 60 s")
    gate = parse_gate("f1>=0.1", {}, required=True, figures=True)
    (found,) = judge(SUMMARY.model_copy(update=dict(Figures(aggregate_error=error))), [gate]).gates
    assert (found.verdict, found.reason) == ("unjudged", "aggregate failed: the call took longer than 60 s")


def test_a_script_without_one_has_no_such_gates() -> None:
    with pytest.raises(InputError, match="there is no metric 'f1'"):
        parse_gate("f1>1", {})


class Lost(FakeProgram):
    """Loses its sandbox so many times; notes the limits of each run."""

    times = 0
    limits: ClassVar[list[Limits]] = []

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        Lost.limits.append(limits)
        if Lost.times:
            Lost.times -= 1
            raise SandboxLostError("the machine is gone")
        for call in calls:
            yield Execution(call=call.id, status="ok", value=0.5)


@pytest.mark.parametrize(("times", "kind"), [(0, None), (1, None), (2, "lost")])
def test_it_is_tried_once_more_when_the_sandbox_is_lost(times: int, kind: str | None) -> None:
    async def body() -> Figures:
        aggregation = Aggregation(script("def aggregate(results): return 1"), {}, Limits(memory=1 << 20), 7, None)
        one = result(1)
        aggregation.watch(one, Call(id=0))
        aggregation.add(one)
        async with Custom(lambda: Lost(ok)) as sandbox:
            await aggregation.run(sandbox)
        return aggregation.figures

    Lost.times, Lost.limits[:] = times, []
    found = asyncio.run(body())
    assert (found.aggregate_error.kind if found.aggregate_error else None) == kind
    assert found.aggregates == ({} if kind else {"aggregate": 0.5})
    assert {(limits.timeout, limits.memory) for limits in Lost.limits} == {(7, 1 << 20)}


def test_its_time_is_the_requests() -> None:
    body = "def aggregate(results):\n    while True: pass"
    found = report(body, aggregate_timeout=0.2, require=["aggregate>0"]).summary
    assert found.aggregate_error is not None
    assert found.aggregate_error.kind == "timeout"
    assert "raise `aggregate_timeout`" in found.aggregate_error.message
    assert [gate.verdict for gate in found.gates] == ["unjudged"]
    with pytest.raises(InputError, match="aggregate_timeout"):
        report(body, aggregate_timeout=0)


def test_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/how-to/aggregates.md"""
    monkeypatch.chdir(tmp_path)
    scripts = [*blocks(PAGES / "aggregates.md", "python"), *blocks(PAGES / "aggregates.md", "typescript")]
    for text in scripts:
        Path(text.split(maxsplit=2)[1]).write_text(text, encoding="utf-8")
    rows = [("a", "a"), ("b", "b"), ("a", "a"), ("b", "a")]
    write_rows(tmp_path / "data.jsonl", [{"output": a, "reference": b} for a, b in rows])
    write_rows(tmp_path / "topics.jsonl", [{"topic": "x"}, {"topic": "y"}])
    commands = [shlex.split(line)[1:] for block in blocks(PAGES / "aggregates.md", "") for line in block.splitlines()]
    first, alone = (json.loads(evalcell(*words, "-j", "1", "--json").stdout) for words in commands)
    assert (first["aggregates"], first["gates"][0]["verdict"]) == ({"agreement": 0.75, "kappa": 0.5}, "failed")
    assert (alone["aggregates"], alone["gates"][0]["verdict"]) == ({"aggregate": 1.0}, "passed")
    if find_spec("deno"):
        typescript = evalcell("run", "kappa.ts", "data.jsonl", "-j", "1", "--json", "--set", "floor=0.8")
        assert json.loads(typescript.stdout)["aggregates"] == {"agreement": 0.8}
