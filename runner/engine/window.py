"""How many results may wait for an earlier one."""

from __future__ import annotations

_ROWS, _CHARS = 4096, 32_000_000
_RUN_ROWS, _RUN_CHARS = 16, 64_000  # for each of many runs at once, as on a cluster: a slow one holds up all others


def most_waiting(runs: int) -> tuple[int, int]:
    """Rows, and characters of text in them, with so many runs at once."""
    return max(_ROWS, _RUN_ROWS * runs), max(_CHARS, _RUN_CHARS * runs)
