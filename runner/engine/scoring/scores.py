"""Exact statistics of any number of scores, in flat memory."""

from __future__ import annotations

import heapq
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from math import fsum, isfinite, isinf, sqrt

from runner.core.types import Continuous, Finite, OutputConfig
from runner.engine.scoring.histogram import Histogram, histogram
from runner.engine.scoring.interval import Interval, wilson
from sandboxes.record import Record

_COUNTED = 10_000  # different scores that are counted; most evaluators give fewer
_CHUNK = 1 << 16  # scores sorted at once; keeps the median of millions of rows flat in memory


class ScoreSums(Record):
    """The scores of a part of the rows, for those that join them with the rows before."""

    counted: list[tuple[Finite, int]]
    """The first different scores, in the order of their rows, and how often each occurs."""
    others: str = ""
    """All other scores, in any order: 8 bytes each, little-endian, in base64."""


class ScoreDistribution:
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

    def add(self, score: float, times: int = 1) -> None:
        self.count += times
        if score in self._counted:  # as of most rows
            self._counted[score] += times
            return
        self.low = score if self.low is None or score < self.low else self.low
        self.high = score if self.high is None or score > self.high else self.high
        if len(self._counted) < _COUNTED:
            self._counted[score] = times
            return
        for _ in range(times):
            self._open.append(score)
            if len(self._open) == _CHUNK:
                self._sorted.append(array("d", sorted(self._open)))
                self._open = array("d")

    def sums(self) -> ScoreSums:
        others = array("d", chain(*self._sorted, self._open))
        if sys.byteorder == "big":
            others.byteswap()
        return ScoreSums(counted=[*self._counted.items()], others=b64encode(others.tobytes()).decode())

    def join(self, later: ScoreSums) -> None:
        """
        Add the scores of the rows that follow. Each statistic is then the same to the last bit as of all rows at once.

        The same scores are counted: those that a part does not count are beyond the first 10,000 different ones here
        too. Raises ValueError for what `sums` did not write.
        """
        others = array("d")
        others.frombytes(b64decode(later.others, validate=True))
        if sys.byteorder == "big":
            others.byteswap()
        for score, times in later.counted:
            self.add(score, times)
        for score in others:
            self.add(score)

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
