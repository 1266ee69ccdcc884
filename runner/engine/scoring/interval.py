"""
Intervals and how much evidence a number of rows gives. All are two-sided, at 95 %.

docs/decisions/0019-which-interval.md has the reasons and what was measured.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from math import exp, fsum, inf, isfinite, lgamma, log, log1p, sqrt
from typing import NamedTuple

LEVEL = 0.95
_TAIL = 0.5 + LEVEL / 2
_Z = 1.959963984540054  # the normal distribution's quantile of _TAIL
_POWER = 0.8416212335729143  # and that of 0.8: the share of true differences that are to be seen


class Interval(NamedTuple):
    """A mean and Student's interval on it."""

    mean: float
    error: float
    """The standard error of the mean."""
    freedom: int
    """Degrees of freedom."""
    groups: int
    """Values, or clusters of them, that the error is of."""

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - t_quantile(_TAIL, self.freedom) * self.error

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + t_quantile(_TAIL, self.freedom) * self.error

    @property
    def smallest_detectable(self) -> float:
        """The true difference that so many rows show in 80 % of all samples: of many rows 2.8 standard errors."""
        return detectable(self.error, self.freedom)


def interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, paired: bool = False
) -> Interval | None:
    """
    Return Student's interval on the mean of the values.

    Source: Student 1908, Biometrika 6, 1-25; with clusters the error is the one of Miller 2024, arXiv 2411.00640,
    appendix A, times C/(C-1) for its square, and with C-1 degrees of freedom for C clusters.

    Args:
        values: One for each row.
        clusters: One for each value; rows with the same one are not independent.
        paired: The values are differences of pairs. Values, or clusters, that are 0 give no degree of freedom then:
            with many ties the few others are all that is known of the spread.

    Returns:
        None for fewer than two values, or clusters, and for values so large that their sum, or an end of the interval,
        is no float.
    """
    count = len(values)
    if count < 2:
        return None
    try:
        mean = fsum(values) / count
    except OverflowError:
        return None
    if clusters is None:
        sums = [value - mean for value in values]
        changed = sum(map(bool, values))
    else:
        by: dict[Hashable, float] = {}
        for value, cluster in zip(values, clusters, strict=True):
            by[cluster] = by.get(cluster, 0.0) + value - mean
        sums = list(by.values())
        changed = len({cluster for value, cluster in zip(values, clusters, strict=True) if value})
    groups = len(sums)
    # In units of the largest: the squares of very large and very small floats are none.
    unit = max(map(abs, sums)) or 1.0
    if groups < 2 or not isfinite(unit):
        return None
    squares = fsum((one / unit) ** 2 for one in sums)
    freedom = max(changed - 1, 1) if paired else groups - 1
    found = Interval(mean, unit * sqrt(squares * groups / (groups - 1)) / count, freedom, groups)
    return found if isfinite(found.high - found.low) else None


def clip(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return the ends of an interval on a mean, cut at the bounds of the values: it lies within these as well."""
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))


def detectable(error: float, freedom: int) -> float:
    """Return the true difference that is seen in 80 % of all samples with a standard error of so much."""
    return (t_quantile(_TAIL, freedom) + _POWER) * error


def upper_spread(spread: float, freedom: int) -> float:
    """
    Return the limit that 80 % of all samples' true standard deviations are below.

    Source: s·√(f/χ²), with the quantile of χ² for a share of 0.2 by Wilson and Hilferty 1931, Proc. Nat. Acad. Sci. 17,
    684-688.
    """
    small = 2 / (9 * freedom)
    return spread / sqrt((1 - small - _POWER * sqrt(small)) ** 3)


def rows_for(difference: float, current: Interval, rows: int) -> int | None:
    """
    Estimate how many rows would show a true difference in 80 % of all samples, by the normal distribution.

    Args:
        difference: The true difference of means.
        current: The interval that so many `rows` gave.
        rows: How many it has.

    Returns:
        None: no number would show it.
    """
    if not difference or not current.error:
        return None
    errors = abs((_Z + _POWER) * current.error / difference)
    needed = rows * errors * errors
    return int(needed) + 1 if needed < 1e15 else None


def wilson(successes: float, count: float) -> tuple[float, float]:
    """
    Return Wilson's interval on a proportion: Wilson 1927, J. Am. Stat. Assoc. 22, 209-212. `count` is at least 1.

    Rows of clusters may be worth fewer rows, which need be no whole number.
    """
    share, square = successes / count, _Z * _Z
    middle = share + square / (2 * count)
    half = _Z * sqrt(share * (1 - share) / count + square / (4 * count * count))
    low, high = ((middle + sign * half) / (1 + square / count) for sign in (-1, 1))
    # Rounding must not take the end off a bound that it has by definition.
    return (0.0 if successes == 0 else low), (1.0 if successes == count else high)


def unseen(rows: int) -> float:
    """
    Return the largest share of rows that may differ in truth where none of so many did: 1 - 0.025^(1/n).

    Source: Clopper and Pearson 1934, Biometrika 26, 404-413.
    """
    return 1 - exp(log(1 - _TAIL) / rows)


@lru_cache(maxsize=256)
def t_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's distribution; `share` is above 0.5. To about 10 digits."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < share:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_probability(value: float, freedom: int) -> float:
    """Return the probability that Student's variable is at most `value`, which is not negative."""
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function: the continued fraction of DLMF 8.17.22, by Lentz's method."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there the fraction of the mirrored function converges faster
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    tiny = 1e-300
    c, d, value, last = 1.0, 0.0, 1.0, inf
    step = 0
    while abs(last - 1) > 1e-15 and step < 10_000:
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d or tiny)
        c = 1 + term / c or tiny
        last = c * d
        value *= last
        step += 1
    return front * (value - 1)
