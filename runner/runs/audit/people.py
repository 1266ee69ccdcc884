"""
A grader beside people: do they agree, row by row?

Intervals are Student's on the values that a figure is the mean of to first order (the delta method), so rows of one
cluster count as one. Sources: kappa, Fleiss, Cohen and Everitt 1969, Psych. Bull. 72, 323-327; AC1, Gwet 2008, Br. J.
Math. Stat. Psychol. 61, 29-48; the area under the curve, DeLong et al. 1988, Biometrics 44, 837-845, with clusters as
Obuchowski 1997, Biometrics 53, 567-578; the optimism of a threshold, Efron 1983 and Harrell et al. 1996, Stat. Med. 15,
361-387.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from runner.core.errors import InputError
from runner.core.text import list_names, printable
from runner.engine.scoring.interval import interval, unseen, wilson
from runner.runs.audit.types import Agreement, Disagreement, Rate
from sandboxes.words.wording import Setting

FEWEST_OF_CLASS = 30
"""With fewer rows that people call right, or wrong, there is a list of disagreements and no figure."""
MOST_DISAGREEMENTS = 200
"""Disagreements that are kept."""
_EXTREME = (0.2, 0.8)
"""Shares of right rows outside of which kappa is low by itself: AC1 stands beside it."""
_RESAMPLES, _DRAWS = 200, 4_000_000
"""Resamples for the optimism, and rows that are drawn for all of them at most."""
_EQUAL = 1e-9
RIGHT_WORDS = (
    *("true", "yes", "correct", "right", "pass", "passed", "good", "ok", "accept", "accepted", "valid"),
    *("match", "matched", "exact", "equal", "success", "1", "y", "t"),
)
WRONG_WORDS = (
    *("false", "no", "incorrect", "wrong", "fail", "failed", "bad", "reject", "rejected", "invalid"),
    *("mismatch", "different", "unequal", "0", "n", "f"),
)


class LabelledRow(NamedTuple):
    """A row, what people say of it, and what the grader does."""

    id: str
    label: Any
    outcome: str
    good: float | None
    """Its score, higher where it is better."""
    shown: str
    """The score as the grader gave it, in words."""
    cluster: Hashable = None


class RowVerdict(NamedTuple):
    """A labelled row with a score."""

    row: LabelledRow
    right: bool
    good: float


def read_labels(values: Sequence[Any], right: str | None = None) -> list[float]:
    """
    Return what people say as numbers: 1 for right and 0 for wrong, or their own numbers.

    Args:
        values: The labels of rows, none of them null.
        right: The label that means right. None: it is told from the words.

    Raises:
        InputError: For labels that are neither two words nor numbers, or where nobody knows which one means right.
    """
    if all(isinstance(value, bool) for value in values):
        return [float(value) for value in values]
    words = [_word(value) for value in values]
    names = sorted(set(words))
    if right is not None:
        wanted = _word(right)
        if wanted not in names:
            raise InputError(f"no row has the label {printable(right, 60)!r}; there are {list_names(names)}")
        return [float(word == wanted) for word in words]
    if len(names) <= 2 and all(name in RIGHT_WORDS or name in WRONG_WORDS for name in names):
        return [float(word in RIGHT_WORDS) for word in words]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if numbers and all(abs(number) < 1e15 for number in numbers):
        return numbers
    shown = list_names(names)
    if len(names) == 2:
        raise InputError(f"the labels are {shown}: say which one means right, such as {Setting('right', names[1])}")
    raise InputError(
        f"there are {len(names):,} different labels, {shown}; people's labels are true and false, two words, or "
        "numbers: name another column, or say which label means right with "
        f"{Setting('right', 'LABEL')}"
    )


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip().casefold()


def compare_people(
    rows: Sequence[LabelledRow],
    column: str,
    *,
    of: int,
    threshold: float | None,
    right: str | None = None,
    seed: int = 1,
    sign: int = 1,
) -> Agreement:
    """
    Compare a grader with people.

    Args:
        rows: Those that have a label.
        column: Where the labels stand.
        of: All rows, also those without a label.
        threshold: From this score on a row passes, in the sense of `good`. None: from the best score on, where there
            are two scores only; else from the threshold that fits the labels best.
        right: The label that means right.
        seed: Of the resamples.
        sign: -1 where a lower score is better.

    Raises:
        InputError: There are no labels, or as `read_labels` does.
    """
    if not rows:
        raise InputError(
            f"no row has a label in {printable(column, 60)}; name another column with {Setting('labels', 'COLUMN')}"
        )
    numbers = read_labels([row.label for row in rows], right)
    scored = [(row, number) for row, number in zip(rows, numbers, strict=True) if row.good is not None]
    outcomes = Counter(row.outcome for row in rows)
    clusters = None if all(row.cluster is None for row in rows) else len({row.cluster for row in rows})
    found = Agreement(
        column=column,
        labelled=len(rows),
        of=of,
        scored=len(scored),
        abstained=outcomes["abstained"],
        failed=outcomes["failed"] + outcomes["lost"],
        clusters=clusters,
    )
    if not set(numbers) <= {0.0, 1.0}:
        return found.model_copy(update=_ranks(scored))
    judged = [RowVerdict(row, number == 1, row.good or 0.0) for row, number in scored]
    update = _verdicts(judged, threshold, seed)
    for name in ("threshold", "best_threshold"):
        if update.get(name) is not None:
            update[name] *= sign
    return found.model_copy(update=update)


def _verdicts(rows: Sequence[RowVerdict], threshold: float | None, seed: int) -> dict[str, Any]:
    right = sum(row.right for row in rows)
    few = min(right, len(rows) - right) < FEWEST_OF_CLASS
    scores = sorted({row.good for row in rows})
    update: dict[str, Any] = {"right": right, "wrong": len(rows) - right, "few": few}
    if threshold is None and len(scores) <= 2 and scores:
        threshold = scores[-1]
    if not few:
        update["auc"] = _area(rows)
        best, youden, optimism = best_threshold(rows, seed)
        update |= {"best_threshold": best, "youden": youden, "optimism": optimism}
        if threshold is None:
            threshold, update["chosen"] = best, True
    if threshold is None:  # too few to choose one: the order is all there is
        worst_first = sorted((row for row in rows if not row.right), key=lambda row: -row.good)
        return update | {"disagreements": tuple(_disagreement(row, True) for row in worst_first[:MOST_DISAGREEMENTS])}
    bound = threshold - _EQUAL
    cells = Counter((row.good >= bound, row.right) for row in rows)
    false_passes = sorted((row for row in rows if row.good >= bound and not row.right), key=lambda row: -row.good)
    false_fails = sorted((row for row in rows if row.good < bound and row.right), key=lambda row: row.good)
    update |= {
        "threshold": threshold,
        "true_passes": cells[True, True],
        "false_passes": cells[True, False],
        "false_fails": cells[False, True],
        "true_fails": cells[False, False],
        "disagreements": tuple(
            [*(_disagreement(row, True) for row in false_passes), *(_disagreement(row, False) for row in false_fails)][
                :MOST_DISAGREEMENTS
            ]
        ),
    }
    if few:
        return update
    share = right / len(rows)
    return update | {
        "tpr": _share([row for row in rows if row.right], lambda row: row.good >= bound),
        "tnr": _share([row for row in rows if not row.right], lambda row: row.good < bound),
        "kappa": _agreement(rows, bound, _by_chance),
        "ac1": None if _EXTREME[0] <= share <= _EXTREME[1] else _agreement(rows, bound, _gwet),
    }


def _disagreement(row: RowVerdict, passes: bool) -> Disagreement:
    return Disagreement(id=row.row.id, label=row.row.label, score=row.row.shown, passes=passes)


def _clusters(rows: Sequence[RowVerdict]) -> list[Hashable] | None:
    return None if all(row.row.cluster is None for row in rows) else [row.row.cluster for row in rows]


def _share(rows: Sequence[RowVerdict], passes: Callable[[RowVerdict], bool]) -> Rate:
    """A share with Wilson's interval; of clusters, with as many rows as they are worth (Kish 1965)."""
    values = [float(passes(row)) for row in rows]
    hits, count = int(sum(values)), len(rows)
    worth, clusters = float(count), _clusters(rows)
    if clusters is not None:
        by, alone = interval(values, clusters), interval(values)
        groups = float(len(set(clusters)))
        worth = groups if by is None or alone is None or not by.error else count * (alone.error / by.error) ** 2
        worth = min(float(count), max(worth, 1.0))
    low, high = wilson(hits / count * worth, worth)
    return Rate(value=hits / count, low=low, high=high)


