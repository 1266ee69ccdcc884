"""The verdict on some pairs of scores. docs/how-to/compare.md explains the four words, decision 0019 the rules."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from runner.core.text import rows_of
from runner.core.types import Direction
from runner.engine.scoring.interval import LEVEL, Interval, clip, interval, rows_for, t_probability, unseen
from runner.engine.scoring.run_totals import mean
from runner.results.compare.types import Difference, Verdict

FEW = 10
"""Rows that have to change before a run is called better: a rare large loss hides among fewer."""
# Two scores are tied that differ by this share alone: the order of a sum changes more than the last digit.
_EQUAL = 1e-9
_LARGEST = sys.float_info.max
_ANOTHER = "\0another"
"""A cluster that no dataset has."""
HANGS_ON_ONE = "one more row as large as the largest change, the other way, would undo this verdict"
NO_CHANGE = "nothing changed: the same outputs have the same scores"
SAY_DIRECTION = (
    'say it in the script\'s header: output = {kind = "continuous", direction = "maximize"}, below [tool.evalcell]; '
    '"minimize" where lower is better'
)


class Pairs(NamedTuple):
    """The scores that one output has on both sides."""

    base: Sequence[float]
    new: Sequence[float]
    clusters: Sequence[str] | None = None
    unchanged: bool = False
    """True if the evaluator was given exactly the same in all pairs."""
    span: float = 0.0
    """How far apart two scores can be, by the output config's bounds or else by what was seen."""
    bounded: bool = False
    """Whether it is by the config's bounds."""


def figures(pairs: Pairs, direction: Direction, tolerance: float = 0.0) -> dict[str, Any]:
    """Return the fields of a `Difference` that depend on scores alone."""
    differences = [difference(b, n) for b, n in zip(pairs.base, pairs.new, strict=True)]
    up, down = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    wins, losses = (down, up) if direction == "minimize" else (up, down)
    count = len(differences)
    made: dict[str, Any] = {
        "compared": count,
        "direction": direction,
        "wins": wins,
        "losses": losses,
        "ties": count - wins - losses,
        "clusters": None if pairs.clusters is None else len(set(pairs.clusters)),
    }
    if not count:
        reason = "no row has a score on both sides"
        return made | {"verdict": None if direction == "none" else "not enough evidence", "reason": reason}
    made |= {"base_mean": mean(pairs.base), "new_mean": mean(pairs.new), "mean_difference": mean(differences)}
    found = interval(differences, pairs.clusters, paired=True)
    if found is not None:
        asked = tolerance or abs(found.mean)
        low, high = clip(found.low, found.high, (-pairs.span, pairs.span) if pairs.bounded else None)
        made |= {
            "ci_low": low,
            "ci_high": high,
            "smallest_detectable": found.smallest_detectable or None,
            "spread": found.error * sqrt(count) or None,
            "asked": asked or None,
            "rows_needed": rows_for(asked, found, count),
        }
    if direction == "none":
        return made | {"verdict": None, "reason": f"which scores are better is not known; {SAY_DIRECTION}"}
    verdict, reason = judge(found, pairs, wins + losses, direction, tolerance)
    if verdict in ("better", "worse") and _hangs_on_one(differences, pairs, direction, tolerance, verdict):
        reason = "; ".join(filter(None, (reason, HANGS_ON_ONE)))
    return made | {"verdict": verdict, "reason": reason, "p_worse": _p_worse(found, direction, tolerance)}


def _p_worse(found: Interval | None, direction: Direction, tolerance: float) -> float | None:
    """Student's, one-sided."""
    if found is None or not found.error:
        return None
    ratio = ((-found.mean if direction == "minimize" else found.mean) + tolerance) / found.error
    below = t_probability(abs(ratio), found.freedom)
    return below if ratio > 0 else 1 - below


