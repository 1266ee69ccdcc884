"""Read jsonl, json, csv and parquet files as a lazy stream of cases. docs/rules.md has the rules."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Self, cast

from runner.datasets.buffered import AtHand, buffered_rows
from runner.datasets.column_values import RowError, UnreadError
from runner.datasets.delimiter import WORDS
from runner.datasets.formats import csv_rows, jsonl_rows, lines_with_rows
from runner.datasets.ids import Ids
from runner.datasets.json_array import array_rows
from runner.datasets.location import file_of, is_pattern, is_url, open_url
from runner.datasets.lookahead import Lookahead
from runner.datasets.rows import Row, cases, cases_from_rows
from runner.datasets.slices import Slice, in_range, keys_of
from runner.datasets.streams import BUFFER, PACKED, as_utf8, unpacked
from runner.errors import DatasetError
from runner.evaluators.column import Source
from runner.text import CHECK, close_name, printable, whole
from runner.types import Case

__all__ = ["Dataset", "cases_from_rows", "open_dataset"]

_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*_LINES, ".json", ".csv", ".tsv", ".parquet", ".arrow")
_BUFFER = 4 * BUFFER  # what is in it is read without a thread, which is started for each
_PATIENCE = 0.5
"""Seconds that another thread may take to read one row, before its file is left open."""

Empty = Literal["text", "null"]
"""What an empty cell of a CSV file is."""


class Reading(NamedTuple):
    """How a text file is read. `encoding` None: UTF-8, or UTF-16 by its byte order mark."""

    encoding: str | None = None
    empty: Empty = "text"


_PLAIN = Reading()


class Dataset:
    """The cases of one file, in its order, once. Memory does not grow with the rows."""

    def __init__(
        self,
        name: str,
        rows: Iterable[Row],
        close: Callable[[], object],
        count: Callable[[], int | None] = lambda: None,
        unread: tuple[str, ...] = (),
        *,
        header: tuple[str, ...] = (),
        ends_reads: bool = False,
    ) -> None:
        # `ends_reads`: whether `close` also ends a read that another thread waits for.
        self._ends_reads = ends_reads
        self.name = name
        self.at_hand: AtHand | None = None
        """What tells which rows need not be waited for, if anything does."""
        self.header = header
        """The columns, if they are known before the rows are read."""
        self.rows = rows
        """The rows as they are read, in place of the cases."""
        self._cases = Lookahead(self._read())
        self._iterated = False
        self._close = close
        self._count = count
        self._unread = unread
        self.id_source: Source | None = None
        """Where a row's id is; None: in the column `id`. To be set before the first row is read."""
        self.part: Slice | None = None
        """Set for a part of a dataset, whose rows are numbered as in all of it."""
        self.remarks: list[str] = []
        """How the file is read, where it might be read otherwise."""
        self._ids = Ids()
        self._reading = threading.Lock()
        self.complete = True
        """False once the rest of the file could not be read; its number of rows is then unknown."""

    def __iter__(self) -> Iterator[Case]:
        """The rows, once. Raises DatasetError if the file was read before; the iterator does if it fails under way."""
        if self._iterated:
            raise DatasetError(f"{self.name} has been read; open it again")
        self._iterated = True
        return iter(self._cases)

    def look(self, at: int) -> Case | None:
        """The case at this place, from 0; None beyond the end. Raises DatasetError when the file fails."""
        return self._cases.look(at)

    def _read(self) -> Iterator[Case]:
        first = 1
        if (part := self.part) is not None:
            first = part.first
            if part.taken is not None:
                self._ids.add_taken(keys_of(part.taken))
        found = cases(self.rows, self._ids, self._unread, self.id_source, first, self._note_broken)
        while True:
            with self._reading:
                try:
                    case = next(found, None)
                except OSError as error:
                    raise DatasetError(f"{self.name} cannot be read on: {error.strerror or error}") from None
            if case is None:
                return
            yield case

    def total(self) -> int | None:
        """The number of cases, if it is cheap to find."""
        return self._count()

    @property
    def notes(self) -> list[str]:
        """Notes for people about the file, and about the rows that were read so far."""
        found = list(self.remarks)
        if repeated := self._ids.repeated:
            found.append(repeated_ids(repeated))
        if not self.complete:
            found.append(f"{self.name} could not be read to its end; it may have more rows")
        return found

    @property
    def repeated(self) -> int:
        """The rows so far whose id an earlier row has."""
        return self._ids.repeated

    def _note_broken(self, error: RowError) -> None:
        self.complete = self.complete and not isinstance(error, UnreadError)

    def close(self) -> None:
        """Safe twice. A file in which another thread hangs stays open: to close it would hang as well."""
        idle = self._reading.acquire(timeout=0 if self._ends_reads else _PATIENCE)
        try:
            if idle or self._ends_reads:
                self._close()
            if idle:
                self._ids.close()
        finally:
            if idle:
                self._reading.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def repeated_ids(count: int) -> str:
    """A note about rows whose id an earlier row has."""
    rows = "1 row repeats an id" if count == 1 else f"{count:,} rows repeat an id"
    return f"{rows} that an earlier row has; they are named id#row"


