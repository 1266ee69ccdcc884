"""Several results of each row, averaged in the row, so that figures count rows. docs/rules.md has the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import fsum
from typing import Any

from runner.core.types import Outcome, Result, Score
from runner.engine.scoring.diff import TOLERANCE, unlike

_FIRST: tuple[Outcome, ...] = ("lost", "failed", "scored", "abstained")
"""What a row is if any of its results is."""


class Repeats:
    """Joins the `repeat` results of each row, which follow each other, to one."""

    def __init__(self, repeat: int) -> None:
        self.repeat = repeat
        self.rows = 0
        """Rows with all their results."""
        self.unstable = 0
        """Rows whose results differ."""
        self._few: list[Result] = []

    def add(self, result: Result) -> Result | None:
        """Take one result; return the row's once it has them all."""
        if self.repeat == 1:
            return result
        self._few.append(result)
        if len(self._few) < self.repeat:
            return None
        few, self._few = self._few, []
        self.rows += 1
        self.unstable += bool(unlike(few, TOLERANCE))
        return join_repeats(few)


def join_repeats(results: Sequence[Result]) -> Result:
    """
    One result of a row's several: the mean of its scores, and its most frequent label.

    It failed if one of them did, since the mean would hide it, and abstained if all did.
    """
    outcome = next(one for one in _FIRST if any(result.outcome == one for result in results))
    those = [result for result in results if result.outcome == outcome]
    first = those[0]
    update: dict[str, Any] = {
        "repeat": 1,
        "duration_ms": round(fsum(result.duration_ms for result in results) / len(results), 3),
    }
    if first.error is not None:
        of = "" if len(those) == len(results) else f" (in {len(those)} of {len(results)} repeats)"
        update["error"] = first.error.model_copy(update={"message": f"{first.error.message}{of}"})
        return first.model_copy(update=update)
    scores = {name: _mean([result.outputs[name] for result in those]) for name in first.outputs}
    whole = _mean(those)
    return first.model_copy(update=update | dict(whole) | {"outputs": scores})


def _mean(results: Sequence[Result | Score]) -> Score:
    scores = [result.score for result in results if result.score is not None]
    labels = Counter(result.label for result in results)
    label = max(labels, key=lambda one: labels[one])  # the first of the most frequent
    explained = next(result.explanation for result in results if result.label == label)
    return Score(label=label, score=mean(scores) if scores else None, explanation=explained)


def mean(scores: Sequence[float]) -> float:
    """The mean of finite numbers, within them; exact where they are equal."""
    count = len(scores)
    try:
        found = fsum(scores) / count
    except OverflowError:  # the sum is beyond a float, the mean is not
        found = 2 * fsum(score / count / 2 for score in scores)
    return min(max(scores), max(min(scores), found))
