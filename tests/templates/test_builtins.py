"""contains, exact-match, regex and regex-match: as the built-ins that they follow, and the same in both languages."""

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runner import InputError, evaluate
from runner.core.types import InputMapping
from runner.runs.api.run import check_examples
from sandboxes import SandboxConfig, find
from sandboxes.base import Limits
from templates.contains.evaluator import evaluate as contains
from templates.regex_match.evaluator import evaluate as regex_match
from tests.skips import need
from tests.templates.scoring import LIMITS, PLACES, Place, recipe_cases, score

pytestmark = pytest.mark.rotating("templates", "templates")

DENO: Place = ("deno", "typescript")
BUILT_IN = {"contains", "exact_match", "regex"}


@cache
def assigned() -> list[str]:
    """All characters. A second of work, which collecting the tests does not need."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs")]


def worked(case: dict[str, Any]) -> dict[str, Any]:
    """A published case of a built-in as a worked example of ours."""
    expected = case["expected"]["phoenix_builtin"]
    failed = {"outcome": "failed", "kind": "mapping"}
    return {
        "id": case["id"],
        **case["context"],
        "set": case["literal_mapping"],
        "map": case["path_mapping"],
        "expected": expected.get("value", failed),
    }


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_agrees_with_the_built_in(name: str, place: Place, shared: Path) -> None:
    backend, language = place
    need(backend)
    cases = [worked(case) for case in recipe_cases(shared, "phoenix_builtins") if case["evaluator"] == name]
    report = check_examples(name, cases, sandbox=backend, limits=LIMITS, language=language)
    assert [(case.id, case.differences) for case in report.examples if case.verdict != "passed"] == []
    assert report.passed == len(cases) > 15


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_pattern_that_hangs_costs_its_own_row_alone(place: Place) -> None:
    backend, language = place
    need(backend)
    rows = [{"output": "aab"}, {"output": "aaa"}, {"output": "a" * 60 + "!"}, {"output": "aaa"}, {"output": "!"}]
    mapping, limits = InputMapping(literals={"pattern": "(a+)+$"}), Limits(timeout=0.5)
    for isolation in find(backend).capabilities.isolation:
        config = SandboxConfig(backend=backend, isolation=isolation, jobs=1)
        found = evaluate("regex", rows, sandbox=config, limits=limits, mapping=mapping, language=language).results
        assert [r.label for r in found] == ["false", "true", None, "true", "false"]
        assert [r.outcome for r in found] == ["scored", "scored", "failed", "scored", "scored"]
        assert found[2].error is not None
        assert found[2].error.kind == "timeout"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("contains", {"words": "a", "case_sensitive": "yes"}),
        ("contains", {"words": "a", "require_all": 1}),
        ("exact-match", {"case_sensitive": None}),
        ("regex", {"pattern": "a", "full_match": "true"}),
        ("regex-match", {"pattern": ["a"]}),
        ("regex-match", {"pattern": "a", "group": 1.5}),
    ],
)
def test_what_a_parameter_does_not_take_is_refused_by_name(name: str, given: dict[str, Any]) -> None:
    wrong = list(given)[-1]
    with pytest.raises(InputError, match=f"`{wrong}` must be"):
        evaluate(name, [{"output": "a", "reference": "a"}], mapping=InputMapping(literals=given))


def test_white_space_around_words_is_the_same_in_both_languages() -> None:
    odd = [c for c in assigned() if c.isspace() or c in "\ufeff\u200b\u180e\u2060\0"]
    words = ",".join(f"{c}{n}x{c}" for n, c in enumerate(odd))
    (result,) = score("contains", DENO, [{"output": words}], words=words)
    assert result.explanation == contains(words, words)["explanation"]


def test_lower_case_is_the_same_in_both_languages() -> None:
    cased = [c for c in assigned() if c.lower() != c or c.upper() != c]
    words = ["ΑΣ", "ΑΣΑ", "Σ", "ΑΣ.", "ΑΣ\u0301", "ΑΣ\u0301\u0391", "Σ.\u0391", "İΣ", "ǅΣ", "ᾼΣ"]
    rows = [{"output": text, "reference": text.lower()} for text in (*words, " ".join(cased))]
    assert [r.label for r in score("exact-match", DENO, rows, case_sensitive=False)] == ["true"] * len(rows)


def test_groups_capture_the_same_in_both_languages() -> None:
    tried: list[tuple[str, str, int | str]] = []
    for group in (0, 1, 2, 3, 4, "first", "last"):
        tried.append((r"(?P<first>\w+) (?P<last>\w+)(, (\d+))?", "John Smith, 42", group))
    tried += [("(?i:(A))(?:(x)|(b))", "ab", group) for group in (1, 2, 3)]
    rows = [{"pattern": p, "output": text, "group": group, "reference": "Smith"} for p, text, group in tried]
    found = score("regex-match", DENO, rows, paths={"pattern": "metadata.pattern", "group": "metadata.group"})
    wanted = [regex_match(text, pattern, group=group, reference="Smith") for pattern, text, group in tried]
    assert [(r.label, r.score, r.explanation) for r in found] == [tuple(w.values()) for w in wanted]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_pattern_that_python_warns_of_is_one(place: Place) -> None:
    (result,) = score("regex", place, [{"output": "["}], pattern="[[]")
    assert result.label == "true"
