"""An index of a results file, by which results are ordered and filtered as those of the store."""

from __future__ import annotations

import os
import struct
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from io import BufferedReader, FileIO, RawIOBase
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from runner.core.errors import DatasetError
from runner.core.types import Direction
from runner.inputs.datasets.column_values import RowError
from runner.inputs.datasets.rows import DECODER
from runner.results.output.stored_rows import MOST as LONGEST
from runner.results.store.segments import ERRORS, OUTCOMES, Entry, label_number
from runner.results.store.selection import Chosen, Piece, Search, matches, matching
from runner.results.store.types import Selected, Selection

_RECORD = struct.Struct("<IBBQd")
_PART = 4 << 20
"""Bytes of a part, of which offsets are counted."""
_PAGE = 16 << 20


class _Part(NamedTuple):
    start: int
    size: int
    first: int
    records: bytes


class _Joined(RawIOBase):
    """Several files, read as one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._ends = list(accumulate(path.stat().st_size for path in paths))
        self._at = 0
        self._open: tuple[int, FileIO] | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._ends[-1])[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Called by BufferedReader."""
        place = bisect_right(self._ends, self._at)
        if place == len(self._ends):
            return 0
        if self._open is None or self._open[0] != place:
            self._end()
            self._open = place, FileIO(self._paths[place])
        file = self._open[1]
        file.seek(self._at - (self._ends[place - 1] if place else 0))
        count = file.readinto(buffer) or 0
        self._at += count
        return count

    def _end(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def close(self) -> None:
        self._end()
        super().close()


class FolderIndex:
    """The index of one file, which grows with it, or of the files of a run in parts, as one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        """In the dataset's order."""
        self._reading = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._parts: list[_Part] = []
        self._inode = self._end = 0
        self.rows = 0
        """Whole rows."""

    def refresh(self) -> None:
        """Read what came since the last time. Raises DatasetError. Blocks."""
        try:
            with self._reading, self._opened() as file:  # what two read at once would be there twice
                inode, size = self.paths[0].stat().st_ino, file.seek(0, os.SEEK_END)
                if inode != self._inode or size < self._end:
                    self._forget()
                    self._inode = inode
                file.seek(self._end)
                while self._read_part(file):
                    pass
        except OSError as error:
            raise DatasetError(f"the results cannot be read ({error.strerror}); look at the folder") from None

    def _opened(self) -> BufferedReader:
        return BufferedReader(_Joined(self.paths))

    def _read_part(self, file: Any) -> bool:
        start, at, records = self._end, 0, bytearray()
        rows = self.rows
        while at < _PART:
            text = file.readline(LONGEST)
            if not text.endswith(b"\n"):
                if len(text) >= LONGEST:
                    raise DatasetError(f"row {rows + 1} of the results is too long; run it again")
                break
            if text.strip():
                rows += 1
                records += _record(at, text, rows)
            at += len(text)
        if not at:
            return False
        self._parts.append(_Part(start, at, self.rows + 1, bytes(records)))
        self.rows, self._end = rows, start + at
        return at >= _PART

    def select(self, selection: Selection, direction: Direction) -> Selected:
        """The results that match, and one page of them. Raises DatasetError. Blocks."""
        with self._opened() as file:

            def read(name: str, offset: int, length: int) -> bytes:
                file.seek(int(name) + offset)
                return file.read(length)

            search = Search(selection.search, read) if selection.search else None
            chosen = Chosen(selection, direction)
            pieces = (Piece(part.first, _entries(part), str(part.start), part.size) for part in list(self._parts))
            numbers = chosen.page(matching(pieces, matches(selection), search))
            rows: list[dict[str, Any]] = []
            size = 0
            for number in numbers:
                file.seek(self._offset(number))
                text = file.readline(LONGEST)
                size += len(text)
                if size > _PAGE and rows:
                    break
                rows.append({"number": number} | _row(text, number))
            return Selected(total=chosen.total, rows=tuple(rows), complete=search is None or search.complete)

    def _offset(self, number: int) -> int:
        part = next(one for one in reversed(self._parts) if one.first <= number)
        return int(part.start + _RECORD.unpack_from(part.records, (number - part.first) * _RECORD.size)[0])


def _entries(part: _Part) -> Iterator[Entry]:
    for offset, outcome, error, label, score in _RECORD.iter_unpack(part.records):
        yield Entry(
            offset, OUTCOMES[outcome], ERRORS[error - 1] if error else None, label, None if score != score else score
        )


def _record(at: int, text: bytes, number: int) -> bytes:
    try:
        row = from_json(text)
        error = row.get("error")
        kind = 1 + ERRORS.index(error["kind"]) if error else 0
        score, label = row.get("score"), row.get("label")
        if not isinstance(label, str | None) or isinstance(score, bool | str):
            raise ValueError
        outcome = OUTCOMES.index(row["outcome"])
        return _RECORD.pack(at, outcome, kind, label_number(label), float("nan") if score is None else float(score))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error):
        raise DatasetError(f"row {number} of the results is none that a run writes; run it again") from None


def _row(text: bytes, number: int) -> dict[str, Any]:
    try:
        found = DECODER.decode(text.decode())
    except (RowError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DatasetError(f"row {number} of the results is damaged; run it again")
    return found
