"""An index of a results file, by which results are ordered and filtered as those of the store."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

from runner.core.errors import DatasetError
from runner.results.output.stored_rows import MOST as LONGEST
from runner.results.store.segments import record
from runner.results.store.selection import IndexedResults, Piece

_PART = 4 << 20
"""Bytes of a piece, of which offsets are counted."""


class FolderIndex(IndexedResults):
    """The index of one file, which grows with it, or of the files of a run in parts, as one."""

    strict = False

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        """In the dataset's order."""
        self._reading = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._pieces: list[Piece] = []
        self._seen: tuple[int, ...] = ()
        self._file = self._end = 0
        """The file that is read, and how far."""
        self.rows = 0
        """Whole rows."""

    def refresh(self) -> None:
        """Read what came since the last time. Raises DatasetError. Blocks."""
        try:
            with self._reading:  # what two read at once would be there twice
                *before, last = (path.stat() for path in self.paths)
                seen = *(stat.st_size for stat in before), last.st_ino
                if seen != self._seen or last.st_size < (self._end if self._file == len(before) else 0):
                    self._forget()
                    self._seen = seen
                while True:
                    with self.paths[self._file].open("rb") as file:
                        file.seek(self._end)
                        while self._read_piece(file):
                            pass
                    if self._file == len(before):
                        break
                    self._file, self._end = self._file + 1, 0
        except OSError as error:
            raise self.damage(f"cannot be read ({error.strerror})") from None

    def _read_piece(self, file: BinaryIO) -> bool:
        at, records, rows = 0, bytearray(), self.rows
        while at < _PART:
            text = file.readline(LONGEST)
            if not text.endswith(b"\n"):
                if len(text) >= LONGEST:
                    raise self.damage("is too long", number=rows + 1)
                break
            if text.strip():
                rows += 1
                records += self._record(at, text, rows)
            at += len(text)
        if not at:
            return False
        path = str(self.paths[self._file])
        self._pieces.append(Piece(self.rows + 1, bytes(records), path, self._end, at))
        self.rows, self._end = rows, self._end + at
        return at >= _PART

    def _record(self, at: int, text: bytes, number: int) -> bytes:
        try:
            row = from_json(text)
            error, score, label = row.get("error"), row.get("score"), row.get("label")
            if not isinstance(label, str | None) or isinstance(score, bool | str):
                raise ValueError
            return record(at, row["outcome"], error["kind"] if error else None, label, score)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error):
            raise self.damage("is none that a run writes", number=number) from None

    def pieces(self) -> Iterator[Piece]:
        yield from list(self._pieces)

    def piece_of(self, number: int) -> Piece:
        return next(one for one in reversed(self._pieces) if one.first <= number)

    def damage(self, why: str, file: str | None = None, number: int | None = None) -> DatasetError:
        if number is None:
            return DatasetError(f"the file of the results {why}; look at the folder")
        return DatasetError(f"row {number} of the results {why}; run it again")
