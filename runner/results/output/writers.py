"""One writer for each format of a results file. Each writes row by row, in bounded memory."""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import FileIO
from itertools import accumulate
from typing import Any, Generic, TypeVar

from runner.results.output.cells import cell
from runner.results.output.links import open_own
from runner.results.output.result_rows import Row, encode_row
from runner.results.output.row_cells import DIRECTION, PARTS, Layout, text_cell

E = TypeVar("E")

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Writer(ABC, Generic[E]):
    """
    Writes rows to one file, emptied first. All but what encodes belongs to one thread, and may raise OSError.

    When a write fails, as on a full disk, the file is cut back to its last whole row, and only `close` may follow.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows = 0
        """Whole rows in the file."""
        self.whole = True
        """True if the file can be read. After a failed write it may not, if it could not be cut back, as a pipe."""

    @abstractmethod
    def open(self, path: str) -> None:
        """Create or empty the file."""

    @abstractmethod
    def encode(self, row: Row) -> tuple[E, int]:
        """Return a row as `write` wants it, and about how many characters it holds. For any thread."""

    @abstractmethod
    def write(self, rows: Sequence[E]) -> None:
        """Write rows."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file; nothing may be written after. Safe if `open` failed."""


class TextWriter(Writer[bytes]):
    """Rows as text, with one write for all that are there. The file is complete after each."""

    _START = _BETWEEN = _END = b""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._file: FileIO | None = None
        self._opener: Callable[[str, int], int] | None = None
        self._at = 0  # where the next row goes
        self._can_be_cut = False

    def open(self, path: str) -> None:
        file = self._file = FileIO(path, "w", opener=self._opener)
        self._can_be_cut = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        self.whole = False
        start = self._start()
        self._pour(file, start + self._end())
        self._at, self.whole = len(start), True

    def write(self, rows: Sequence[bytes]) -> None:
        file = self._file
        assert file is not None
        parts = [row if self.rows + n == 0 else self._BETWEEN + row for n, row in enumerate(rows)]
        ends = [0, *accumulate(map(len, parts))]
        try:
            self._pour(file, b"".join(parts) + self._end())
        except OSError as e:
            done = bisect_right(ends, self._written) - 1
            self.whole = False
            if self._can_be_cut:
                done = self._cut(file, ends[: done + 1])
            self.rows += done
            raise e
        self.rows += len(rows)
        self._at += ends[-1]

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                if not self._can_be_cut and self.whole:
                    self._written = 0
                    file.write(self._END)
            finally:
                file.close()

    def _start(self) -> bytes:
        return self._START

    def _end(self) -> bytes:
        return self._END if self._can_be_cut else b""  # what follows overwrites it

    def _pour(self, file: FileIO, data: bytes) -> None:
        self._written = 0
        if self._can_be_cut and self._END:  # else it is there: to ask lets another thread go first, each time
            file.seek(self._at)
        left = memoryview(data)
        while left:
            count = file.write(left) or 0
            self._written += count
            left = left[count:]

    def _cut(self, file: FileIO, ends: Sequence[int]) -> int:
        """End the file after as many of the rows as leave room for its end; their number."""
        for number, end in reversed([*enumerate(ends)]):
            with suppress(OSError):
                file.truncate(self._at + end)
                file.seek(self._at + end)
                if file.write(self._END) == len(self._END):
                    self.whole = True
                    return number
        return 0


class JsonlWriter(TextWriter):
    """One object a line. After `keep` the file's beginning stays. `own`: the file may be no link of any kind."""

    def __init__(self, layout: Layout, *, own: bool = False) -> None:
        super().__init__(layout)
        self._opener = open_own if own else None
        self._kept: tuple[int, int] | None = None

    def keep(self, bytes: int, rows: int) -> None:
        """Keep so many bytes of the file, which are whole rows. To be called before `open`."""
        self._kept = bytes, rows

    def open(self, path: str) -> None:
        if self._kept is None:
            super().open(path)
            return
        size, self.rows = self._kept
        file = self._file = FileIO(path, "r+", opener=self._opener)
        self._can_be_cut = True
        file.truncate(size)
        self._at = file.seek(size)

    def encode(self, row: Row) -> tuple[bytes, int]:
        line = encode_row(row) + b"\n"
        return line, len(line)


class JsonWriter(TextWriter):
    """One array."""

    _START, _BETWEEN, _END = b"[\n", b",\n", b"\n]\n"

    def encode(self, row: Row) -> tuple[bytes, int]:
        text = encode_row(row)
        return text, len(text)


class CsvWriter(TextWriter):
    """
    One line a row, the error as two columns, each output as three if there are several, then columns of the dataset.

    A text that a spreadsheet would run as a formula, or a terminal obey, is escaped behind an apostrophe.
    """

    def _start(self) -> bytes:
        layout = self.layout
        named = [f"{name}.{part}" for name in layout.outputs for part in PARTS]
        own = [*layout.own, "error_kind", "error_message", "stdout", "duration_ms"]
        return self._line([*own, *named, *layout.names()])

    def encode(self, row: Row) -> tuple[bytes, int]:
        error = row["error"] or {"kind": None, "message": None}
        cells = [
            *(text_cell(row.get(c)) if c == DIRECTION else row[c] for c in self.layout.own),
            error["kind"],
            error["message"],
            row["stdout"],
            row["duration_ms"],
        ]
        for name in self.layout.outputs:
            score = row.get("outputs", {}).get(name, {})
            cells += [score.get(part) for part in PARTS]
        line = self._line([*cells, *self.layout.cells(row.get("row", {}))])
        return line, len(line)

    def _line(self, cells: Sequence[Any]) -> bytes:
        between, comma = self.layout.separator, self.layout.decimal_comma
        texts = [cell(one, between, decimal_comma=comma) for one in cells]
        return (between.join(texts) + "\n").encode("utf-8", "replace")
