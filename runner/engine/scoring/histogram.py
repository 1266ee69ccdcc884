"""The distribution of scores."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from sandboxes.record import Record

BINS = 20


class Histogram(Record):
    """
    The number of scores in bins of equal width. A score on an edge belongs to the bin above it, the last to the last.

    The bins go from the lower to the upper bound of the output config if it has both, else from the lowest to the
    highest score. If all scores are the same number, there is one bin, of no width. Every score is counted.
    """

    edges: tuple[float, ...]
    """One more than the bins."""
    counts: tuple[int, ...]


def histogram(
    counted: Mapping[float, int], ordered: Iterable[array[float]], low: float, high: float, bins: int = BINS
) -> Histogram:
    """Count scores: numbers with how often they occur, and sorted arrays. All are between `low` and `high`."""
    if low == high:
        return Histogram(edges=(low, high), counts=(sum(counted.values()) + sum(map(len, ordered)),))
    # The span itself may be beyond a float.
    inner = [low * (1 - n / bins) + high * (n / bins) for n in range(1, bins)]
    counts = [0] * bins
    for score, count in counted.items():
        counts[bisect_right(inner, score)] += count
    for scores in ordered:
        places = [0, *(bisect_left(scores, edge) for edge in inner), len(scores)]
        for n in range(bins):
            counts[n] += places[n + 1] - places[n]
    return Histogram(edges=(low, *inner, high), counts=tuple(counts))
