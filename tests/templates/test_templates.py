"""Every template is a complete evaluator, and its worked examples hold in every sandbox that runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import templates
from runner import Continuous, InputMapping, evaluate, read_evaluator
from runner.types import Result
from sandboxes import SandboxConfig, SandboxUnavailableError, backends, find

BACKENDS = [b.name for b in backends().values() if not b.hidden]
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


def config(name: str, sandbox: str) -> SandboxConfig:
    """For a template in a sandbox, with the files of its demo; skips where the sandbox lacks what it needs."""
    can = find(sandbox).capabilities
    files = {variable: str(path) for variable, path in templates.demo_files(name).items()}
    if read_evaluator(templates.path(name)).packages and not can.packages:
        pytest.skip(f"{sandbox} installs no packages")
    if files and not can.files:
        pytest.skip(f"{sandbox} shows no files")
    return SandboxConfig(backend=sandbox, files=files)


@pytest.mark.parametrize("name", templates.names())
def test_worked_examples_hold(name: str, sandbox: str) -> None:
    cases = lines(templates.path(name).parent / "cases.jsonl")
    assert len(cases) >= 10
    for given in {json.dumps(case.get("set", {})): case.get("set", {}) for case in cases}.values():
        alike = [case for case in cases if case.get("set", {}) == given]
        found = evaluate(name, alike, sandbox=config(name, sandbox), mapping=InputMapping(literals=given))
        for case, result in zip(alike, found.results, strict=True):
            got = {"label": result.label, "score": result.score, "explanation": result.explanation}
            wanted = case["expected"] | {"score": pytest.approx(case["expected"]["score"], abs=1e-9)}
            assert result.id == case["id"]
            assert result.error is None, case["id"]
            assert {key: got[key] for key in wanted} == wanted, case["id"]


@pytest.mark.parametrize("name", templates.names())
def test_each_is_documented_and_found_by_either_spelling(name: str) -> None:
    script = templates.path(name.replace("-", "_"))
    assert script == templates.path(name)
    assert read_evaluator(script).description
    assert "python" in templates.languages(name)
    with pytest.raises(KeyError):
        templates.path(name + "x")


def test_json_distance_is_minimised_from_zero() -> None:
    script = read_evaluator(templates.path("json-distance"))
    assert script.outputs == {"": Continuous(lower_bound=0, direction="minimize")}
    assert [p.name for p in script.parameters] == ["output", "reference"]
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
