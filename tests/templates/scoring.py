"""Templates scored where they run: each language in each sandbox that has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import templates
from runner import InputMapping, evaluate
from runner.core.types import Result
from runner.inputs.evaluators.resolve import find_evaluator
from sandboxes import SandboxConfig
from sandboxes.base import Language, Limits
from tests.skips import need

Place = tuple[str, Language]
DENO: Place = ("deno", "typescript")
PLACES: list[Place] = [("wasm", "python"), ("process", "python"), DENO]

LIMITS = Limits(timeout=20)


def score(
    name: str,
    place: Place,
    rows: Iterable[Mapping[str, Any]],
    paths: Mapping[str, str] | None = None,
    **literals: Any,
) -> list[Result]:
    """Skips where the sandbox, or the template in its language, is not here."""
    backend, language = place
    need(backend)
    if language not in templates.languages(name):
        pytest.skip(f"{name} is not written in {language}")
    script = find_evaluator(name, language)
    mapping = InputMapping(paths=dict(paths or {}), literals=literals)
    config = SandboxConfig(backend=backend, jobs=1)
    return evaluate(script, list(rows), sandbox=config, limits=LIMITS, mapping=mapping).results


def recipe_cases(shared: Path, name: str) -> list[dict[str, Any]]:
    return lines(shared / "cases" / "recipes" / f"{name}.jsonl")


def lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def agrees(case: Mapping[str, Any], result: Result, source: str) -> None:
    """That a result is what a source gave for a sample case, as near as the case asks for."""
    expected, policy = case["expected"][source]["value"], case["policy"][source]
    assert result.error is None, case["id"]
    assert result.score == pytest.approx(expected["score"], abs=policy["score_tol"]), case["id"]
    if "label" in expected:
        assert result.label == expected["label"], case["id"]
    if policy.get("explanation") == "exact":
        assert result.explanation == expected["explanation"], case["id"]
