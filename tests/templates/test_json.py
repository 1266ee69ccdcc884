"""The templates that compare JSON, against the sources that they follow."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import InputMapping, evaluate
from runner.engine.scoring.overview import outcome_words
from runner.engine.scoring.summary import EXTRACTION_MARK
from templates.json_difference.evaluator import evaluate as json_difference
from templates.json_distance_strict.evaluator import evaluate as json_distance_strict
from templates.json_similarity.evaluator import evaluate as json_similarity
from templates.parts.json_text import find_json
from templates.parts.levenshtein import similarity
from templates.tool_calls.evaluator import evaluate as tool_calls
from tests.skips import need
from tests.templates.scoring import DENO, LIMITS, PLACES, Place, agrees, lines, recipe_cases, score

pytestmark = pytest.mark.rotating("templates", "templates")

SEED_DECIDES = {"jd-n036", "jd-n037", "jd-n038", "jd-n039", "jd-n040", "jd-n042", "jd-n051"}
"""The built-in evaluator counts 1 against 1.0 there; its documentation says that it does not."""
DATASETS = ["datasets/json_tau_airline.jsonl", "cases/datasets/json_bfcl_perturbed.first200.jsonl"]

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.5]) | st.text("ab", max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
WEIGHTS = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.sampled_from([0, 0.25, 1]),
        lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c", "__a", "__b"]), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def deep(levels: int, core: object = 1) -> Any:
    for _ in range(levels):
        core = [core]
    return core


def pairs(count: int) -> list[dict[str, Any]]:
    """Rows of documents of which one is an edited copy of the other."""
    chance = random.Random(count)

    def value(level: int = 0) -> Any:
        kind = chance.randrange(8 if level < 4 else 5)
        if kind < 5:
            return chance.choice([None, True, False, 0, 1, 1.5, -7, "", "a", "東京", "😀", "1", {}, []])
        if kind < 7:
            return {chance.choice("abcd東"): value(level + 1) for _ in range(chance.randrange(5))}
        return [value(level + 1) for _ in range(chance.randrange(4))]

    def edited(old: Any) -> Any:
        if chance.random() < 0.15:
            return value(3)
        if isinstance(old, dict):
            return {key: edited(held) for key, held in old.items() if chance.random() < 0.9}
        return [edited(held) for held in old if chance.random() < 0.9] if isinstance(old, list) else old

    documents = [{str(n): value() for n in range(4)} for _ in range(count)]
    return [{"output": edited(document), "reference": document} for document in documents]


# json-distance


def test_typescript_agrees_with_the_published_cases(shared: Path) -> None:
    cases = recipe_cases(shared, "json_distance")
    rows = [{"id": case["id"], **case["inputs"]} for case in cases]
    for case, result in zip(cases, score("json-distance", DENO, rows), strict=True):
        agrees(case, result, "typescript")


@pytest.mark.parametrize("dataset", DATASETS)
def test_typescript_equals_the_published_script_on_real_rows(dataset: str, shared: Path) -> None:
    rows = lines(shared / dataset)
    ours = score("json-distance", DENO, rows)
    theirs = evaluate(shared / "recipes" / "json_distance.ts", rows, sandbox="deno", limits=LIMITS).results
    assert [(r.label, r.score, r.explanation) for r in ours] == [(r.label, r.score, r.explanation) for r in theirs]
    assert len({r.score for r in ours}) > 3


# json-distance-strict


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_strict_agrees_with_the_built_in_where_its_documentation_does(place: Place, shared: Path) -> None:
    cases = [case for case in recipe_cases(shared, "json_distance") if case["id"] not in SEED_DECIDES]
    rows = [{"id": case["id"], **case["inputs"]} for case in cases]
    for case, result in zip(cases, score("json-distance-strict", place, rows), strict=True):
        agrees(case, result, "phoenix_builtin")


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_strict_tells_booleans_from_numbers_and_no_number_from_another_form_of_it(place: Place) -> None:
    different, equal = [(True, 1), (False, 0), (True, 1.0), ("1", 1)], [(1, 1.0), (0, -0.0), (100, 1e2), (True, True)]
    rows = [{"output": json.dumps(a), "reference": json.dumps(b)} for a, b in different + equal]
    assert [r.score for r in score("json-distance-strict", place, rows)] == [1] * 4 + [0] * 4


def test_strict_is_the_same_in_both_languages() -> None:
    rows = pairs(100)
    found = [[(r.score, r.explanation) for r in score("json-distance-strict", place, rows)] for place in PLACES[::2]]
    assert found[0] == found[1]
    assert len(set(found[0])) > 3


@given(VALUES, VALUES)
def test_strict_is_a_count_that_has_no_direction(a: object, b: object) -> None:
    found, back = json_distance_strict(a, b, parse_strings=False), json_distance_strict(b, a, parse_strings=False)
    assert found == back
    assert json_distance_strict(a, a, parse_strings=False)["score"] == 0
    assert (found["score"] == 0) == (typed(a) == typed(b))


def typed(value: object) -> object:
    """The value, with booleans that equal no number."""
    if isinstance(value, dict):
        return {key: typed(held) for key, held in value.items()}
    if isinstance(value, list):
        return [typed(held) for held in value]
    return str(value) if isinstance(value, bool) else ("text", value) if isinstance(value, str) else value


# json-difference


@pytest.mark.parametrize("place", PLACES[:2], ids=str)
def test_difference_agrees_with_the_published_formula(place: Place, shared: Path) -> None:
    cases = recipe_cases(shared, "lynxius")
    given = [case["inputs"] for case in cases]
    rows = [{"output": g["output"], "reference": g["reference"], "metadata": {"weights": g["weights"]}} for g in given]
    results = score("json-difference", place, rows, {"weights": "metadata.weights"})
    for case, result in zip(cases, results, strict=True):
        agrees(case, result, "formula")
        agrees(case, result, "lynxius_package")


def formula(reference: object, output: object, weights: Any) -> float:
    """The seed's formulas as they are written: S = sum(score * w * f) / n with f = n / sum(w)."""
    if isinstance(reference, dict) and isinstance(output, dict):
        keys = sorted(reference.keys() | output.keys())
        scores, own = [], []
        for key in keys:
            w = weights.get(key, 1.0) if isinstance(weights, dict) else 1.0
            own.append(w.get(f"__{key}", 1.0) if isinstance(w, dict) else w)
            scores.append(formula(reference.get(key), output.get(key), w))
        own = [w if isinstance(w, int | float) else 1.0 for w in own]
        own = own if any(own) else [1.0] * len(own)
        return sum(s * w * len(keys) / sum(own) for s, w in zip(scores, own, strict=True)) / len(keys) if keys else 1.0
    if isinstance(reference, list) and isinstance(output, list):
        both = [formula(a, b, weights) for a, b in zip(reference, output, strict=False)]
        return sum(both) / len(both) if both else float(reference == output)
    if isinstance(reference, str) and isinstance(output, str):
        return similarity(reference, output)
    if isinstance(reference, int | float) and isinstance(output, int | float):
        size = abs(reference) + abs(output)
        return 1 - abs(reference - output) / size if size else 1.0
    return float(reference is None and output is None)


