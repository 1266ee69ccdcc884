"""Tell which of a file's next rows are in memory already, so that to read them waits for nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from io import BufferedReader

AtHand = Callable[[int], int]
"""How many of the next rows, up to a number, are in memory, and none of them large; they count as read from then on."""


def all_at_hand(most: int) -> int:
    """As if all rows were."""
    return most


def buffered_rows(file: BufferedReader) -> AtHand | None:
    """For a regular file with a row in each line that is not blank; None for any other."""
    try:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):
        return None
    return _Buffered(file).take if regular else None


class _Buffered:
    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._left = 0

    def take(self, most: int) -> int:
        if not self._left:
            self._left = self._count()
        taken = min(self._left, most)
        self._left -= taken
        return taken

    def _count(self) -> int:
        """The lines that are whole in the buffer, but for blank ones. Nothing is read."""
        try:
            held = self._file.raw.tell() - self._file.tell()
            text = self._file.peek() if held > 0 else b""  # from an empty buffer it would read
        except (OSError, ValueError):  # it was closed
            return 0
        *whole, _ = text.split(b"\n")
        return sum(map(bool, map(bytes.strip, whole)))
