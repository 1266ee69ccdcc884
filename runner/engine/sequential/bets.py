"""
Verdicts that hold although every row was looked at: bets against a mean, and looks with limits.

docs/decisions/0091-stop-when-sure.md has the reasons and what was measured.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import erfc, inf, sqrt
from typing import Literal

from runner.engine.scoring.interval import interval, t_quantile

ALPHA = 0.05
Side = Literal["above", "below"]
_STAKES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 0.95)
"""The share of a purse that each bet risks: small ones see small differences, large ones large ones soon."""
_START = [1.0] * len(_STAKES)
_HALVINGS = 25
_MOST = 20_000
"""Values of which an interval is computed: it takes some 30 ms for a thousand."""
FIRST_LOOK = 100
_LOOKS = 5
_Z = 2.040
"""The constant of O'Brien and Fleming for five looks at 5 %, two-sided."""


class Bets:
    """
    Bets that the mean of values from 0 to 1 is above a number, and that it is below.

    If it is not above, no way to bet makes 1 to `limit` but with a probability of 1 / limit (Ville 1939), however often
    one looks. The purse is the mean of ten that risk different shares (Robbins 1970; Waudby-Smith and Ramdas 2024,
    arXiv 2010.09686). With `rows` the values are drawn one by one from so many, and the mean is that of all of them:
    each bet is on what the others must have on average (Waudby-Smith and Ramdas 2020, arXiv 2006.04347). `below` is
    the limit of the other side, where that is another one.
    """

    def __init__(self, mean: float, limit: float, rows: int | None = None, below: float | None = None) -> None:
        self._mean = mean
        self._limits = limit * len(_STAKES), (limit if below is None else below) * len(_STAKES)
        self._rows = rows
        self._above = self._below = _START
        self._sum = 0.0
        self.values = array("d")

    def add(self, value: float) -> Side | None:
        """Take a value; return the side that is proven now, if one is."""
        mean, rows = self._mean, self._rows
        if rows is not None:
            mean = (rows * mean - self._sum) / (rows - len(self.values))
        self._sum += value
        self.values.append(value)
        if not 0 < mean < 1:  # what the others must have is impossible, or certain: no bet is left
            return None
        up, down = (value - mean) / mean, (mean - value) / (1 - mean)
        self._above = above = [w * (1 + g * up) for w, g in zip(self._above, _STAKES, strict=True)]
        self._below = below = [w * (1 + g * down) for w, g in zip(self._below, _STAKES, strict=True)]
        if sum(above) >= self._limits[0]:
            return "above"
        return "below" if sum(below) >= self._limits[1] else None

    def interval(self, limit: float) -> tuple[float, float] | None:
        """Return all means that no purse of `limit` denies; None for very many values."""
        if len(self.values) > _MOST:
            return None
        return _edge(lambda mean: self._purse(mean) >= limit), 1 - _edge(
            lambda mean: self._purse(mean, mirror=True) >= limit
        )

    def _purse(self, mean: float, *, mirror: bool = False) -> float:
        """What betting that the mean is above this one has made; of the mirror, where 0 is 1 and 1 is 0."""
        rows, total, seen, purse = self._rows, 0.0, 0, _START
        left = mean
        for value in self.values:
            one = 1 - value if mirror else value
            if rows is not None:
                left = (rows * mean - total) / (rows - seen)
                total, seen = total + one, seen + 1
            if left <= 0:
                return inf
            up = (one - left) / left
            purse = [w * (1 + g * up) for w, g in zip(purse, _STAKES, strict=True)]
        return sum(purse) / len(_STAKES)


def _edge(denied: Callable[[float], bool]) -> float:
    """The smallest mean that is not denied: all smaller ones are."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if denied(middle) else (low, middle)
    return low


class Looks:
    """
    Five looks at the differences of pairs, with Student's statistic and the limits of O'Brien and Fleming 1979.

    None is taken before row 100: of few rows Student's errors are not what they should be. `tests`: so many outputs are
    looked at.
    """

    def __init__(self, rows: int, tests: int = 1) -> None:
        at = {round(rows * look / _LOOKS): _Z * sqrt(_LOOKS / look) for look in range(1, _LOOKS + 1)}
        self._shares = {row: erfc(z / sqrt(2)) / 2 / tests for row, z in at.items() if row >= FIRST_LOOK or row == rows}

    def look(self, row: int, differences: Sequence[float], tolerance: float) -> Side | None:
        """Look after this row, if it is one of the five; return the side of -tolerance that is proven."""
        share = self._shares.get(row)
        found = None if share is None else interval(differences, paired=True)
        if found is None or share is None or not found.error:
            return None
        ratio = (found.mean + tolerance) / found.error
        if abs(ratio) <= t_quantile(1 - share, found.freedom):
            return None
        return "above" if ratio > 0 else "below"
