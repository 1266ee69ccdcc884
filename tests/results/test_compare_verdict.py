"""Better, no worse, worse, or not enough evidence: on scores alone."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from runner.core.types import Direction
from runner.results.compare.types import Difference
from runner.results.compare.verdict import Pairs, figures


def compared(
    differences: list[float], tolerance: float = 0.0, direction: Direction = "maximize", **more: Any
) -> Difference:
    pairs = Pairs([0.5] * len(differences), [0.5 + d for d in differences], **more)
    return Difference(**figures(pairs, direction, tolerance))


GAIN = [0.1, 0.2] * 20
LOSS = [-0.1, -0.2] * 20
MIXED = [0.1, -0.1] * 20


@pytest.mark.parametrize(
    ("differences", "tolerance", "direction", "verdict"),
    [
        (GAIN, 0, "maximize", "better"),
        (GAIN, 0, "minimize", "worse"),
        (LOSS, 0, "maximize", "worse"),
        (LOSS, 0, "minimize", "better"),
        (LOSS, 0.5, "maximize", "no worse"),
        (LOSS, 0.15, "maximize", "not enough evidence"),
        (MIXED, 0, "maximize", "not enough evidence"),
        (MIXED, 0.05, "maximize", "no worse"),
        (MIXED, 0.05, "minimize", "no worse"),
        (MIXED, 0.01, "maximize", "not enough evidence"),
    ],
)
def test_the_whole_interval_decides(
    differences: list[float], tolerance: float, direction: Direction, verdict: str
) -> None:
    assert compared(differences, tolerance, direction).verdict == verdict


def test_differences_are_new_minus_base_and_wins_follow_the_direction() -> None:
    found = compared([0.1, 0.2, -0.1, 0.0], direction="minimize")
    assert found.mean_difference == pytest.approx(0.05)
    assert [found.base_mean, found.new_mean] == pytest.approx([0.5, 0.55])
    assert (found.wins, found.losses, found.ties, found.changed) == (1, 2, 1, 3)


def test_the_interval_of_a_difference_lies_within_what_scores_can_differ_by() -> None:
    free, bounded = compared([0.5, -0.3], span=1.0), compared([0.5, -0.3], span=1.0, bounded=True)
    assert [free.ci_low, free.ci_high] == pytest.approx([-4.98248, 5.18248], abs=1e-5)
    assert (bounded.ci_low, bounded.ci_high, bounded.verdict) == (-1.0, 1.0, free.verdict)


def test_few_rows_that_changed_are_never_better() -> None:
    found = compared([0.0] * 200 + [1.0] * 9)
    assert found.ci_low is not None
    assert found.ci_low > 0
    assert found.verdict == "no worse"
    assert "only 9 rows changed" in found.reason
    assert compared([0.0] * 200 + [1.0] * 10).verdict == "better"


def test_without_variance_nothing_is_better() -> None:
    found = compared([0.1] * 50)
    assert (found.verdict, "no variance" in found.reason) == ("no worse", True)
    assert compared([-0.1] * 50).verdict == "worse"
    assert compared([-0.1] * 50, 0.2).verdict == "no worse"
    assert compared([-0.1] * 9).verdict == "not enough evidence"


def test_that_no_score_changed_shows_little_with_few_rows() -> None:
    few, many = compared([0.0] * 20, 0.02, span=1), compared([0.0] * 400, 0.02, span=1)
    assert (few.verdict, many.verdict) == ("not enough evidence", "no worse")
    assert "up to 16.8% of all rows" in few.reason
    assert compared([0.0] * 400, 0, span=1).verdict == "not enough evidence"
    assert compared([0.0] * 20, 0, span=1, unchanged=True).verdict == "no worse"


def test_equal_scores_without_bounds_do_not_say_how_far_apart_others_are() -> None:
    assert compared([0.0] * 2).verdict == "not enough evidence"
    assert compared([0.0] * 400, 0.1).verdict == "not enough evidence"


def test_clusters_that_changed_equally_have_no_variance() -> None:
    found = compared([1.0, 0.0] * 20, clusters=[str(n // 2) for n in range(40)])
    assert (found.verdict, found.ties) == ("no worse", 20)
    assert found.reason == "every cluster changed by the same amount, so there is no variance to judge by"


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e170, 1e306])
def test_scores_of_any_size_are_judged(size: float) -> None:
    base = [0.0] * 40
    found = Difference(**figures(Pairs(base, [size * d for d in GAIN]), "maximize"))
    assert found.verdict == "better"
    assert found.ci_low == pytest.approx(size * 0.1338, rel=1e-3)


def test_scores_whose_difference_is_no_float_are_no_evidence() -> None:
    most = sys.float_info.max
    for base, new in (([-most] * 20, [most] * 20), ([-most] * 20, [most, -most] * 10), ([0.0] * 2, [most, -most])):
        found = Difference(**figures(Pairs(base, new), "maximize"))
        assert (found.verdict, found.ci_low) == ("not enough evidence", None)


@pytest.mark.parametrize("differences", [[], [0.5]])
def test_an_interval_needs_two_rows(differences: list[float]) -> None:
    found = compared(differences)
    assert (found.verdict, found.ci_low, found.smallest_detectable) == ("not enough evidence", None, None)


def test_without_a_direction_there_is_no_verdict() -> None:
    found = compared(GAIN, direction="none")
    assert (found.verdict, found.wins, found.losses) == (None, 40, 0)


def test_a_difference_that_the_order_of_a_sum_makes_is_none() -> None:
    found = Difference(**figures(Pairs([0.3] * 20, [0.1 + 0.2] * 20, unchanged=True), "maximize"))
    assert (found.ties, found.verdict) == (20, "no worse")


def test_clusters_are_counted_and_few_of_them_are_never_better() -> None:
    found = compared(GAIN, clusters=["abcd"[n % 4] for n in range(40)])
    assert (found.clusters, found.verdict) == (4, "no worse")
    assert "only 4 clusters" in found.reason


def test_the_rows_needed_are_for_the_tolerance_or_else_for_what_was_found() -> None:
    assert compared(MIXED, 0.02).asked == 0.02
    found = compared([*MIXED, 0.3])
    assert found.asked == pytest.approx(found.mean_difference)
    assert found.rows_needed is not None
    assert found.rows_needed > 41