def open_dataset(
    path: str | os.PathLike[str],
    *,
    stdin: BinaryIO | None = None,
    columns: Collection[str] | None = None,
    id_source: Source | None = None,
    reading: Reading = _PLAIN,
    name: str | None = None,
    part: Slice | None = None,
) -> Dataset:
    """
    Open a dataset by its suffix; `-` is JSONL on `stdin`. `name` is what messages call it, in place of its file's.
    With a `part`, its rows alone.

    `columns` are those that are needed; others are left out where that saves decoding them. None is all. `id_source` is
    where a row's id is, if not in the column `id`.

    Raises DatasetError for what cannot be read as a whole; a row that cannot is a broken case instead.
    """
    if os.fspath(path) == "-":
        dataset = _standard_input(stdin, reading)
    else:
        dataset = _open_file(os.fspath(path), columns, reading, name, part)
    dataset.id_source, dataset.part = id_source, part
    return dataset


def _open_file(
    place: str, columns: Collection[str] | None, reading: Reading, name: str | None, part: Slice | None
) -> Dataset:
    if is_pattern(place):
        raise DatasetError(f"{printable(whole(place))} is several files: one evaluator scores them in parts, to run/")
    path = Path(place)
    name, suffix = printable(whole(path.name)) if name is None else name, path.suffix.lower()
    packed = suffix if suffix in PACKED else None
    if packed:
        suffix = Path(path.stem).suffix.lower()
    table = suffix in (".parquet", ".arrow")
    if suffix not in SUFFIXES or (packed and table) or (path.is_dir() and not is_url(place)):
        raise _refusal(path, name)
    if part is not None and file_of(place).stamp != part.stamp:
        raise DatasetError(f"{printable(whole(place))} has changed since the run was planned; start it anew")
    if table:
        if reading.encoding is not None:
            raise DatasetError(f"{name} has no encoding, as it is no text; leave the encoding out")
        if not is_url(place):
            _open(path).close()
        from runner.datasets.parquet import ParquetRows  # here: it imports pydantic's core, and text needs none

        rows = ParquetRows(place, columns, part)
        return Dataset(name, rows, rows.close, lambda: rows.count, rows.unread, header=rows.header, ends_reads=True)
    file = open_url(place) if is_url(place) else _open(path)
    try:
        if packed:
            file = unpacked(file, name, packed)
        if part is not None and part.end is not None:
            file = in_range(file, part.start, part.end)
        counted = packed is None and part is None and not is_url(place)
        before = 0 if part is None else part.before
        dataset = _text_file(file, name, suffix, reading, lambda: lines_with_rows(path) if counted else None, before)
        if counted and suffix in _LINES and not dataset.remarks:
            dataset.at_hand = buffered_rows(file)
        return dataset
    except OSError as error:
        file.close()
        raise DatasetError(f"{name} cannot be read: {error.strerror or error}") from None
    except DatasetError:
        file.close()
        raise


def _text_file(
    file: BufferedReader,
    name: str,
    suffix: str,
    reading: Reading,
    count: Callable[[], int | None],
    before: int = 0,
) -> Dataset:
    file, found = as_utf8(file, name, reading.encoding)
    if suffix == ".json":
        dataset = Dataset(name, array_rows(file, name), file.close)
    elif suffix in (".csv", ".tsv"):
        csv = csv_rows(file, name, "\t" if suffix == ".tsv" else None, empty=None if reading.empty == "null" else "")
        dataset = Dataset(name, csv.rows, file.close, header=tuple(csv.header))
        if suffix == ".csv" and csv.delimiter != ",":
            dataset.remarks.append(f"the columns of {name} are separated by {WORDS[csv.delimiter]}")
    else:
        dataset = Dataset(name, jsonl_rows(file, name, before), file.close, count if found is None else lambda: None)
    if found is not None:
        dataset.remarks.append(f"{name} is read as {found}")
    return dataset


def _standard_input(stdin: BinaryIO | None, reading: Reading) -> Dataset:
    source: Any = stdin or getattr(sys.stdin, "buffer", None)
    if source is None:
        raise DatasetError("- is standard input, which is closed; name a file")
    file = cast(BufferedReader, source if hasattr(source, "peek") else BufferedReader(source))
    file, _ = as_utf8(file, "stdin", reading.encoding)
    return Dataset("stdin", jsonl_rows(file, "stdin"), lambda: None)


def _refusal(path: Path, name: str) -> DatasetError:
    from runner.datasets.conversions import conversion

    shown = printable(whole(str(path)))
    if (step := conversion(path)) and path.exists():
        return DatasetError(f"{shown} {step}")
    if path.is_dir():
        return DatasetError(f"{shown} is a folder; name a file in it")
    if not path.exists() and (near := close_name(path)):
        return DatasetError(f"no dataset {shown}{near}")
    if path.suffix in (".py", ".ts", ".js"):
        return DatasetError(f"{shown} is a script by its name; name the evaluator first, and a dataset after it")
    known = ", ".join(SUFFIXES)
    return DatasetError(f"{name}: a dataset is named {known}, text also with .gz or .zst behind; convert it")


def _open(path: Path) -> BufferedReader:
    try:
        return BufferedReader(path.open("rb", buffering=0), _BUFFER)
    except FileNotFoundError:
        raise DatasetError(f"no dataset {printable(whole(str(path)))}{close_name(path) or CHECK}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DatasetError(f"{printable(whole(str(path)))} cannot be opened: {why}") from None
