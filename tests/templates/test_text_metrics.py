"""The templates for numbers, sets and summaries: what holds for all inputs, and the real answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import InputError
from templates.bleu.evaluator import evaluate as bleu
from templates.numeric_closeness.evaluator import evaluate as numeric_closeness
from templates.numeric_closeness.evaluator import number
from templates.rouge_l.evaluator import evaluate as rouge_l
from templates.rouge_l.evaluator import longest_common_subsequence
from templates.set_f1.evaluator import evaluate as set_f1
from tests.templates.scoring import PLACES, Place, lines, score

pytestmark = pytest.mark.rotating("templates", "templates")

PYTHON = [place for place in PLACES if place[1] == "python"]
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TOKENS = st.lists(st.sampled_from("abcd"), max_size=12)
SENTENCES = TOKENS.filter(bool).map(" ".join)


def table(a: list[str], b: list[str]) -> int:
    """The longest common subsequence, by the textbook."""
    above = [0] * (len(b) + 1)
    for one in a:
        row = [0]
        for column, other in enumerate(b):
            row.append(above[column] + 1 if one == other else max(row[-1], above[column + 1]))
        above = row
    return above[-1]


@pytest.mark.parametrize("place", PYTHON)
def test_the_last_numbers_agree_with_who_judged_the_answers(place: Place, shared: Path) -> None:
    rows = lines(shared / "datasets" / "text_gsm8k.jsonl")
    results = score("numeric-closeness", place, rows, extract="last")
    assert len(rows) == 500
    for row, result in zip(rows, results, strict=True):
        assert (result.label == "close") == row["metadata"]["is_correct"], row["id"]
        assert (result.score == 1) == (result.label == "close"), row["id"]


@given(NUMBERS, NUMBERS, st.floats(0, 1), st.floats(0, 10))
def test_close_is_what_python_calls_close(a: float, b: float, rel_tol: float, abs_tol: float) -> None:
    there, back = (numeric_closeness(x, y, rel_tol, abs_tol) for x, y in ((a, b), (b, a)))
    assert there["score"] == back["score"]
    if math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol):
        assert (there["label"], there["score"]) == ("close", 1.0)
    else:
        assert there["label"] == "far"
        assert 0 <= float(str(there["score"])) <= 1


@given(NUMBERS)
def test_a_number_is_found_however_it_is_written(value: float) -> None:
    for text in (repr(value), f"${value!r}", f"{value!r} %", f"{value:,}"):
        assert number(text, "whole") == value
    for text in (f"x = {value!r}!", f"({value!r})", f"1, 2 and {value:,} dollars."):
        assert number(text, "last") == value


@given(st.text("1,.-+$%eE ٣(a", max_size=30))
def test_a_text_that_is_a_number_has_it_as_first_and_last(text: str) -> None:
    found = number(text, "whole")
    assert (number(text, "first") is None) == (number(text, "last") is None)
    if found is not None:
        assert number(text, "first") == number(text, "last") == found


@given(st.lists(st.sampled_from(["a", "B", "c d", 1, 2.5, True, None])), st.lists(st.sampled_from(["b", "c d", 1, {}])))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(output: list[Any], reference: list[Any]) -> None:
    found, wanted = ({str(item) for item in side} for side in (output, reference))
    result = set_f1(output, reference)
    assert result["score"] == set_f1(reference, output)["score"]
    if both := len(found & wanted):
        precision, recall = both / len(found), both / len(wanted)
        assert result["score"] == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert result["score"] == float(not found and not wanted)


@given(TOKENS, TOKENS)
def test_the_subsequence_is_that_of_the_textbook(a: list[str], b: list[str]) -> None:
    assert longest_common_subsequence(a, b) == table(a, b)


@given(SENTENCES, SENTENCES, st.floats(0, 100))
def test_rouge_l_lies_between_precision_and_recall(output: str, reference: str, beta: float) -> None:
    common = table(output.split(), reference.split())
    ends = [common / len(output.split()), common / len(reference.split())]
    found = float(str(rouge_l(output, reference, beta)["score"]))
    assert min(ends) - 1e-9 <= found <= max(ends) + 1e-9


@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3), st.integers(1, 6))
def test_bleu_keeps_its_bounds_and_smoothing_only_adds(output: str, references: list[str], max_n: int) -> None:
    none, exp, one = (
        float(str(bleu(output, references, max_n, smoothing)["score"])) for smoothing in ("none", "exp", "add-one")
    )
    assert 0 <= none <= exp <= 1 + 1e-9
    assert none <= one + 1e-9 <= 1 + 2e-9
    assert bleu(output, [*references, output], max_n)["score"] == pytest.approx(1)


@pytest.mark.parametrize("place", PYTHON)
@pytest.mark.parametrize("name", ["rouge-l", "bleu"])
def test_long_texts_fit_into_the_time_of_a_call(name: str, place: Place) -> None:
    row = {
        "output": " ".join(f"w{n % 97}" for n in range(3000)),
        "reference": " ".join(f"w{n % 89}" for n in range(3000)),
    }
    (result,) = score(name, place, [row])
    assert result.outcome == "scored", result.error


@pytest.mark.parametrize(
    ("name", "literals", "message"),
    [
        ("numeric-closeness", {"extract": "middle"}, "extract"),
        ("numeric-closeness", {"rel_tol": -1}, "rel_tol"),
        ("set-f1", {"separator": 1}, "separator"),
        ("rouge-l", {"beta": -1}, "beta"),
        ("rouge-l", {"tokens": "letters"}, "tokens"),
        ("bleu", {"smoothing": "floor"}, "smoothing"),
        ("bleu", {"max_n": 0}, "max_n"),
        ("bleu", {"max_n": 2.5}, "max_n"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(name: str, literals: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(name, ("process", "python"), [{"output": "1", "reference": "1"}], **literals)


def test_the_scripts_refuse_unknown_choices_by_themselves() -> None:
    calls: list[tuple[Callable[..., object], dict[str, str]]] = [
        (numeric_closeness, {"extract": "middle"}),
        (rouge_l, {"tokens": "letters"}),
        (bleu, {"smoothing": "floor"}),
        (bleu, {"tokens": "letters"}),
    ]
    for scored, wrong in calls:
        with pytest.raises(ValueError, match="must be"):
            scored("1", "1", **wrong)
