"""JSONL and CSV files as rows, one at a time."""

from __future__ import annotations

import csv
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from runner.core.errors import DatasetError
from runner.core.text import describe
from runner.inputs.datasets import work
from runner.inputs.datasets.formats.column_values import (
    MAX_ROW,
    UNDECODED_BYTE,
    UTF8_STEP,
    RowError,
    TooLong,
    UnreadError,
)
from runner.inputs.datasets.formats.delimiter import WORDS, sniff
from runner.inputs.datasets.formats.streams import BUFFER, MARK
from runner.inputs.datasets.notes import RowNotes
from runner.inputs.datasets.rows import Row, columns, parse_json

COUNTED_BYTES = 64 << 20
"""Bytes of a JSONL file up to which its rows are counted beforehand; that takes about 0.1 s."""

BLANKS = 1 << 20
"""Bytes of blanks between two rows; with more the rest of the file is not read."""

_TOLD = re.compile(rb"sep=([,;\t|])\r?\n")
"""The first line of some files, which names the delimiter."""


def lines(file: BufferedReader) -> Iterator[bytes | None]:
    """Yield the lines of a file, None for one that is too long. Holds no more than a line may have."""
    may_end = work.may_end()
    while line := file.readline(MAX_ROW + 1):
        if may_end:
            work.ask()
        if len(line) > MAX_ROW:
            while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
                pass
            yield None
        else:
            yield line


def skip_blanks(file: BufferedReader) -> tuple[int, int]:
    """Pass over the blank lines that are in the buffer; how many they were, and their bytes."""
    held = file.peek()
    size = held.rfind(b"\n", 0, len(held) - len(held.lstrip())) + 1
    file.read(size)
    return held.count(b"\n", 0, size), size


def refuse_blanks(size: int) -> None:
    """Raise UnreadError for more blanks in one place than anybody writes."""
    if size > BLANKS:
        raise UnreadError(f"more than {BLANKS >> 20} MB without a row, blanks alone; the rest is not read")


