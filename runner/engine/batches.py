"""Batches whose rows share their state: which rows are in each depends on the dataset alone."""

from __future__ import annotations

SMALLEST = 16
"""Rows in the first batches whose state is shared; each second batch has twice as many, up to the sandbox's `batch`."""
BATCH_ROWS = 1024
"""A batch ends after so many rows, so that they need not wait for the next one that is not broken."""


def shared_batch(number: int, most: int) -> int:
    """
    How many rows are in a batch whose state is shared; `number` counts the batches from 0.

    It depends on nothing else, so that results do not depend on time or the number of workers. The first ones are
    small, so that a small dataset keeps several workers busy.
    """
    return min(most, SMALLEST << min(number // 2, 16))


class SharedBatches:
    """Counts the rows of a dataset, in its order, into batches of at most `most`; broken rows are in none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = self._calls = self._seen = 0

    def add(self, broken: bool) -> bool:
        """Count one row; return True if it ends its batch."""
        self._seen += 1
        self._calls += not broken
        if self._calls < shared_batch(self._number, self._most) and self._seen < BATCH_ROWS:
            return False
        self._number += 1
        self._calls = self._seen = 0
        return True