_Chance = Callable[[float, float], tuple[float, float, float]]


def _by_chance(p: float, q: float) -> tuple[float, float, float]:
    """What two would agree in by chance, and how that moves with each one's share of passes: Cohen."""
    return p * q + (1 - p) * (1 - q), 2 * q - 1, 2 * p - 1


def _gwet(p: float, q: float) -> tuple[float, float, float]:
    middle = (p + q) / 2
    return 2 * middle * (1 - middle), 1 - 2 * middle, 1 - 2 * middle


def _agreement(rows: Sequence[RowVerdict], bound: float, chance: _Chance) -> Rate | None:
    people = [float(row.right) for row in rows]
    grader = [float(row.good >= bound) for row in rows]
    same = [float(one == other) for one, other in zip(people, grader, strict=True)]
    p, q, po = (sum(values) / len(rows) for values in (people, grader, same))
    pe, by_p, by_q = chance(p, q)
    rest = 1 - pe
    if rest < _EQUAL:
        return None  # both say the same of all rows
    value = (po - pe) / rest
    linear = [
        value + ((s - po) * rest - (1 - po) * (by_p * (x - p) + by_q * (y - q))) / rest**2
        for s, x, y in zip(same, people, grader, strict=True)
    ]
    if po == 1:  # no row differs, which tells nothing of the spread: as many may differ in truth as `unseen` says
        return Rate(value=value, low=(1 - unseen(_groups(rows)) - pe) / rest, high=1.0)
    return _rate(value, linear, rows, -1.0)


