"""composite and pairwise: what holds for any texts, and the same in both languages."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import InputError, evaluate
from runner.core.types import InputMapping
from templates.composite.evaluator import AXES
from templates.composite.evaluator import evaluate as composite
from templates.pairwise.evaluator import evaluate as pairwise
from templates.parts.overlap import overlap
from tests.templates.scoring import PLACES, Place, score

pytestmark = pytest.mark.rotating("templates", "templates")

DENO: Place = ("deno", "typescript")
TEXTS = st.text("ab é东😀_.") | st.lists(st.sampled_from(["the", "cat", "Sat", "мир", "ß"])).map(" ".join)
WEIGHTS = st.dictionaries(st.sampled_from(sorted(AXES)), st.sampled_from([0.5, 1, 2.25, 7]), min_size=1)


def blend(output: str, reference: str, weights: dict[str, float] | None = None) -> float:
    return cast("float", composite(output, reference, weights)["score"])


def texts(count: int) -> list[dict[str, Any]]:
    """Rows of three texts that are more or less alike."""
    chance = random.Random(count)
    words = ["Paris", "paris", "is", "the", "of", "France.", "Ελλάς", "ΟΔΟΣ", "snake_case", "😀", "北京", "—"]

    def edited(known: list[str]) -> str:
        return " ".join(chance.choice(words) if chance.random() < 0.3 else w for w in known if chance.random() < 0.8)

    found = []
    for _ in range(count):
        reference = chance.choices(words, k=chance.randrange(7))
        pair = {"output": edited(reference), "other": edited(reference)}
        found.append(pair | {"reference": " ".join(reference), "margin": chance.choice([0, 0.05, 0.25])})
    return found


@given(TEXTS, TEXTS, WEIGHTS)
def test_a_blend_is_the_weighted_mean_of_its_axes(output: str, reference: str, weights: dict[str, float]) -> None:
    alone = {axis: blend(output, reference, {axis: 1}) for axis in AXES}
    wanted = sum(alone[axis] * weight for axis, weight in weights.items()) / sum(weights.values())
    assert blend(output, reference, weights) == pytest.approx(wanted, abs=1e-9)
    assert blend(output, reference) == pytest.approx(sum(alone.values()) / 5, abs=1e-9)
    assert all(0 <= value <= 1 for value in alone.values())


@given(TEXTS, WEIGHTS)
def test_a_blend_is_1_for_the_same_text_and_does_not_ask_what_the_weights_sum_to(
    text: str, weights: dict[str, float]
) -> None:
    assert blend(text, text, weights) == pytest.approx(1, abs=1e-9)
    larger = {axis: weight * 1024 for axis, weight in reversed(weights.items())}
    assert composite(text, "the cat", weights) == composite(text, "the cat", larger)


@given(TEXTS, TEXTS)
def test_words_in_common_are_counted_as_often_as_they_stand_in_both(a: str, b: str) -> None:
    first, second = (Counter("".join(c if c.isalnum() or c == "_" else " " for c in t.lower()).split()) for t in (a, b))
    common = sum(min(count, second[word]) for word, count in first.items())
    both = sum(first.values()) + sum(second.values())
    assert overlap(a, b) == (2 * common / both if both else 1)
    assert overlap(a, b) == overlap(b, a)


@given(TEXTS, TEXTS, TEXTS, st.sampled_from(["edit", "tokens"]), st.sampled_from([0, 0.1, 0.5, 1]))
def test_swapping_the_two_texts_mirrors_the_result(a: str, b: str, reference: str, measure: str, margin: float) -> None:
    found, back = pairwise(a, b, reference, measure, margin), pairwise(b, a, reference, measure, margin)
    mirrored = {"output": "other", "other": "output", "tie": "tie"}
    assert back["label"] == mirrored[cast("str", found["label"])]
    assert cast("float", found["score"]) + cast("float", back["score"]) == 1
    if a == b or margin == 1:
        assert found["label"] == "tie"
    elif a == reference and margin == 0 and measure == "edit":
        assert found["label"] == "output"


def test_a_blend_is_the_same_in_both_languages() -> None:
    rows = texts(300)
    chosen: list[dict[str, float]] = [dict.fromkeys(AXES, 1), {"tokens": 3, "edit": 0.7, "exact": 0}]
    for weights in chosen:
        found = score("composite", DENO, rows, weights=weights)
        wanted = [composite(row["output"], row["reference"], weights) for row in rows]
        assert [(r.score, r.explanation) for r in found] == [(w["score"], w["explanation"]) for w in wanted]
        assert len({result.score for result in found}) > 50


@pytest.mark.parametrize("measure", ["edit", "tokens"])
def test_the_closer_of_two_is_the_same_in_both_languages(measure: str) -> None:
    rows = texts(300)
    for margin in (0, 0.1):
        found = score("pairwise", DENO, rows, measure=measure, margin=margin)
        wanted = [pairwise(row["output"], row["other"], row["reference"], measure, margin) for row in rows]
        assert [(r.label, r.score, r.explanation) for r in found] == [tuple(w.values()) for w in wanted]
        assert {r.label for r in found} == {"output", "other", "tie"}


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_halves_are_shown_alike(place: Place) -> None:
    rows = [{"output": "x" * n, "reference": "x" * 16} for n in range(1, 17, 2)]
    found = score("composite", place, rows, weights={"edit": 1})
    shown = " ".join(str(r.explanation).split(" ")[1] for r in found)
    assert shown == "0.06 0.19 0.31 0.44 0.56 0.69 0.81 0.94"
    assert [r.score for r in found] == [n / 16 for n in range(1, 17, 2)]


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("composite", {"weights": [1]}, "`weights` must be an object"),
        ("composite", {"weights": None}, "`weights` must be an object"),
        ("pairwise", {"measure": "bleu"}, '`measure` must be one of "edit", "tokens"'),
        ("pairwise", {"margin": -0.1}, "`margin` must be a number from 0 to 1"),
        ("pairwise", {"margin": True}, "`margin` must be a number"),
    ],
)
def test_what_a_parameter_does_not_take_is_refused(name: str, given: dict[str, Any], says: str) -> None:
    row = {"output": "a", "other": "b", "reference": "a"}
    with pytest.raises(InputError, match=says):
        evaluate(name, [row], mapping=InputMapping(literals=given))
