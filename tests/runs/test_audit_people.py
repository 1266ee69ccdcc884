"""Are the figures of a grader beside people those of SciPy, scikit-learn, statsmodels and the papers?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from runner.core.errors import InputError
from runner.runs.audit.gates import judge_gates, parse_gates
from runner.runs.audit.people import LabelledRow, compare_people, read_labels
from runner.runs.audit.types import Agreement, MutantScore


def rows(
    people: Sequence[Any], scores: Sequence[float | None], clusters: Sequence[Any] | None = None
) -> list[LabelledRow]:
    return [
        LabelledRow(
            f"r{at}", label, "abstained" if score is None else "scored", score, str(score), clusters and clusters[at]
        )
        for at, (label, score) in enumerate(zip(people, scores, strict=True))
    ]


def sample() -> tuple[list[bool], list[float]]:
    """200 rows, 80 of them right; their scores overlap."""
    draw, right, scores = random.Random(7), [], []
    for at in range(200):
        right.append(at % 5 < 2)
        scores.append(round(min(1, max(0, draw.gauss(0.7 if right[-1] else 0.45, 0.2))), 2))
    return right, scores


def compared(people: Sequence[Any], scores: Sequence[float | None], **more: Any) -> Agreement:
    clusters = more.pop("clusters", None)
    return compare_people(rows(people, scores, clusters), "ok", of=len(people), **{"threshold": None, **more})


def test_figures_are_those_of_the_libraries() -> None:
    """SciPy 1.17.1, scikit-learn 1.9.1, statsmodels 0.15.0 on the same rows."""
    found = compared(*sample(), threshold=0.6)
    assert (found.true_passes, found.false_passes, found.false_fails, found.true_fails) == (60, 30, 20, 90)
    assert found.kappa
    assert found.tpr
    assert found.tnr
    assert found.auc
    assert found.kappa.value == pytest.approx(0.4897959183673469)
    assert (found.kappa.high - found.kappa.low) / 2 == pytest.approx(1.972 * 0.061951165267153344, rel=0.005)
    assert (found.tpr.low, found.tpr.high) == pytest.approx((0.6451532538076602, 0.8319376814245761))
    assert (found.tnr.low, found.tnr.high) == pytest.approx((0.665588633358744, 0.8189017834319043))
    assert found.auc.value == pytest.approx(0.8255729166666665)
    assert (found.auc.high - found.auc.low) / 2 == pytest.approx(1.972 * 0.030303518220003777, rel=0.01)
    assert found.ac1 is None


def test_ac1_stands_beside_kappa_where_prevalence_is_extreme() -> None:
    """The table of Gwet 2002, Stat. Methods for Inter-Rater Reliability Assessment 1, sixteen times its size."""
    people = [True] * 123 * 16 + [False] * 2 * 16
    scores = [1.0] * 118 * 16 + [0.0] * 5 * 16 + [1.0] * 2 * 16
    found = compared(people, scores, threshold=0.5)
    assert found.ac1 is not None
    assert found.kappa is not None
    assert (found.ac1.value, found.kappa.value) == pytest.approx((0.9408, -0.0234), abs=1e-4)
    assert compared([True] * 60 + [False] * 60, [1.0] * 50 + [0.0] * 70).ac1 is None


def test_rank_correlation_is_that_of_scipy() -> None:
    draw, (_, scores) = random.Random(7), sample()
    for _ in range(200):  # the same numbers as those of the sample come first
        draw.gauss(0, 1)
    people = [round(5 * score + draw.gauss(0, 1)) for score in scores]
    found = compared(people, scores)
    assert found.rank is not None
    assert found.rank.value == pytest.approx(0.7007096138136938)
    assert found.kappa is None
    assert all(one.passes for one in found.disagreements)


def test_rows_of_one_cluster_are_not_counted_as_many() -> None:
    right, scores = sample()
    five = [at // 5 for at in range(200)]
    thrice = [value for value in right for _ in range(3)], [value for value in scores for _ in range(3)]
    once = compared(right, scores, threshold=0.6)
    many = compared(*thrice, threshold=0.6, clusters=[at // 3 for at in range(600)])
    naive = compared(*thrice, threshold=0.6)
    for name in ("kappa", "tpr", "tnr", "auc"):
        one, three, alone = (getattr(found, name) for found in (once, many, naive))
        assert three.high - three.low == pytest.approx(one.high - one.low, rel=0.02), name
        assert alone.high - alone.low < 0.7 * (one.high - one.low)
    assert compared(right, scores, threshold=0.6, clusters=five).clusters == 40


def test_perfect_agreement_is_not_certain() -> None:
    found = compared([True] * 40 + [False] * 40, [1.0] * 40 + [0.0] * 40)
    assert found.kappa is not None
    assert found.auc is not None
    assert (found.kappa.value, found.kappa.high) == (1, 1)
    assert 0.85 < found.kappa.low < 0.95  # of 80 rows 4.5 % may differ in truth: Clopper and Pearson
    assert 0.85 < found.auc.low < 0.95


def test_the_optimism_of_a_threshold_is_what_others_rows_show() -> None:
    """Where no score tells right from wrong, the best threshold of these rows only seems to; of more rows less so."""
    draw = random.Random(3)
    optimism = []
    for count in (80, 2000):
        found = compared([at % 2 == 0 for at in range(count)], [draw.random() for _ in range(count)])
        assert found.chosen
        assert found.optimism is not None
        optimism.append(found.optimism)
    assert optimism[0] > 0.05 > 0.03 > optimism[1]
    assert compared(*sample()).optimism == pytest.approx(0.02, abs=0.03)


def test_false_passes_come_first_and_rows_without_a_score_are_in_no_figure() -> None:
    people = [True, False, True, False, True] * 40
    scores: list[float | None] = [1.0, 1.0, 0.0, 0.0, None] * 40
    found = compared(people, scores)
    assert (found.labelled, found.scored, found.abstained, found.coverage) == (200, 160, 40, 0.8)
    assert [one.passes for one in found.disagreements] == [True] * 40 + [False] * 40
    assert (found.right, found.wrong) == (80, 80)


def test_with_few_rows_there_is_the_list_alone() -> None:
    found = compared([True] * 40 + [False] * 29, [1.0] * 41 + [0.0] * 28)
    assert found.few
    assert [one.id for one in found.disagreements] == ["r40"]
    assert (found.kappa, found.tpr, found.auc, found.best_threshold) == (None,) * 4


@pytest.mark.parametrize(
    ("values", "right", "numbers"),
    [
        ([True, False], None, [1, 0]),
        ([1, 0, "1"], None, [1, 0, 1]),
        (["Yes", "no", "YES"], None, [1, 0, 1]),
        (["pass", "fail"], None, [1, 0]),
        (["A", "B", "A"], "b", [0, 1, 0]),
        ([1, 2.5, "3"], None, [1, 2.5, 3]),
    ],
)
def test_labels_are_words_or_numbers(values: list[Any], right: str | None, numbers: list[float]) -> None:
    assert read_labels(values, right) == numbers


@pytest.mark.parametrize(
    ("values", "right", "words"),
    [
        (["a", "b"], None, 'say which one means right, such as right="b"'),
        (["a", "b", "c"], None, "there are 3 different labels"),
        (["a", "b"], "c", "no row has the label 'c'"),
    ],
)
def test_labels_that_nobody_can_read_are_refused(values: list[Any], right: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_labels(values, right)


def test_gates_are_judged_on_the_unfavourable_end() -> None:
    people = compared(*sample(), threshold=0.6)
    mutants = MutantScore(of=10, tried=10, killed=10)
    texts = ["kappa>=0.45", "kappa>=0.3", "tnr<=0.8", "killed>=0.9", "rank>=0.1"]
    found = list(judge_gates(parse_gates(texts, labels=True, mutants=True), mutants, people))
    assert [one.verdict for one in found] == ["failed", "passed", "failed", "passed", "unjudged"]
    assert "the lower end of the interval of 0.4898" in found[0].reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kapa>=0.9", "did you mean `kappa`"),
        ("kappa=>0.9", "'kappa>=0.9'"),
        ("kappa>=0.9", "name their column"),
        ("killed>=0.9", "is of mutants"),
    ],
)
def test_a_gate_that_can_never_be_judged_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_gates([text], labels=False, mutants=False)