def numbered_lines(file: BufferedReader, before: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield what `lines` does, with numbers and without blank lines. Raises UnreadError for too many of these."""
    number, blanks = before, 0
    for line in lines(file):
        number += 1
        if line is None or line.strip():
            blanks = 0
            yield number, line
            continue
        count, size = skip_blanks(file) if blanks else (0, 0)  # to look costs more than one line
        number += count
        blanks += len(line) + size
        refuse_blanks(blanks)


def jsonl_rows(file: BufferedReader, name: str, before: int = 0, notes: RowNotes | None = None) -> Iterator[Row]:
    """Yield the rows; blank lines are none. `before` are the lines of the file that come before."""
    number = before
    try:
        for number, line in numbered_lines(file, before):
            where = f"{name}:{number}"
            try:
                if line is None:
                    raise TooLong()
                if line[0] == 0xEF and line.startswith(MARK) and notes is not None:
                    notes.marks += 1
                yield where, json_row(line)
            except RowError as error:
                yield where, error
    except UnreadError as error:
        yield f"{name}:{number + 1}", error


def json_row(line: bytes) -> dict[str, Any]:
    """Return the row of a line of JSON. Raises RowError."""
    return columns(parse_json(decode_utf8(line.removeprefix(MARK).rstrip(b"\r\n"))))


def decode_utf8(data: bytes) -> str:
    """Decode UTF-8. Raises RowError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if data[error.start] == UNDECODED_BYTE:  # never in UTF-8: the encoding may be another one
            raise RowError(f"it has bytes that are no text in the file's encoding; {UTF8_STEP}") from None
        raise RowError(f"not UTF-8 at byte {error.start + 1}; {UTF8_STEP}") from None


class _CsvLines:
    """Lines for the csv module; what is wrong with one is told once its row is complete."""

    def __init__(self, file: BufferedReader) -> None:
        self._lines = lines(file)
        self._file = file
        self.number = 0
        self.size = 0
        self.blanks = 0
        self.ended = False
        self.error: RowError | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        self.number += 1
        self.size += MAX_ROW + 1 if line is None else len(line)
        if line is None or self.size > MAX_ROW:
            raise TooLong("; is a quote left open?")
        try:
            return decode_utf8(line)
        except RowError as error:
            self.error = error
            return line.decode(errors="replace")

    def begin_row(self) -> None:
        self.size, self.error = 0, None

    def skip_blanks(self, cells: list[str]) -> None:
        """Pass over blank lines, after a blank row with these cells. Raises UnreadError for too many."""
        count, size = skip_blanks(self._file) if self.blanks and not cells else (0, 0)
        self.number += count
        self.blanks += self.size + size
        self.begin_row()
        refuse_blanks(self.blanks)


def _csv_words(error: csv.Error) -> str:
    """What is wrong, and the step, in place of the words of Python's parser."""
    said = str(error)
    if said.startswith("new-line character"):
        return (
            "a carriage return outside of quotes, where other lines end in line feeds; make all ends alike: "
            "tr '\\r' '\\n' < FILE > alike.csv"
        )
    if "expected after" in said:
        return """text behind a closing quote; within quotes a quote is written twice, as "" and not as \\\""""
    return "a quote is left open" if said == "unexpected end of data" else f"{said}; is a quote left open?"


class Csv(NamedTuple):
    """A CSV file whose header was read."""

    header: list[str]
    delimiter: str
    rows: Iterator[Row]


def csv_rows(
    file: BufferedReader,
    name: str,
    delimiter: str | None,
    *,
    empty: str | None,
    at: Collection[int] | None = None,
    notes: RowNotes | None = None,
) -> Csv:
    """
    Read the header, and open the rows.

    Args:
        file: Bytes of a CSV file.
        name: What messages call it.
        delimiter: None: it is found out.
        empty: The value of an empty cell.
        at: Read the rows at these places alone, from 0.
        notes: Gets what to know of the rows.

    Raises:
        DatasetError: The header cannot be used.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))
    text = _CsvLines(file)
    if told := _TOLD.match(file.peek(8)[:8]):  # as Excel writes it
        delimiter = told[1].decode()
        next(text)
    delimiter = delimiter or sniff(file.peek(BUFFER)[:BUFFER])
    reader = csv.reader(text, strict=True, delimiter=delimiter)
    try:
        while (first := next(reader, None)) is not None and not "".join(first).strip():
            text.skip_blanks(first)
        text.blanks = 0
        if text.error:
            raise text.error
    except (csv.Error, RowError) as error:
        why = error if isinstance(error, RowError) else _csv_words(error)
        raise DatasetError(f"{name}:{text.number}: the header cannot be read: {why}") from None
    header = _header(first, name)
    rows = _csv_body(reader, text, header, name, delimiter, empty, at, notes or RowNotes())
    return Csv([column for column in header if column], delimiter, rows)


def _header(cells: list[str] | None, name: str) -> list[str]:
    """The names of all columns; of one without a name, such as the index that pandas writes, empty text."""
    if cells is None:
        raise DatasetError(f"{name} has no header; its first line must name the columns: id,input,output,reference")
    header = [cell.strip() for cell in cells]
    seen: set[str] = set()
    for column in filter(None, header):
        if column in seen:
            raise DatasetError(f"{name}: two columns are named {describe(column, 60)}; rename one")
        seen.add(column)
    return header


def _csv_body(
    reader: Iterator[list[str]],
    text: _CsvLines,
    header: list[str],
    name: str,
    delimiter: str,
    empty: str | None,
    at: Collection[int] | None,
    notes: RowNotes,
) -> Iterator[Row]:
    named = [(place, column) for place, column in enumerate(header) if column]
    unnamed = [place for place, column in enumerate(header) if not column]
    # A spreadsheet may write fewer cells of empty columns at the end than the header has.
    least = named[-1][0] + 1
    row = -1
    while True:
        text.begin_row()
        number = text.number + 1
        try:
            cells = next(reader, None)
            if cells is None:
                return
            if text.error:
                raise text.error
            if cells and _is_header(cells, header, f"{name}:{number}", notes):
                continue
            if not least <= len(cells) <= len(header):
                if not "".join(cells).strip():
                    text.skip_blanks(cells)
                    continue
                raise _other_width(cells, header, delimiter)
            for place in unnamed:
                filled = place < len(cells) and cells[place] != ""
                notes.unnamed[place + 1] = notes.unnamed.get(place + 1, False) or filled
            row += 1
            text.blanks = 0
            notes.bare += not any(cells)
            if at is not None and row not in at:
                continue
            values = cells if empty is not None else [cell or None for cell in cells]
            if unnamed:
                yield f"{name}:{number}", {column: values[place] for place, column in named}
            else:
                yield f"{name}:{number}", dict(zip(header, values, strict=True))
        except RowError as error:
            yield f"{name}:{number}", error
            if isinstance(error, UnreadError):
                return
        except csv.Error as error:
            kind = UnreadError if text.ended else RowError
            yield f"{name}:{number}", kind(f"not CSV: {_csv_words(error)}")


def _other_width(cells: list[str], header: list[str], delimiter: str) -> RowError:
    more = ""
    if len(cells) == len(header) + 1:
        where = "before" if cells[-1] else "behind"
        more = f", or, if all rows have one more, put {delimiter!r} {where} the header"
    return RowError(
        f"{len(cells)} fields where the header names {len(header)}; quote texts with {WORDS[delimiter]}{more}"
    )


def _is_header(cells: list[str], header: list[str], where: str, notes: RowNotes) -> bool:
    """
    Whether they are the header once more, as where files were joined. A mark before them is taken away.

    Raises DatasetError for its columns in another order.
    """
    if cells[0].startswith("\ufeff"):
        notes.marks += 1
        cells[0] = cells[0][1:]
    if cells[0].strip() not in header:
        return False  # as of most rows
    names = [cell.strip() for cell in cells]
    if names == header:
        notes.headers += 1
        return True
    if sum(map(bool, header)) > 1 and sorted(names) == sorted(header):
        raise DatasetError(
            f"{where} is the header with its columns in another order, as where files were joined: rows behind it "
            "would stand in wrong columns; score each file by itself, or join them in one order"
        )
    return False


def lines_with_rows(path: Path) -> int | None:
    """Count the rows of a JSONL file; None if it is no file of this machine, or a long one."""
    with suppress(OSError, UnreadError):
        about = path.stat()
        # To open a pipe once more would wait for another writer.
        if not stat.S_ISREG(about.st_mode) or about.st_size > COUNTED_BYTES:
            return None
        with path.open("rb") as file:
            return sum(1 for _ in numbered_lines(file))
    return None