def _groups(rows: Sequence[RowVerdict]) -> int:
    clusters = _clusters(rows)
    return len(rows) if clusters is None else len(set(clusters))


def _rate(value: float, linear: Sequence[float], rows: Sequence[RowVerdict], least: float) -> Rate:
    """A figure with Student's interval on the mean of what it is to first order."""
    found = interval(linear, _clusters(rows))
    if found is None:
        return Rate(value=value, low=least, high=1.0)
    half = (found.high - found.low) / 2
    return Rate(value=value, low=max(least, value - half), high=min(1.0, value + half))


def _area(rows: Sequence[RowVerdict]) -> Rate:
    """The probability that a right row scores better than a wrong one; ties count half."""
    right, wrong = (sorted(row.good for row in rows if row.right is kind) for kind in (True, False))
    placed = []
    for row in rows:
        other = wrong if row.right else right
        below, upto = bisect_left(other, row.good), bisect_right(other, row.good)
        share = (below + upto) / 2 / len(other)
        placed.append(share if row.right else 1 - share)
    value = sum(share for row, share in zip(rows, placed, strict=True) if row.right) / len(right)
    if value == 1:
        fewest = min(_groups([row for row in rows if row.right is kind]) for kind in (True, False))
        return Rate(value=1.0, low=1 - unseen(fewest), high=1.0)
    weights = {True: len(rows) / len(right), False: len(rows) / len(wrong)}
    linear = [value + (share - value) * weights[row.right] for row, share in zip(rows, placed, strict=True)]
    return _rate(value, linear, rows, 0.0)


