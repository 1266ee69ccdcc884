"""The rows whose results wait for an earlier one: how many there may be, and taking those that need not wait."""

from __future__ import annotations

from collections import deque

from runner.core.types import Result
from runner.engine.rows import Row

_ROWS, _CHARS = 4096, 32_000_000
_RUN_ROWS, _RUN_CHARS = 16, 64_000  # for each of many runs at once, as on a cluster: a slow one holds up all others
_GROUP, _GROUP_CHARS = 256, 1_000_000  # results taken at once, and the characters in them from which on no more are


def most_waiting(runs: int) -> tuple[int, int]:
    """Return the most rows, and characters of text in them, that wait with so many runs at once."""
    return max(_ROWS, _RUN_ROWS * runs), max(_CHARS, _RUN_CHARS * runs)


def take_results(window: deque[Row]) -> tuple[list[Result], int]:
    """Take the first rows that have results, some at once; these, and the characters in them."""
    found: list[Result] = []
    chars = 0
    while window and (result := window[0].result) is not None and len(found) < _GROUP and chars < _GROUP_CHARS:
        row = window.popleft()
        row.taken = True
        chars += row.chars + row.kept_size
        found.append(result if row.kept is None else Result.trusted({**dict(result), "row": row.kept}))
    return found, chars
