"""Read jsonl, json, csv and parquet files as a lazy stream of cases. docs/rules.md has the rules."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, cast

from runner.core.errors import DatasetError
from runner.core.text import CHECK, close_name, list_names, printable, whole
from runner.core.types import Case
from runner.inputs.datasets.formats.column_values import RowError, UnreadError
from runner.inputs.datasets.formats.delimiter import WORDS
from runner.inputs.datasets.formats.encodings import refuse_encoded
from runner.inputs.datasets.formats.json_array import array_rows, document_rows, object_rows
from runner.inputs.datasets.formats.signatures import json_kind, packing, refuse_foreign, refuse_json
from runner.inputs.datasets.formats.streams import (
    BUFFER,
    COMPRESSION_SUFFIXES,
    as_utf8,
    beginning,
    unpack,
    with_first_line,
    with_line_feeds,
)
from runner.inputs.datasets.formats.text_rows import csv_rows, jsonl_rows, lines_with_rows
from runner.inputs.datasets.location import file_of, first_bytes, is_pattern, is_url, open_url
from runner.inputs.datasets.notes import RowNotes, repeated_ids
from runner.inputs.datasets.peekable_cases import Lookahead
from runner.inputs.datasets.rows import PLAIN, Row, RowReading, cases, with_json
from runner.inputs.datasets.slices import Slice, in_range, keys_of
from runner.inputs.evaluators.column import Source
from sandboxes.host.regular import open_regular
from sandboxes.words.wording import Message, Setting

_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*_LINES, ".json", ".csv", ".tsv", ".parquet", ".arrow")
_PACKED = {None: "is not compressed", ".gz": "is compressed with gzip", ".zst": "is compressed with zstd"}
_BUFFER = 4 * BUFFER  # what is in it is read without a thread, which is started for each
_SAMPLE = 4 << 20
"""Bytes of a JSON document in which places are looked for."""
_PATIENCE = 0.5
"""Seconds that another thread may take to read one row, before its file is left open."""


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
        notes: RowNotes | None = None,
        ends_reads: bool = False,
    ) -> None:
        # `ends_reads`: whether `close` also ends a read that another thread waits for.
        self._ends_reads = ends_reads
        self.name = name
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
        self.reading = PLAIN
        """How texts are read. To be set before the first row is read."""
        self.table_of_texts = False
        """Whether all values are texts, as in CSV."""
        self.columns: Collection[str] | None = None
        """Those that are needed; None: all. To be set before the first row is read."""
        self._notes = notes or RowNotes()
        self._ids = self._notes.ids
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
        """Return the case at this place, from 0; None beyond the end. Raises DatasetError when the file fails."""
        return self._cases.look(at)

    def _read(self) -> Iterator[Case]:
        first = 1
        if (part := self.part) is not None:
            first = part.first
            if part.taken is not None:
                self._ids.add_taken(keys_of(part.taken))
        rows = with_json(self.rows, self.reading.json_columns) if self.reading.json_columns else self.rows
        rows = self._notes.watch(rows, self.columns, self.reading.declared, table=self.table_of_texts)
        found = cases(rows, self._ids, self._unread, self.id_source, first, self._note_broken)
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
        """Return the number of cases, if it is cheap to find."""
        return self._count()

    @property
    def notes(self) -> list[str]:
        """Notes for people about the file, and about the rows that were read so far."""
        found = [*self.about, *([repeated_ids(self.repeated)] if self.repeated else [])]
        if not self.complete:
            found.append(f"{self.name} could not be read to its end; it may have more rows")
        return found

    @property
    def about(self) -> list[str]:
        """The notes that parts of a dataset have in common."""
        self._notes.left_out |= dict.fromkeys(getattr(self.rows, "left_out", ()))
        return [*self.remarks, *self._notes.lines()]

    @property
    def repeated(self) -> int:
        """The rows so far whose id an earlier row has."""
        return self._ids.repeated

    def _note_broken(self, error: RowError) -> None:
        self.complete = self.complete and not isinstance(error, UnreadError)

    def leave_open(self) -> None:
        """Leave the file open: it is the caller's to close."""
        self._close = lambda: None

    def close(self) -> None:
        """Close the file. Safe twice. One in which another thread hangs stays open: to close it would hang as well."""
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


