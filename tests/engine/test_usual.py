"""What most scripts return, judged in a short way: it says the same as the long one, or leaves it to that."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.types import Categorical, Continuous, Freeform, OutputConfig
from runner.engine.scoring.foreign import normalize_foreign
from runner.engine.scoring.normalize import TEXT_LIMIT, InvalidResultError, NormalValue, normalize, usual

OUTPUTS: dict[str, dict[str, OutputConfig]] = {
    "none": {},
    "freeform": {"": Freeform()},
    "categorical": {"": Categorical(labels={"pass": 1.0, "fail": 0.0, "unsure": None})},
    "continuous": {"": Continuous()},
    "unit": {"": Continuous(lower_bound=0, upper_bound=1)},
    "from one": {"": Continuous(lower_bound=1)},
}
TEXTS = st.sampled_from(["pass", "fail", "unsure", "", "é", "\ud800", "x" * TEXT_LIMIT, "x" * (TEXT_LIMIT + 1)])
NUMBERS = st.sampled_from([0, 1, 2, True]) | st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.0000001, math.inf]) | st.floats()
PARTS = st.none() | TEXTS | NUMBERS | st.lists(st.none(), max_size=1)
VALUES = PARTS | st.dictionaries(st.sampled_from(["label", "score", "explanation", "other"]), PARTS)


def told(value: Any, outputs: dict[str, OutputConfig]) -> str:
    """What the long way says, as JSON: -0.0 is not 0.0 there, as in a results file."""
    try:
        found = normalize(value, outputs)
    except InvalidResultError:
        return "invalid"
    return as_json(found)


def as_json(found: NormalValue) -> str:
    return json.dumps([found.outcome, {name: list(score) for name, score in found.scores.items()}])


@pytest.mark.parametrize("config", OUTPUTS)
@given(value=VALUES)
def test_it_says_what_the_long_way_says(config: str, value: Any) -> None:
    outputs = OUTPUTS[config]
    judge = usual(outputs)
    assert judge is not None
    if (found := judge(value)) is not None:
        assert json.dumps(["scored", {"": list(found)}]) == told(value, outputs)


@pytest.mark.parametrize("config", OUTPUTS)
def test_it_takes_what_is_usual(config: str) -> None:
    judge = usual(OUTPUTS[config])
    assert judge is not None
    value = {"label": "pass", "score": 1.0, "explanation": "as it should be"}
    assert judge(value) == ("pass", 1.0, "as it should be")


def test_outputs_with_names_are_left_to_the_long_way() -> None:
    assert usual({"x": Freeform()}) is None
    assert usual({"": Freeform(), "x": Freeform()}) is None


@given(st.dictionaries(st.sampled_from(["a", "b", ""]), VALUES, max_size=3))
def test_named_results_of_a_dialect_are_judged_as_one_by_one(named: dict[str, Any]) -> None:
    try:
        found = [normalize(one, {}) for one in named.values()]
        outcome = "abstained" if all(one.outcome == "abstained" for one in found) else "scored"
        scores = {name: list(one.scores[""]) for name, one in zip(named, found, strict=True)}
        expected = json.dumps([outcome, scores]) if named and "" not in named else "invalid"
    except InvalidResultError:
        expected = "invalid"
    try:
        assert as_json(normalize_foreign({"outputs": named}, {}, "python")) == expected
    except InvalidResultError:
        assert expected == "invalid"