@given(VALUES, VALUES, WEIGHTS)
def test_difference_is_the_formula(a: object, b: object, weights: dict[str, Any]) -> None:
    found = json_difference(a, b, weights)["score"]
    assert found == pytest.approx(formula(b, a, weights), abs=1e-12)
    assert found == pytest.approx(json_difference(b, a, weights)["score"], abs=1e-12)
    assert json_difference(a, a, weights)["score"] == 1


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (1e308, -1e308, 0.0),
        (1.7e308, 1.7e308 / 2, 2 / 3),
        (5e-324, 1e-323, 2 / 3),
        (10**400, 10**400 + 10**399, 2 * 10 / 21),
        (10**400, 1.5, 0.0),
        (2 * 10**308, 1e308, 2 / 3),
        (True, False, 0.0),
    ],
)
def test_difference_of_numbers_at_the_end_of_their_range(a: float, b: float, wanted: float) -> None:
    assert json_difference(a, b)["score"] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("weight", [-0.1, 1.1, "0.5", True, None, [], float("nan"), {"__a": 2}])
def test_difference_refuses_weights_that_the_documentation_does_not_allow(weight: object) -> None:
    with pytest.raises(ValueError, match="must be a number from 0 to 1"):
        json_difference({"a": 1}, {"a": 1}, {"a": weight})


# json-similarity


