"""Figures by the values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from runner.core.types import Continuous, Direction, Result
from runner.engine.scoring.groups import MOST, Groups, GroupSums
from runner.engine.scoring.tally import Tally


def result(number: int, score: float | None) -> Result:
    found: dict[str, Any] = {"outcome": "scored", "score": score}
    if score is None:
        found = {"outcome": "failed", "error": {"kind": "raised", "message": "broken"}}
    return Result(id=str(number), number=number, evaluator="one", version="1", sandbox="none", **found)


def groups(direction: Direction = "maximize") -> Groups:
    return Groups("language", {"": Continuous(kind="continuous", direction=direction)})


ROWS = [("de", 0.5), ("en", 1.0), ("de", 0.25), (None, 0.75), ("fr", None), ("en", None), ("en", 0.5), (3, 0.0)]


def filled(rows: Sequence[tuple[Any, float | None]], direction: Direction = "maximize") -> Groups:
    made = groups(direction)
    for number, (value, score) in enumerate(rows):
        made.add(result(number, score), value)
    return made


def test_each_group_has_the_figures_that_its_rows_alone_would_have() -> None:
    found = filled(ROWS).stats()
    for value in ("de", "en", "null", "fr", "3"):
        alone = Tally({"": Continuous(kind="continuous", direction="maximize")})
        for number, (name, score) in enumerate(ROWS):
            if name == value or (value, name) in (("null", None), ("3", 3)):
                alone.add(result(number, score))
        summary, group = alone.summary(), found[value]
        for name in ("rows", "scored", "failed", "count", "mean", "median", "ci_low", "ci_high"):
            assert getattr(group, name) == getattr(summary, name), (value, name)


def test_the_interval_of_a_group_lies_within_declared_bounds() -> None:
    ends = []
    for upper in (None, 1.0):
        found = Groups("language", {"": Continuous(lower_bound=0, upper_bound=upper)})
        for number, score in enumerate((0.9, 1.0)):
            found.add(result(number, score), "de")
        ends.append(found.stats()["de"].ci_high)
    # 0.95 and 12.7062 standard errors of 0.05, where the bounds are not both known.
    assert ends == [pytest.approx(1.58531, abs=1e-5), 1.0]


def test_the_worst_group_comes_first_and_one_without_a_score_last() -> None:
    assert list(filled(ROWS).stats()) == ["3", "de", "en", "null", "fr"]
    assert list(filled(ROWS, "minimize").stats()) == ["en", "null", "de", "3", "fr"]
    assert list(filled(ROWS, "none").stats()) == ["3", "de", "en", "null", "fr"]


def test_histograms_of_groups_have_the_same_edges() -> None:
    edges = {group.histogram.edges for group in filled(ROWS).stats().values() if group.histogram is not None}
    assert [(ends[0], ends[-1]) for ends in edges] == [(0.0, 1.0)]


def test_parts_join_to_what_all_rows_add_up_to() -> None:
    whole = filled(ROWS).stats()
    for cut in range(len(ROWS) + 1):
        joined, later = filled(ROWS[:cut]), filled(ROWS[cut:]).sums()
        joined.join(GroupSums.model_validate_json(later.model_dump_json()), lambda _: ())
        assert joined.stats() == whole


def test_a_column_that_tells_rows_apart_has_no_groups() -> None:
    rows = [(str(number), 1.0) for number in range(MOST + 1)]
    assert len(filled(rows[:MOST]).stats()) == MOST
    assert filled(rows).stats() == {}
    joined = filled(rows[:MOST])
    joined.join(filled(rows[MOST:]).sums(), lambda _: ())
    assert joined.stats() == {}
    few = filled(rows[:1])
    few.join(filled(rows).sums(), lambda _: ())
    assert few.stats() == {}
