"""Worked examples: what `expected` means, and the Python door that tries them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import ExamplesError, InputMapping, check_examples
from runner.core.types import Evaluator, Parameter, Result
from runner.engine.scoring.diff import windows
from runner.runs.examples.check import ExampleResult, ExamplesReport, compare_result, default_jobs, report, run_examples
from runner.runs.examples.load import (
    MAX_EXAMPLES,
    Example,
    examples_from_rows,
    find_examples,
    for_language,
    read_examples,
)
from sandboxes.base import Call, Execution
from sandboxes.errors import SandboxLostError
from tests.engine.prepared import prepared
from tests.engine.scripted import SCRIPT, echo, fake

SCORED = {"outcome": "scored", "label": "a", "score": 0.5, "explanation": "because"}
ABSTAINED = {"outcome": "abstained", "label": "a"}
FAILED = {"outcome": "failed", "error": {"kind": "raised", "message": "ValueError: no (line 3)"}}
SEVERAL = SCORED | {"outputs": {"first": {"label": "a", "score": 0.5}, "second": {"score": 2.0}}}


def result(said: dict[str, Any]) -> Result:
    return Result.model_validate({"id": "x", "number": 1, "evaluator": "e", "version": "v", "sandbox": "s", **said})


def differing(expected: dict[str, Any], said: dict[str, Any], **more: Any) -> dict[str, tuple[Any, Any]]:
    (case,) = examples_from_rows([{"expected": expected, **more}])
    return {one.field: (one.expected, one.got) for one in compare_result(case, result(said)).differences}


AGREE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"score": 0.5}, SCORED),
    ({"label": "a", "score": 0.5, "explanation": "because"}, SCORED),
    ({"score": 0.5 + 1e-10}, SCORED),
    ({"outcome": "scored"}, SCORED),
    ({"label": "a", "score": None, "explanation": None}, ABSTAINED),
    ({"outcome": "abstained"}, ABSTAINED),
    ({"outcome": "failed"}, FAILED),
    ({"kind": "raised"}, FAILED),
    ({"message": "ValueError"}, FAILED),
    ({"outcome": "failed", "kind": "raised", "message": "no (line"}, FAILED),
    ({"outputs": {"second": {"score": 2, "label": None}}}, SEVERAL),
]
DIFFER: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"score": 0.5 + 1e-8}, SCORED, {"score": (0.5 + 1e-8, 0.5)}),
    ({"score": None}, SCORED, {"score": (None, 0.5)}),
    ({"score": 0}, ABSTAINED, {"score": (0.0, None)}),
    ({"label": "A", "score": 0.5, "explanation": ""}, SCORED, {"label": ("A", "a"), "explanation": ("", "because")}),
    ({"outcome": "abstained", "score": 1}, SCORED, {"outcome": ("abstained", "scored")}),
    ({"outcome": "failed"}, SCORED, {"outcome": ("failed", "scored")}),
    ({"kind": "raised"}, ABSTAINED, {"outcome": ("failed", "abstained")}),
    ({"label": None}, FAILED, {"outcome": ("scored", "failed")}),
    ({"score": None}, FAILED, {"outcome": ("scored", "failed")}),
    ({"outputs": {}}, FAILED, {"outcome": ("scored", "failed")}),
    (
        {"kind": "timeout", "message": "yes"},
        FAILED,
        {"kind": ("timeout", "raised"), "message": ("yes", "ValueError: no (line 3)")},
    ),
    ({"outputs": {"second": {"score": 3}}}, SEVERAL, {"second.score": (3.0, 2.0)}),
    ({"outputs": {"third": {"score": 3}}}, SEVERAL, {"outputs": ("third", "its outputs are `first`, `second`")}),
]


@pytest.mark.parametrize(("expected", "said"), AGREE)
def test_what_is_expected_holds(expected: dict[str, Any], said: dict[str, Any]) -> None:
    assert differing(expected, said) == {}


@pytest.mark.parametrize(("expected", "said", "found"), DIFFER)
def test_what_is_expected_does_not_hold(expected: dict[str, Any], said: dict[str, Any], found: dict[str, Any]) -> None:
    assert differing(expected, said) == found


def test_the_tolerance_is_the_rows_own() -> None:
    assert differing({"score": 0.6}, SCORED, tolerance=0.11) == {}
    assert differing({"score": 0.5 + 1e-10}, SCORED, tolerance=0) == {"score": (0.5 + 1e-10, 0.5)}


def test_a_lost_case_is_neither_passed_nor_failed() -> None:
    (case,) = examples_from_rows([{"expected": {"score": 1}}])
    found = compare_result(case, result({"outcome": "lost", "error": {"kind": "lost", "message": "gone"}}))
    assert (found.verdict, found.differences) == ("lost", ())


def test_what_is_kept_of_a_result_is_bounded() -> None:
    (case,) = examples_from_rows([{"expected": {"explanation": "y" * 100_000}}])
    long = {"label": "l" * 100_000, "explanation": "x" * 100_000, "stdout": "s" * 60_000}
    several = {"outputs": {"a": {"explanation": "x" * 100_000}}}
    found = compare_result(case, result(SCORED | long | several))
    assert found.verdict == "failed"
    assert len(found.model_dump_json()) < 20_000
    assert found.result.stdout == "s" * 2000


@pytest.mark.parametrize(
    ("values", "cut"),
    [
        (("abc", "abd"), ["abc", "abd"]),
        ((None, 1, "x" * 30), [None, 1, "x" * 10 + "…"]),
        (("x" * 30 + "a", "x" * 30 + "bc"), ["…xxxxxa", "…xxxxxbc"]),
        (("x" * 30, "x" * 30 + "y" * 30), ["…xxxxx", "…xxxxxyyyyy…"]),
        (("a" + "x" * 30, "b"), ["axxxxxxxxx…", "b"]),
        (("x" * 20 + "a", "x" * 20 + "b", "x" * 20 + "a"), ["…xxxxxa", "…xxxxxb", "…xxxxxa"]),
    ],
)
def test_long_texts_are_cut_around_the_first_difference(values: tuple[Any, ...], cut: list[Any]) -> None:
    assert windows(values, 10) == cut


def tried(cases: tuple[Example, ...], script: Callable[[Call], Execution], evaluator: Evaluator) -> list[ExampleResult]:
    sandbox = fake(script)

    async def collect() -> list[ExampleResult]:
        async with sandbox:
            return [found async for found in run_examples(prepared(evaluator, sandbox), cases, sandbox)]

    found = asyncio.run(collect())
    assert (sandbox.opened, len(sandbox.programs)) == (1, 1)
    return found


def test_all_cases_run_in_one_sandbox_and_one_loading_whatever_they_set() -> None:
    evaluator = SCRIPT.model_copy(update={"parameters": (Parameter(name="output"), Parameter(name="by"))})

    def times(call: Call) -> Execution:
        return Execution(call=call.id, status="ok", value=call.arguments["output"] * call.arguments["by"])

    rows = [{"output": n, "set": {"by": n % 3}, "expected": {"score": n * (n % 3)}} for n in range(200)]
    found = tried(examples_from_rows(rows), times, evaluator)
    assert [case.verdict for case in found] == ["passed"] * 200
    assert [case.id for case in found] == [str(n) for n in range(1, 201)]


def test_a_report_counts_every_verdict() -> None:
    def lose(call: Call) -> Execution:
        if call.arguments["output"] == 2:
            raise SandboxLostError("gone")
        return echo(call)

    rows = [{"output": n, "expected": {"score": 1}} for n in (1, 2, 3)]
    found = tried(examples_from_rows(rows), lose, SCRIPT)
    made = report(prepared(SCRIPT, fake()), found, skipped=4)
    assert (made.passed, made.failed, made.lost, made.skipped) == (1, 1, 1, 4)
    assert (made.evaluator, made.version, made.language, made.sandbox) == ("e", "abc", "python", "fake")


def test_a_few_cases_run_in_this_process() -> None:
    (case,) = examples_from_rows([{"expected": {"score": 1}}])
    assert (default_jobs([case]), default_jobs([case] * 1000)) == (1, None)


def test_cases_are_found_beside_a_script(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    with pytest.raises(ExamplesError, match=r"neither mine\.cases\.jsonl nor cases\.jsonl"):
        find_examples(script)
    for name in ("cases.jsonl", "mine.cases.jsonl"):
        (tmp_path / name).write_text("")
        assert find_examples(script) == tmp_path / name
    assert find_examples("json-distance").name == "cases.jsonl"


def test_a_file_of_cases_may_have_a_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(
        '\ufeff{"output": "é", "expected": {"label": "x"}}\r\n\r\n{"expected": {"label": "y"}}\r\n'.encode()
    )
    first, second = read_examples(path)
    assert (first.output, first.where, second.where, second.id) == ("é", "cases.jsonl:1", "cases.jsonl:3", "2")
    assert [c.present for c in (first, second)] == [frozenset({"output"}), frozenset()]


def test_languages_choose_the_cases() -> None:
    every = examples_from_rows([{"expected": {"score": 1}, "languages": [one]} for one in ("python", "typescript")])
    assert [c.id for c in for_language(every, "python")] == ["1"]
    assert [c.id for c in for_language(every, "typescript")] == ["2"]


@pytest.mark.rotating("long tests", "doors")
def test_rows_are_as_good_as_a_file(tmp_path: Path) -> None:
    script = tmp_path / "plus.py"
    script.write_text("def evaluate(output, by=1):\n    return float(output + by)\n")
    rows = [
        {"id": "a", "output": 1, "expected": {"score": 2}},
        {"id": "b", "output": 1, "set": {"by": 0}, "expected": {"score": 2}},
    ]
    found = check_examples(script, rows, sandbox="wasm")
    assert isinstance(found, ExamplesReport)
    assert (found.passed, found.failed) == (1, 1)
    assert found.examples[1].where == "example 2"
    assert check_examples(script, rows[:1], mapping=InputMapping(literals={"by": 5})).failed == 1
    with pytest.raises(ExamplesError, match="example 1: the example has no `expected`"):
        check_examples(script, [{"output": 1}])
    for wrong in ({"expected": 1}, {"expected": {"score": 1}, "set": []}):
        with pytest.raises(ExamplesError, match=r"example 1: `\w+` must be an object, not "):
            check_examples(script, [wrong])
    with pytest.raises(ExamplesError, match="example 2: a row must be a mapping"):
        check_examples(script, [rows[0], 3])  # type: ignore[arg-type]
    with pytest.raises(ExamplesError, match="more than 20,000 examples"):
        check_examples(script, ({"expected": {"score": n}} for n in range(MAX_EXAMPLES + 1)))


def test_without_a_case_for_the_language_nothing_is_opened() -> None:
    found = check_examples(
        "json-distance", [{"expected": {"score": 1}, "languages": ["typescript"]}], language="python"
    )
    assert (found.examples, found.skipped, found.sandbox) == ((), 1, found.sandbox)


def test_an_evaluator_of_ones_own_needs_its_cases_named() -> None:
    with pytest.raises(ExamplesError, match="no folder to look for the examples of e; name a file"):
        check_examples(SCRIPT)
    with pytest.raises(ExamplesError, match="there is no template named 'e'"):
        find_examples("e")