def holm_worse(figures: Mapping[str, Difference], count: int) -> tuple[str, ...]:
    """
    Return the outputs that are worse where so many are asked, these among them: wrong in 2.5 % of all cases at most.

    The k smallest probabilities stand as long as the i-th of m is at most 2.5 % / (m - i + 1). An output that its
    verdict does not call worse is never among them. Source: Holm 1979, Scand. J. Stat. 6, 65-70.
    """
    judged = {name: one for name, one in figures.items() if one.verdict is not None}
    shares = {name: _share_of(one) for name, one in judged.items()}
    found: list[str] = []
    for step, name in enumerate(sorted(shares, key=lambda name: shares[name])):
        if shares[name] > (1 - LEVEL) / 2 / (count - step) or judged[name].verdict != "worse":
            break
        found.append(name)
    return tuple(found)


def _share_of(one: Difference) -> float:
    return one.p_worse if one.p_worse is not None else 0.0 if one.verdict == "worse" else 1.0


def _hangs_on_one(
    differences: Sequence[float], pairs: Pairs, direction: Direction, tolerance: float, verdict: Verdict
) -> bool:
    """Whether another row, with the largest change the other way, would have given another verdict."""
    up = (verdict == "better") == (direction == "maximize")
    one = max(map(abs, differences)) * (-1 if up else 1)
    clusters = None if pairs.clusters is None else [*pairs.clusters, _ANOTHER]
    found = interval([*differences, one], clusters, paired=True)
    more = pairs._replace(clusters=clusters)
    return judge(found, more, sum(map(bool, differences)) + 1, direction, tolerance)[0] != verdict


def judge(
    interval: Interval | None, pairs: Pairs, changed: int, direction: Direction, tolerance: float
) -> tuple[Verdict, str]:
    """
    Return the verdict, and what to know beside it.

    Worse: the whole interval is beyond the tolerance. Better: all of it is above 0, with enough rows that changed. No
    worse: all of it is within the tolerance, or above. Else there is not enough evidence.
    """
    if interval is None:
        what = "rows" if pairs.clusters is None else "clusters"
        return "not enough evidence", f"an interval needs two {what} at least, with scores of a usable size"
    mean = -interval.mean if direction == "minimize" else interval.mean
    if interval.error <= _EQUAL * abs(mean):
        return _without_variance(mean, interval, pairs, changed, tolerance)
    reason = ""
    if changed < FEW:
        reason = f"only {rows_of(changed)} changed; fewer than {FEW} are too few to rely on"
    elif pairs.clusters is not None and interval.groups < FEW:
        reason = f"there are only {interval.groups} clusters; fewer than {FEW} are too few to rely on"
    low, high = (-interval.high, -interval.low) if direction == "minimize" else (interval.low, interval.high)
    if high < -tolerance:
        return "worse", reason
    if low > 0 and not reason:
        return "better", ""
    return ("no worse" if low >= -tolerance else "not enough evidence"), reason


def _without_variance(
    mean: float, found: Interval, pairs: Pairs, changed: int, tolerance: float
) -> tuple[Verdict, str]:
    """The interval is a point then, whatever else the rows of another sample would show."""
    if not changed and pairs.unchanged:
        return "no worse", NO_CHANGE
    count = found.groups
    if not changed:
        share = unseen(count)
        reason = f"no score changed; by chance that may be so while up to {share:.1%} of all rows differ"
        # A span of 0 tells nothing of what a row may score: all that were seen are equal, and there are no bounds.
        within = pairs.span > 0 and pairs.span * share <= tolerance
        return ("no worse" if within else "not enough evidence"), reason
    every = "score" if pairs.clusters is None else "cluster"
    reason = f"every {every} changed by the same amount, so there is no variance to judge by"
    if count < FEW:
        return "not enough evidence", reason
    return ("worse" if mean < -tolerance else "no worse"), reason


def difference(base: float, new: float) -> float:
    """Return new minus base, as a finite number; 0 for two scores that are tied."""
    found = max(-_LARGEST, min(_LARGEST, new - base))
    return 0.0 if abs(found) <= _EQUAL * max(abs(base), abs(new)) else found
