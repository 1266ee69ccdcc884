"""An index of a results file, by which results are ordered and filtered as those of the store."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from runner.datasets.column_values import RowError
from runner.datasets.rows import DECODER
from runner.errors import DatasetError
from runner.output.stored_rows import MOST as LONGEST
from runner.store.segments import ERRORS, OUTCOMES, Entry, label_number
from runner.store.selection import Chosen, Piece, Search, matches, matching
from runner.store.types import Selected, Selection
from runner.types import Direction

_RECORD = struct.Struct("<IBBQd")
_PART = 4 << 20
"""Bytes of a part, of which offsets are counted."""
_PAGE = 16 << 20


class _Part(NamedTuple):
    start: int
    size: int
    first: int
    records: bytes


class FolderIndex:
    """The index of one file, which grows with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
            with self._reading, self._path.open("rb") as file:  # what two read at once would be there twice
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._end:
                    self._forget()
                    self._inode = about.st_ino
                file.seek(self._end)
                while self._read_part(file):
                    pass
        except OSError as error:
            raise DatasetError(f"the results cannot be read ({error.strerror}); look at the folder") from None

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
        with self._path.open("rb") as file:

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
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        raise DatasetError(f"row {number} of the results is none that a run writes; run it again") from None


def _row(text: bytes, number: int) -> dict[str, Any]:
    try:
        found = DECODER.decode(text.decode())
    except (RowError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DatasetError(f"row {number} of the results is damaged; run it again")
    return found