def open_dataset(
    path: str | os.PathLike[str],
    *,
    stdin: BinaryIO | None = None,
    columns: Collection[str] | None = None,
    id_source: Source | None = None,
    reading: RowReading = PLAIN,
    name: str | None = None,
    part: Slice | None = None,
) -> Dataset:
    """
    Open a dataset by its suffix.

    Args:
        path: A file or URL; `-` is JSONL on `stdin`.
        stdin: The stream for `-`.
        columns: Those that are needed; others are left out where that saves decoding them. None: all.
        id_source: Where a row's id is, if not in the column `id`.
        reading: How the file is read.
        name: What messages call it, in place of its file's name.
        part: Read its rows alone.

    Raises:
        DatasetError: It cannot be read as a whole; a row that cannot is a broken case instead.
    """
    if os.fspath(path) == "-":
        dataset = _standard_input(stdin, reading)
    else:
        dataset = _open_file(os.fspath(path), columns, reading, name, part)
    dataset.id_source, dataset.part, dataset.reading, dataset.columns = id_source, part, reading, columns
    return dataset


def _open_file(
    place: str, columns: Collection[str] | None, reading: RowReading, name: str | None, part: Slice | None
) -> Dataset:
    if is_pattern(place):
        raise DatasetError(f"{printable(whole(place))} is several files: one evaluator scores them in parts, to run/")
    path = Path(place)
    name, suffix = printable(whole(path.name)) if name is None else name, path.suffix.lower()
    packed = suffix if suffix in COMPRESSION_SUFFIXES else None
    if packed:
        suffix = Path(path.stem).suffix.lower()
    table = suffix in (".parquet", ".arrow")
    if suffix not in SUFFIXES or (packed and table) or (path.is_dir() and not is_url(place)):
        raise _refusal(path, name)
    if part is not None and file_of(place).stamp != part.stamp:
        raise DatasetError(f"{printable(whole(place))} has changed since the run was planned; start it anew")
    if reading.rows is not None and (table or suffix in (".csv", ".tsv")):
        raise DatasetError(
            Message(f"{name} is a table, in which ", Setting("rows", reading.rows), " has no meaning; leave it out")
        )
    if table:
        if reading.encoding is not None:
            raise DatasetError(f"{name} has no encoding, as it is no text; leave the encoding out")
        if not is_url(place):
            refuse_irregular(place)  # its rows are read from several places
        if part is None or part.groups is None:
            refuse_foreign(_first_bytes(place, path), place, name, table=suffix)
        from runner.inputs.datasets.formats.parquet import (
            ParquetRows,  # here: it imports pydantic's core, and text needs none
        )

        rows = ParquetRows(place, columns, part)
        return Dataset(name, rows, rows.close, lambda: rows.count, rows.unread, header=rows.header, ends_reads=True)
    file = open_url(place) if is_url(place) else _open(path)
    try:
        regular = not is_url(place) and path.is_file()
        begins = part is None or not part.start
        remarks = []
        if begins:
            start = file.peek(BUFFER)[:BUFFER]
            refuse_foreign(start, place, name)
            if (found := packing(start, packed)) != packed:
                remarks.append(f"{name} {_PACKED[found]}, and is read so")
                packed = found
        if packed:
            file = unpack(file, name, packed)
        if part is not None and part.end is not None:
            file = in_range(file, part.start, part.end)
        regular = regular and packed is None
        counted = regular and part is None
        dataset = _text_file(
            _Text(file, name, place, begins, partial(beginning, path) if regular else None),
            suffix,
            reading,
            lambda: lines_with_rows(path) if counted else None,
            0 if part is None else part.before,
        )
        dataset.remarks[:0] = remarks
        return dataset
    except OSError as error:
        file.close()
        raise DatasetError(f"{name} cannot be read: {error.strerror or error}") from None
    except DatasetError:
        file.close()
        raise


def _first_bytes(place: str, path: Path) -> bytes:
    if is_url(place):
        return first_bytes(place, BUFFER)
    with _open(path) as file:
        return file.peek(BUFFER)[:BUFFER] if path.is_file() else b""  # what is read of a pipe is gone


class _Text(NamedTuple):
    """
    A text file. `begins`: it is read from its beginning, which says what it is. `parts` gives its bytes once more; None
    where they can be read once only.
    """

    file: BufferedReader
    name: str
    place: str = "-"
    begins: bool = True
    parts: Callable[[], Iterable[bytes]] | None = None


