"""Edit distance in both languages, against the table that it is defined by."""

from __future__ import annotations

import json
import random
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import InputError
from templates.parts.levenshtein import edit_distance, similarity
from tests.templates.scoring import PLACES, Place, agrees, recipe_cases, score

pytestmark = pytest.mark.rotating("templates", "templates")

NAME = "levenshtein-distance"
ALPHABETS = ("ab", "abcé東😀", "\ud800a", "".join(map(chr, range(0x4E00, 0x4E80))))


def table(a: str, b: str) -> int:
    """The last cell of Levenshtein's table, a row at a time."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


def pairs(count: int) -> list[tuple[str, str]]:
    """Texts of all lengths around those where a machine's word is full; a third are edited copies."""
    chance = random.Random(count)
    found = []
    for number in range(count):
        letters = ALPHABETS[number % len(ALPHABETS)]
        a = "".join(chance.choices(letters, k=chance.randrange(100)))
        b = "".join(chance.choices(letters, k=chance.randrange(100)))
        if number % 3 == 0:
            b = "".join(chance.choice(letters) if chance.random() < 0.1 else c for c in a if chance.random() < 0.9)
        found.append((a, b))
    return found


@given(st.text("abc"), st.text("abc"))
def test_a_few_letters(a: str, b: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a) == table(a, b)


@given(st.text(), st.text())
def test_any_characters(a: str, b: str) -> None:
    assert edit_distance(a, b) == table(a, b)


@settings(max_examples=30, deadline=None)
@given(st.text("ab", min_size=25, max_size=140), st.text("ab", min_size=25, max_size=140))
def test_texts_longer_than_a_word_of_a_machine(a: str, b: str) -> None:
    assert edit_distance(a, b) == table(a, b)


@given(st.text("abc"), st.text("abc"))
def test_similarity_is_the_part_of_the_longer_text_that_needs_no_edit(a: str, b: str) -> None:
    longer = max(len(a), len(b))
    wanted = 1.0 if longer == 0 else (longer - table(a, b)) / longer
    assert similarity(a, b) == pytest.approx(wanted, abs=1e-12)
    assert (similarity(a, b) == 1) == (a == b)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_both_languages_count_what_the_table_says(place: Place) -> None:
    wanted = [(a, b, table(a, b)) for a, b in pairs(120) if "\ud800" not in a + b]
    results = score(NAME, place, [{"output": a, "reference": b} for a, b, _ in wanted])
    for (a, b, distance), result in zip(wanted, results, strict=True):
        assert result.score == distance, (a, b)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_three_thousand_characters_fit_into_the_time_of_a_call(place: Place) -> None:
    chance = random.Random(3)
    texts = ["".join(chance.choices(letters, k=3000)) for letters in ALPHABETS if "\ud800" not in letters for _ in "ab"]
    rows = [{"output": a, "reference": b} for a, b in zip(texts[::2], texts[1::2], strict=True)]
    for row, result in zip(rows, score(NAME, place, rows), strict=True):
        assert result.score == edit_distance(row["output"], row["reference"])


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_what_the_built_in_evaluator_gives(place: Place, shared: Path) -> None:
    cases = [case for case in recipe_cases(shared, "phoenix_builtins") if case["evaluator"] == "levenshtein_distance"]
    cases = [case for case in cases if "value" in case["expected"]["phoenix_builtin"]]
    assert len(cases) >= 20

    def flags(case: dict[str, Any]) -> str:
        return json.dumps({k: v for k, v in case["literal_mapping"].items() if k not in ("expected", "actual")})

    for given_flags, alike in groupby(sorted(cases, key=flags), flags):
        group = list(alike)
        texts = [case["literal_mapping"] for case in group]
        rows = [{"output": text["actual"], "reference": text["expected"]} for text in texts]
        for case, result in zip(group, score(NAME, place, rows, **json.loads(given_flags)), strict=True):
            agrees(case, result, "phoenix_builtin")


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_values_that_are_no_text_are_written_as_python_writes_them(place: Place) -> None:
    values: list[Any] = [
        None,
        True,
        -7,
        0.5,
        1e-7,
        0.00012,
        [],
        {},
        [None, "it's", 'a "b"', "both ' and \"", "\\ \n\t\r\x00\x7f\xad é 東 😀 \u2028\ue000\U000e0001\u3000"],
        {"a": {"b": [1, False]}, "": ""},
    ]
    for value, result in zip(
        values, score(NAME, place, [{"output": v, "reference": str(v)} for v in values]), strict=True
    ):
        assert result.score == 0, value


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_row_without_an_output_is_not_scored(place: Place) -> None:
    _, result = score(NAME, place, [{"output": "a", "reference": "a"}, {"reference": "a"}])
    assert result.outcome == "failed"
    assert result.error is not None
    assert result.error.kind == "mapping"


@pytest.mark.parametrize("flag", ["yes", 1, None])
def test_a_flag_must_be_a_boolean(flag: object) -> None:
    with pytest.raises(InputError, match="case_sensitive"):
        score(NAME, ("wasm", "python"), [{"output": "a", "reference": "A"}], case_sensitive=flag)
