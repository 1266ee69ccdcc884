"""Batches whose rows share their state: which rows are in each depends on the dataset alone."""

from __future__ import annotations

_SINGLE, _SHARE = 16, 3
"""The first batches whose state is shared have a row each; then each has this part of the rows before it."""
BATCH_ROWS = 1024
"""A batch ends after so many rows, so that they need not wait for the next one that is not broken."""


def shared_batch(number: int, most: int, least: int = 1) -> int:
    """
    Return how many rows are in a batch whose state is shared: `least` to `most`; `number` counts the batches from 0.

    It depends on nothing else, so that results do not depend on time or the number of workers. Slow rows keep several
    workers busy, as no batch is a large part of what has been run.
    """
    return min(most, max(least, _SIZES[min(number, len(_SIZES) - 1)]))


def _sizes() -> list[int]:
    sizes = [1] * _SINGLE
    while sizes[-1] < BATCH_ROWS:
        sizes.append(sum(sizes) // _SHARE)
    return sizes


_SIZES = _sizes()


class SharedBatches:
    """Counts the rows of a dataset, in its order, into batches of `least` to `most`; broken rows are in none."""

    def __init__(self, most: int, least: int = 1) -> None:
        self._most, self._least = most, least
        self._number = self._calls = self._seen = 0

    def add(self, broken: bool) -> bool:
        """Count one row; return True if it ends its batch."""
        self._seen += 1
        self._calls += not broken
        if self._calls < shared_batch(self._number, self._most, self._least) and self._seen < BATCH_ROWS:
            return False
        self._number += 1
        self._calls = self._seen = 0
        return True