def _text_file(
    text: _Text, suffix: str, reading: RowReading, count: Callable[[], int | None], before: int = 0
) -> Dataset:
    name, close = text.name, text.file.close
    file = with_first_line(text.file) if text.begins and text.parts is None else text.file
    file, found = as_utf8(file, name, reading.encoding)
    remarks = [] if found is None else [f"{name} is read as {found}"]
    start = b""
    if text.begins:
        if suffix != ".json" and (fed := with_line_feeds(file)) is not None:
            file = fed
            remarks.append(f"the lines of {name} end in carriage returns, and are read so")
        start = file.peek(BUFFER)[:BUFFER]
        if reading.encoding is None and found is None:
            refuse_encoded([start] if text.parts is None else text.parts(), name)
    words, notes = start.decode("utf-8", "replace"), RowNotes()
    if reading.rows is not None:
        dataset = Dataset(name, _rows_at(reading.rows, file, text, words), close)
    elif suffix == ".json":
        if words.lstrip().startswith("{"):
            from runner.inputs.datasets.places import step_for  # here: few datasets name a place, or need one

            file.close()
            raise DatasetError(Message(name, " ", step_for(_beginning(text, words), Path(text.place))))
        dataset = Dataset(name, array_rows(file, name), close)
    elif suffix in (".csv", ".tsv"):
        refuse_json(words, text.place, name)
        empty = None if reading.empty == "null" else ""
        between = reading.csv_separator or ("\t" if suffix == ".tsv" else None)
        csv = csv_rows(file, name, between, empty=empty, notes=notes)
        dataset = Dataset(name, csv.rows, close, header=tuple(csv.header), notes=notes)
        dataset.table_of_texts = True
        if suffix == ".csv" and csv.delimiter != "," and reading.csv_separator is None:
            remarks.append(f"the columns of {name} are separated by {WORDS[csv.delimiter]}")
    elif (kind := json_kind(words, name)) == "lines":
        counted = not remarks  # its lines are those of the file
        rows = jsonl_rows(file, name, before, notes)
        dataset = Dataset(name, rows, close, count if counted else lambda: None, notes=notes)
    else:
        dataset = Dataset(name, array_rows(file, name) if kind == "array" else object_rows(file, name), close)
        what = "is one JSON array" if kind == "array" else "has JSON objects of several lines"
        remarks.append(f"{name} {what}, and is read so: each {'element' if kind == 'array' else 'object'} is a row")
    dataset.remarks += remarks
    return dataset


def _rows_at(place: str, file: BufferedReader, text: _Text, start: str) -> Iterator[Row]:
    """The rows at this place of a JSON document. Raises DatasetError where there are none."""
    from runner.inputs.datasets.places import likely_places, parse_place  # as above

    rows = document_rows(file, text.name, parse_place(place))
    if rows is None:
        near = list_names(likely_places(_beginning(text, start)))
        there = Setting("rows", place)
        raise DatasetError(Message(f"{text.name} has no array at ", there, f"; arrays of objects are at {near}"))
    return rows


def _beginning(text: _Text, start: str) -> str:
    """More of the text than its start, where it can be read once more as it is."""
    if text.parts is None or len(start) < BUFFER // 2:
        return start
    more = b"".join(islice(text.parts(), _SAMPLE >> 20))
    return more.decode("utf-8", "replace") if more.startswith((b"{", b"[", b" ", b"\n", b"\xef")) else start


def _standard_input(stdin: BinaryIO | None, reading: RowReading) -> Dataset:
    source: Any = stdin or getattr(sys.stdin, "buffer", None)
    if source is None:
        raise DatasetError("- is standard input, which is closed; name a file")
    file = cast(BufferedReader, source if hasattr(source, "peek") else BufferedReader(source))
    file = with_first_line(file)
    start = file.peek(BUFFER)[:BUFFER]
    refuse_foreign(start, "-", "stdin")
    if packed := packing(start):
        file = unpack(file, "stdin", packed)
    dataset = _text_file(_Text(file, "stdin"), ".jsonl", reading, lambda: None)
    if packed:
        dataset.remarks.insert(0, f"stdin {_PACKED[packed]}, and is read so")
    dataset.leave_open()
    return dataset


def _refusal(path: Path, name: str) -> DatasetError:
    from runner.inputs.datasets.formats.conversions import conversion

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


def refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Raise DatasetError for what is no regular file, such as a pipe: it can be read once, and only as it comes."""
    with _failures(Path(path)):
        open_regular(path).close()


def _open(path: Path) -> BufferedReader:
    with _failures(path):
        file = path.open("rb", buffering=0)  # waits for the writer of a pipe, whose rows are then read as they come
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            file.close()
            raise OSError(errno.EINVAL, "it is a device, which may have no end: save what it gives as a file")
        return BufferedReader(file, _BUFFER)


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DatasetError(f"no dataset {printable(whole(str(path)))}{close_name(path) or CHECK}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DatasetError(f"{printable(whole(str(path)))} cannot be opened: {why}") from None