def best_threshold(rows: Sequence[RowVerdict], seed: int) -> tuple[float, float, float]:
    """
    Return the threshold with the largest J = TPR + TNR - 1, that J, and how much of it is only of these rows.

    The last is the mean, over resamples of clusters, of what a resample's best threshold gains there beside all rows.
    """
    ordered = sorted(rows, key=lambda row: -row.good)
    keys = [row.row.cluster if row.row.cluster is not None else ("row", at) for at, row in enumerate(ordered)]
    members: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        members.setdefault(key, []).append(at)
    whole = [1] * len(ordered)
    best, youden = _best(ordered, whole)
    draw, groups = random.Random(seed), list(members.values())
    gains = []
    for _ in range(max(20, min(_RESAMPLES, _DRAWS // len(ordered)))):
        weights = [0] * len(ordered)
        for group in draw.choices(groups, k=len(groups)):
            for at in group:
                weights[at] += 1
        threshold, there = _best(ordered, weights)
        gains.append(there - _youden(ordered, threshold))
    return best, youden, max(0.0, sum(gains) / len(gains))


def _best(ordered: Sequence[RowVerdict], weights: Sequence[int]) -> tuple[float, float]:
    right = sum(weight for row, weight in zip(ordered, weights, strict=True) if row.right)
    wrong = sum(weights) - right
    best, threshold, tp, fp = -1.0, ordered[0].good, 0, 0
    for at, (row, weight) in enumerate(zip(ordered, weights, strict=True)):
        tp, fp = (tp + weight, fp) if row.right else (tp, fp + weight)
        last = at + 1 == len(ordered) or ordered[at + 1].good < row.good
        if last and weight and (found := tp / max(right, 1) - fp / max(wrong, 1)) > best + _EQUAL:
            best, threshold = found, row.good
    return threshold, best


def _youden(ordered: Sequence[RowVerdict], threshold: float) -> float:
    right = sum(row.right for row in ordered)
    passes = [row.right for row in ordered if row.good >= threshold - _EQUAL]
    return sum(passes) / right - (len(passes) - sum(passes)) / (len(ordered) - right)


def _ranks(rows: Sequence[tuple[LabelledRow, float]]) -> dict[str, Any]:
    """Spearman's correlation of scores with people's numbers, and the rows that are furthest apart in rank."""
    if len(rows) < FEWEST_OF_CLASS:
        return {"few": True}
    ones, others = (_mean_ranks(values) for values in ([row.good or 0.0 for row, _ in rows], [n for _, n in rows]))
    count = len(rows)
    middle = (count + 1) / 2
    spread = [sum((rank - middle) ** 2 for rank in ranks) / count for ranks in (ones, others)]
    if not all(spread):
        return {"few": False}
    together = [(one - middle) * (other - middle) for one, other in zip(ones, others, strict=True)]
    scale = (spread[0] * spread[1]) ** 0.5
    value = sum(together) / count / scale
    linear = [
        value + product / scale - value * ((one - middle) ** 2 / spread[0] + (other - middle) ** 2 / spread[1]) / 2
        for product, one, other in zip(together, ones, others, strict=True)
    ]
    judged = [RowVerdict(row, False, 0.0) for row, _ in rows]
    apart = sorted(zip(ones, others, rows, strict=True), key=lambda one: one[1] - one[0])
    shown = [
        Disagreement(id=row.id, label=row.label, score=row.shown, passes=mine > theirs)
        for mine, theirs, (row, _) in apart[:MOST_DISAGREEMENTS]
        if mine - theirs > count / 4
    ]
    return {"few": False, "rank": _rate(value, linear, judged, -1.0), "disagreements": tuple(shown)}


def _mean_ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + 1 + bisect_right(ordered, value)) / 2 for value in values]
