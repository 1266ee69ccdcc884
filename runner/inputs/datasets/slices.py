"""A part of a dataset: some of its files, or some of one file, with the rows numbered as in all of it."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from pydantic import Field

from runner.core.errors import DatasetError
from runner.core.text import printable
from runner.inputs.datasets.formats.column_values import MAX_ROW
from runner.inputs.datasets.formats.streams import BUFFER, Filter
from runner.inputs.datasets.ids import KEY
from sandboxes.record import Record


class Slice(Record):
    """Rows that follow each other in a file: all of them, those in a range of bytes, or in some row groups."""

    path: str
    """A path, or a URL."""
    stamp: str
    """The file's, when the run was planned."""
    start: int = Field(default=0, ge=0)
    end: int | None = Field(default=None, ge=0)
    """The bytes of JSON Lines: those of all lines that begin in this range. None: the whole file."""
    groups: tuple[int, int] | None = None
    """Row groups of a Parquet file: the first, and the one after the last."""
    first: int = Field(default=1, ge=1)
    """The number of the first row in the dataset."""
    before: int = Field(default=0, ge=0)
    """The lines, or rows of Parquet, that lie before it in its file: messages name places in the file."""
    taken: str | None = None
    """A file with the keys of ids that rows before this part have. None: there are none."""

    @property
    def words(self) -> str:
        """Which rows these are; another text for any other rows."""
        some = "" if self.end is None else f", bytes {self.start}-{self.end}"
        some += "" if self.groups is None else f", row groups {self.groups[0]}-{self.groups[1]}"
        return f"{self.stamp}{some}, from row {self.first}"


def keys_of(path: str) -> Iterator[bytes]:
    """Yield the keys in a file of them. Raises DatasetError."""
    try:
        with Path(path).open("rb") as file:
            while block := file.read(KEY << 12):
                yield from (block[at : at + KEY] for at in range(0, len(block), KEY))
    except OSError as error:
        raise DatasetError(f"{printable(path)} cannot be read: {error.strerror}; run it again") from None


def in_range(file: BufferedReader, start: int, end: int) -> BufferedReader:
    """Return the lines of the file that begin in this range."""
    at = 0
    if start:
        # From the last byte before: where that ends a line, the next begins here.
        file.seek(start - 1)
        at = start - 1
        while line := file.readline(1 << 20):
            at += len(line)
            if line.endswith(b"\n"):
                break
    return BufferedReader(_Lines(file, max(at, start), end), BUFFER)


class _Lines(Filter):
    """Reads whole lines, up to the one within which the range ends."""

    def __init__(self, file: BufferedReader, at: int, end: int) -> None:
        super().__init__(file)
        self._at = at
        self._end = end
        self._last = at >= end
        self._over = self._last

    def some(self, size: int) -> bytes:
        data: bytes
        if self._over:
            return b""
        left = self._end - self._at
        if left > 0:
            data = self._file.read1(min(size, left))
            self._at += len(data)
            self._over = not data or (self._at == self._end and data.endswith(b"\n"))
        else:
            data = self._file.readline(min(size, MAX_ROW))
            self._over = not data or data.endswith(b"\n")
        return data
