"""Exact statistics of any number of scores, in flat memory."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from math import fsum, isfinite, isinf, sqrt

from runner.results.histogram import Histogram, histogram
from runner.results.interval import Interval, wilson
from runner.types import Continuous, OutputConfig

_COUNTED = 10_000  # different scores that are counted; most evaluators give fewer
_CHUNK = 1 << 16  # scores sorted at once; keeps the median of millions of rows flat in memory


class Scores:
    """
    Exact statistics of finite floats. The first 10,000 distinct values are counted, all others are stored.

    They are stored in sorted chunks, because sorting a million at once takes four times their memory.
    """

    def __init__(self) -> None:
        self.count = 0
        self.low: float | None = None
        self.high: float | None = None
        self._counted: dict[float, int] = {}
        self._sorted: list[array[float]] = []
        self._open: array[float] = array("d")

    def add(self, score: float) -> None:
        self.count += 1
        self.low = score if self.low is None or score < self.low else self.low
        self.high = score if self.high is None or score > self.high else self.high
        if score in self._counted or len(self._counted) < _COUNTED:
            self._counted[score] = self._counted.get(score, 0) + 1
            return
        self._open.append(score)
        if len(self._open) == _CHUNK:
            self._sorted.append(array("d", sorted(self._open)))
            self._open = array("d")

    def mean(self) -> float | None:
        if self.low is None or self.high is None:
            return None
        try:
            return fsum(self._all()) / self.count
        except OverflowError:  # the sum is beyond a float, the mean is not
            return min(self.high, max(self.low, 2 * fsum(score / self.count / 2 for score in self._all())))

    def median(self) -> float | None:
        if not self.count:
            return None
        ordered = heapq.merge(_repeated(sorted(self._counted.items())), *self._sorted, sorted(self._open))
        middle = list(islice(ordered, (self.count - 1) // 2, self.count // 2 + 1))
        low, high = middle[0], middle[-1]
        average = (low + high) / 2
        return low / 2 + high / 2 if isinf(average) else average

    def interval(self) -> dict[str, float]:
        """The ends of the interval on the mean, by the names of their fields; none for fewer than two scores."""
        if self._counted.keys() <= {0.0, 1.0} and self.count:
            low, high = wilson(self._counted.get(1.0, 0), self.count)
            return {"ci_low": low, "ci_high": high}
        mean = self.mean()
        if self.count < 2 or mean is None or self.low is None or self.high is None:
            return {}
        unit = max(self.high - mean, mean - self.low) or 1.0  # the squares of very large floats are none
        stored = chain.from_iterable((*self._sorted, self._open))
        squares = fsum(count * ((score - mean) / unit) ** 2 for score, count in self._counted.items())
        squares += fsum(((score - mean) / unit) ** 2 for score in stored)
        error = unit * sqrt(squares / (self.count - 1) / self.count)
        found = Interval(mean, error, self.count - 1)
        return {"ci_low": found.low, "ci_high": found.high} if isfinite(found.high - found.low) else {}

    def histogram(self, config: OutputConfig | None) -> Histogram | None:
        if self.low is None or self.high is None:
            return None
        low, high = self.low, self.high
        if isinstance(config, Continuous) and config.lower_bound is not None and config.upper_bound is not None:
            low, high = config.lower_bound, config.upper_bound
        return histogram(self._counted, (*self._sorted, array("d", sorted(self._open))), low, high)

    def _all(self) -> Iterator[float]:
        return chain(_repeated(self._counted.items()), *self._sorted, self._open)


def _repeated(counted: Iterable[tuple[float, int]]) -> Iterator[float]:
    return chain.from_iterable(repeat(score, count) for score, count in counted)