@pytest.mark.parametrize("place", PLACES[:2], ids=str)
def test_similarity_agrees_with_the_package(place: Place, shared: Path) -> None:
    cases = sorted(recipe_cases(shared, "uipath_json_similarity"), key=lambda case: json.dumps(case["config"]))
    for given_config, alike in groupby(cases, lambda case: json.dumps(case["config"])):
        group = list(alike)
        literals = {"parse_strings": False, **json.loads(given_config)}
        results = score("json-similarity", place, [case["inputs"] for case in group], **literals)
        for case, result in zip(group, results, strict=True):
            if "raises" in case["expected"]["uipath_package"]:
                assert result.outcome == "failed", case["id"]
                continue
            agrees(case, result, "uipath_package")
            said = case["expected"]["uipath_package"]["value"]
            matched = f"{said['matched_leaves']:.4f}".rstrip("0").rstrip(".")
            assert result.explanation == f"Matched leaves: {matched}, Total leaves: {said['total_leaves']:.0f}"


def test_similarity_differs_from_the_package_by_default_in_texts_that_are_json_alone(shared: Path) -> None:
    for case in recipe_cases(shared, "uipath_json_similarity"):
        sides, config = case["inputs"], case["config"]
        if "raises" in case["expected"]["uipath_package"]:
            with pytest.raises(ValueError, match="has no such key"):
                json_similarity(**sides, **config)
        else:
            assert json_similarity(**sides, **config) == json_similarity(**sides, **config, parse_strings=False)


def leaves(expected: object, actual: object) -> tuple[float, int]:
    """Matched and total leaves, by recursion."""
    if isinstance(expected, dict):
        has = actual if isinstance(actual, dict) else {}
        both = [leaves(value, has.get(key, ...)) for key, value in expected.items()]
    elif isinstance(expected, list):
        found = actual if isinstance(actual, list) else []
        both = [leaves(value, found[at] if at < len(found) else ...) for at, value in enumerate(expected)]
    elif isinstance(expected, str) and isinstance(actual, str):
        return similarity(expected, actual), 1
    elif type(expected) in (int, float) and isinstance(actual, int | float) and not isinstance(actual, bool):
        assert isinstance(expected, int | float)
        return (max(0.0, 1 - abs(expected - actual) / abs(expected)) if expected else float(actual == 0)), 1
    else:
        return float(expected == actual and type(expected) is type(actual)), 1
    return sum(matched for matched, _ in both), sum(total for _, total in both)


@given(VALUES, VALUES)
def test_similarity_is_matched_leaves_over_expected_leaves(expected: object, actual: object) -> None:
    matched, total = leaves(expected, actual)
    wanted = matched / total if total else 1.0
    assert json_similarity(actual, expected, parse_strings=False)["score"] == pytest.approx(wanted, abs=1e-12)
    assert json_similarity(expected, expected)["score"] == 1


@pytest.mark.parametrize(
    ("expected", "actual", "wanted"),
    [
        (100, 102, 0.98),
        (100, 250, 0.0),
        (1e308, -1e308, 0.0),
        (0, 1e-12, 1.0),
        (1e-12, 1e-3, 0.0),
        (10**400, 9 * 10**399, 0.9),
        (10**400, 1e300, 0.0),
        (1.5, 10**400, 0.0),
        (1, True, 0.0),
    ],
)
def test_similarity_of_numbers(expected: float, actual: float, wanted: float) -> None:
    assert json_similarity(actual, expected)["score"] == pytest.approx(wanted, abs=1e-9)


# hostile


@pytest.mark.parametrize("compare", [json_distance_strict, json_difference, json_similarity])
def test_values_of_any_depth_are_compared(compare: Callable[..., dict[str, object]]) -> None:
    one, two = compare(deep(50_000, "1"), deep(50_000, "1")), compare(deep(50_000, "1"), deep(50_000, "2"))
    assert {one["score"], two["score"]} == {0.0, 1.0}


@pytest.mark.parametrize("place", PLACES[:2], ids=str)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 200_000 + "]" * 200_000, "is nested too deeply"),
        ("[" + "1" * 5000 + "]", "has a number of too many digits"),
        ("[1, 2", "is not valid JSON"),
    ],
    ids=["deep", "digits", "cut"],
)
def test_text_that_cannot_be_parsed_is_told_why(text: str, why: str, place: Place) -> None:
    rows = [{"output": text, "reference": [1]}, {"output": [1], "reference": text}]
    for name, side, other, worst in (
        ("json-distance-strict", "`actual`", "`expected`", None),
        ("json-difference", "the output", "the reference", 0.0),
        ("json-similarity", "the output", "the reference", 0.0),
    ):
        found = [(r.label, r.score, r.explanation) for r in score(name, place, rows)]
        assert found == [
            ("invalid", worst, f"Failed to parse JSON: {side} {why}"),
            ("invalid", None, f"Failed to parse JSON: {other} {why}"),
        ]


