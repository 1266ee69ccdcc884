"""Every template is a complete evaluator, and its worked examples hold in every sandbox that runs it."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import templates
from runner import Continuous, evaluate
from runner.core.types import Result
from runner.inputs.evaluators.resolve import find_evaluator
from runner.runs.examples.check import compare_result
from runner.runs.examples.load import for_language, read_examples
from runner.runs.parity import ParityTally
from sandboxes import SandboxUnavailableError, find
from tests.engine.prepared import prepared
from tests.templates.ways import BACKENDS, Opened, Way, ways

SHARED = Path(__file__).parents[2].parent / "shared"
RECIPE = SHARED / "recipes" / "json_distance.py"


@pytest.fixture(params=BACKENDS)
def sandbox(request: pytest.FixtureRequest) -> str:
    """Each backend that runs Python and can be opened here."""
    name: str = request.param
    try:
        found = find(name)
        found.check()
    except SandboxUnavailableError as e:
        pytest.skip(str(e))
    if "python" not in found.capabilities.languages:
        pytest.skip(f"{name} does not run Python")
    return name


def lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def said(result: Result) -> tuple[Any, ...]:
    return result.id, result.outcome, result.label, result.score, result.explanation


@pytest.mark.rotating("templates", "templates", "engine")
@pytest.mark.parametrize("way", ways(), ids=str)
def test_worked_examples_hold(way: Way, opened: Opened) -> None:
    cases = way.cases
    for case, result in zip(cases, opened.results(way, cases), strict=True):
        found = compare_result(case, result)
        assert found.verdict == "passed", (found.where, found.differences, found.result)


EVERY = [list(group) for _, group in groupby(sorted(ways()), lambda way: way.name)]


@pytest.mark.rotating("templates", "templates", "scripts", "engine")
@pytest.mark.parametrize("every", EVERY, ids=lambda every: str(every[0].name))
def test_all_ways_agree_on_the_worked_examples(every: list[Way], opened: Opened) -> None:
    found = [(way, opened.sandbox(way)) for way in every]
    able = [way for way, sandbox in found if not isinstance(sandbox, str)]
    if len(able) < 2:
        pytest.skip("; ".join(f"{way}: {why}" for way, why in found if isinstance(why, str)))
    cases = able[0].cases
    for way in able:
        cases = for_language(cases, way.language)
    sides = [prepared(way.evaluator, sandbox) for way, sandbox in found if not isinstance(sandbox, str)]
    tally = ParityTally(sides)
    for row in zip(*(opened.results(way, cases) for way in able), strict=True):
        tally.add(row)
    report = tally.report()
    assert (report.rows, report.same) == (len(cases), len(cases)), report.differences
    assert report.rows > report.failed


def test_the_sandboxes_that_come_with_evalcell_are_among_them() -> None:
    assert {way.backend for way in ways()} >= {"wasm", "process"}


@pytest.mark.parametrize("name", templates.names())
def test_each_has_enough_worked_examples_for_each_language(name: str) -> None:
    for language in templates.languages(name):
        assert len(for_language(read_examples(templates.cases(name)), language)) >= 10


@pytest.mark.parametrize("name", templates.names())
def test_each_is_documented_and_found_by_either_spelling(name: str) -> None:
    assert templates.path(name.replace("-", "_")) == templates.path(name)
    for language in templates.languages(name):
        assert "\n\nSource: " in find_evaluator(name, language).description
    with pytest.raises(KeyError):
        templates.path(name + "x")


def test_json_distance_is_minimised_from_zero() -> None:
    script = find_evaluator("json-distance")
    assert script.outputs == {"": Continuous(lower_bound=0, direction="minimize")}
    assert [p.name for p in script.parameters] == ["output", "reference", "extract"]
    assert not script.packages


def test_the_demo_is_small_real_and_licensed() -> None:
    demo = templates.demo("json-distance")
    assert demo is not None
    assert len(lines(demo)) == 200
    assert demo.stat().st_size < 300_000
    assert "MIT License" in demo.with_name("demo.LICENSE.txt").read_text("utf-8")


def test_json_distance_agrees_with_the_published_cases(sandbox: str) -> None:
    cases = lines(SHARED / "cases" / "recipes" / "json_distance.jsonl")
    rows = [{"id": case["id"], **case["inputs"]} for case in cases]
    for case, result in zip(cases, evaluate("json-distance", rows, sandbox=sandbox).results, strict=True):
        expected, policy = case["expected"]["python"]["value"], case["policy"]["python"]
        assert result.label == expected["label"], case["id"]
        assert result.score == pytest.approx(expected["score"], abs=policy["score_tol"])
        if policy["explanation"] == "exact":
            assert result.explanation == expected["explanation"]


@pytest.mark.parametrize(
    "dataset",
    ["datasets/json_tau_airline.jsonl", "cases/datasets/json_bfcl_perturbed.first200.jsonl"],
)
def test_json_distance_equals_the_published_script_on_real_rows(dataset: str, sandbox: str) -> None:
    rows = lines(SHARED / dataset)
    ours = evaluate("json-distance", rows, sandbox=sandbox).results
    theirs = evaluate(RECIPE, rows, sandbox=sandbox).results
    assert [said(r) for r in ours] == [said(r) for r in theirs]
    assert {r.outcome for r in ours} <= {"scored", "abstained"}
    assert len({r.score for r in ours}) > 3