def test_typescript_takes_any_depth() -> None:
    need("deno")
    a, b = "[" * 100_000 + "1" + "]" * 100_000, "[" * 100_000 + "2" + "]" * 100_000
    for name in ("json-distance", "json-distance-strict"):
        assert [r.score for r in score(name, DENO, [{"output": a, "reference": b}])] == [1]


# extract

PIECES = (
    """
{"a": 1}|{}|[1]|[1, 2.5e3]|[["x"], 2]|[[1], [2]]|```json\n|\n```|~~~|\n|"|{|[|]|}| "q\" }" |{x}|[note]|As
|\frac{1}{2}|{"b": [{"c": "]"}]}|[2024-05-01]|\r\n|é😀|\n```json\n{"a": 2}\n```\n|\n~~~\n[1]\n~~~\n
""".strip()
    .replace("\\n", "\n")
    .replace("\\r", "\r")
    .split("|")
)


def mixed(count: int) -> list[str]:
    """Texts of prose, fences and JSON, whole and broken."""
    chance = random.Random(count)
    return ["".join(chance.choices(PIECES, k=chance.randrange(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("extract", ["whole", "fence", "first", "last"])
def test_both_languages_take_the_same_json_out_of_a_text(extract: str) -> None:
    rows = [{"output": text, "reference": {"a": 1}} for text in mixed(400)]
    found = [
        [(r.label, r.score, r.explanation) for r in score("json-distance-strict", place, rows, extract=extract)]
        for place in PLACES[::2]
    ]
    assert found[0] == found[1]
    taken = [said for _, _, said in found[0] if said and said.endswith(EXTRACTION_MARK)]
    assert bool(taken) == (extract != "whole")


def test_the_summary_counts_the_rows_whose_json_was_taken_out() -> None:
    rows = [{"output": text, "reference": "{}"} for text in ("{}", "```\n{}\n```", "It is {}.", "It is:\n~~~\n{}\n~~~")]
    counts = {
        how: evaluate("json-similarity", rows, sandbox="wasm", mapping=InputMapping(literals={"extract": how})).summary
        for how in ("whole", "fence", "first")
    }
    assert {how: (one.extracted, one.mean) for how, one in counts.items()} == {
        "whole": (0, 0.25),
        "fence": (2, 0.75),
        "first": (3, 1.0),
    }
    assert "JSON taken out of a fence or prose in 3 rows" in outcome_words(counts["first"])


def test_a_long_text_of_brackets_takes_no_time_that_grows_with_its_square() -> None:
    for text in ("[" * 200_000, "{" * 200_000, '["' * 100_000, "[1," * 70_000, "```\n" * 50_000):
        for how in ("fence", "first", "last"):
            find_json(text, how)


# tool-calls


@pytest.mark.parametrize("order", ["any", "same"])
def test_both_languages_score_the_same_calls_alike(order: str) -> None:
    chance = random.Random(7)

    def calls() -> list[dict[str, Any]]:
        values: list[Any] = [1, 1.0, True, "a", None, [1, {"x": 2}], {"x": [False]}]
        names = [chance.choice(["search", "book", "pay"]) for _ in range(chance.randrange(5))]
        return [
            {"name": name, "args": {key: chance.choice(values) for key in "abc" if chance.random() < 0.7}}
            for name in names
        ]

    rows = [{"output": calls(), "reference": calls()} for _ in range(200)]
    found = [
        [(r.label, r.score, r.explanation) for r in score("tool-calls", place, rows, order=order)]
        for place in PLACES[::2]
    ]
    assert found[0] == found[1]
    assert {label for label, _, _ in found[0]} >= {"match", "missing", "extra", "arguments", "wrong_tool"}


def test_any_order_never_scores_less_than_the_same_order() -> None:
    chance = random.Random(3)
    for _ in range(500):
        sides = [
            [{"name": chance.choice("ab"), "args": {"x": chance.randrange(3)}} for _ in range(chance.randrange(4))]
            for _ in range(2)
        ]
        free, strict = (tool_calls(sides[0], sides[1], order=order)["score"] for order in ("any", "same"))
        assert isinstance(free, float)
        assert isinstance(strict, float)
        assert 0 <= strict <= free <= 1


def test_calls_of_real_rows_that_match_are_those_whose_json_does_not_differ(shared: Path) -> None:
    for row in lines(shared / DATASETS[0])[:200]:
        same = json_distance_strict(row["reference"], row["output"])["score"] == 0
        assert (tool_calls(row["output"], row["reference"], order="same")["label"] == "match") == same, row["id"]
