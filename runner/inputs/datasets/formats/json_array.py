"""A JSON file that is one array, element by element: the same parser, so the same values, as for JSONL."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import chain, islice
from typing import Any, TypeAlias

from runner.core.errors import DatasetError
from runner.inputs.datasets.formats.column_values import MAX_ROW, UTF8_STEP, RowError, TooLong, UnreadError, too_deep
from runner.inputs.datasets.formats.text_rows import BLANKS
from runner.inputs.datasets.rows import DECODER, Row, check_depth, columns
from runner.inputs.datasets.work import ask

CHUNK = 1 << 16
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
"""How the decoder passes on bytes that are not UTF-8, so that a bad row affects no other."""
_NO_SPACE = re.compile("[^ \t\n\r]")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+', re.DOTALL)
Steps: TypeAlias = Sequence[str | int | None]
"""A place in JSON: names, numbers, and None for all that is there."""
_NEAR_END = 32
"""An error this close to the end of what was read may only mean that more has to be read."""
_ANY_NUMBER = json.JSONDecoder(parse_constant=str, parse_float=str, parse_int=str)
"""Finds the end of an element whose numbers cannot be used."""


class _Fatal(RowError):
    """After this, nothing more of the file makes sense."""


class _Text:
    """A window on the file, from the current place on."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._lines = self._column = 0
        self.buffer = ""
        self.at = 0
        self.ended = False

    def more(self, size: int = CHUNK) -> None:
        """Read on, and forget what lies before the current place."""
        ask()
        self._lines += self.buffer.count("\n", 0, self.at)
        self._column = self._columns(self.at)
        data = self._file.read(size)
        self.ended = not data
        self.buffer = self.buffer[self.at :] + self._decoder.decode(data, final=self.ended)
        self.at = 0

    def peek(self) -> str:
        """The next character that is no space, or nothing at the end. Raises RowError for too many of these."""
        blanks = 0
        while True:
            found = _NO_SPACE.search(self.buffer, self.at)
            blanks += (found.start() if found else len(self.buffer)) - self.at
            if found:
                self.at = found.start()
                return found[0]
            self.at = len(self.buffer)
            if self.ended:
                return ""
            if blanks > BLANKS:
                raise _Fatal(f"more than {BLANKS >> 20} MB of blanks alone at {self.place(self.at)}")
            self.more()

    def element(self) -> Any:
        """The value that begins here. Raises RowError where the rest can still be read."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.buffer, self.at)
            except json.JSONDecodeError as error:
                if not self._incomplete(error):
                    raise _Fatal(f"not JSON: {error.msg} at {self.place(error.pos)}") from None
            except RecursionError:
                raise _Fatal(str(too_deep())) from None
            except ValueError as error:
                self._skip()
                wrong = error if isinstance(error, RowError) else "an integer has more than 4,300 digits"
                raise RowError(str(wrong)) from None
            else:
                # A number that ends the buffer may go on behind it.
                if end < len(self.buffer) or self.ended:
                    text, self.at = self.buffer[self.at : end], end
                    check_depth(value, text)
                    if not text.isascii() and _ESCAPED_BYTE.search(text):
                        raise RowError(f"not UTF-8; {UTF8_STEP}")
                    return value
            self._grow()

    def skip(self) -> None:
        """Pass over the value that begins here, however long it is."""
        depth = 0
        while True:
            mark = self.peek()
            if mark == '"' or (mark and mark not in "[]{},:"):
                while (found := _SCALAR.match(self.buffer, self.at)) is None or (
                    found.end() == len(self.buffer) and not self.ended
                ):
                    if self.ended:
                        raise _Fatal(f"not JSON: a text is left open at {self.place(self.at)}")
                    self._grow()
                self.at = found.end()
            elif mark:
                depth += (mark in "[{") - (mark in "]}")
                self.at += 1
            else:
                raise _Fatal("not JSON: it ends within a value")
            if depth < 0:
                raise _Fatal(f"not JSON: Expecting value at {self.place(self.at - 1)}")
            if not depth and mark not in (",", ":"):
                return

    def _skip(self) -> None:
        while True:
            try:
                _, end = _ANY_NUMBER.raw_decode(self.buffer, self.at)
            except json.JSONDecodeError as error:
                if not self._incomplete(error):
                    raise _Fatal(f"not JSON: {error.msg} at {self.place(error.pos)}") from None
            except RecursionError:
                raise _Fatal(str(too_deep())) from None
            else:
                if end < len(self.buffer) or self.ended:
                    self.at = end
                    return
            self._grow()

    def _incomplete(self, error: json.JSONDecodeError) -> bool:
        near = len(self.buffer) - error.pos <= _NEAR_END
        return not self.ended and (near or error.msg.startswith("Unterminated string"))

    def _grow(self) -> None:
        # Twice as much each time: an element is then read over at most twice as often as it is long.
        size = len(self.buffer) - self.at
        if size > MAX_ROW:
            raise _Fatal(str(TooLong()))
        self.more(max(CHUNK, size))

    def place(self, at: int) -> str:
        line = self._lines + self.buffer.count("\n", 0, at) + 1
        return f"line {line:,}, column {self._columns(at) + 1:,}"

    def _columns(self, at: int) -> int:
        """The distance of `at` from the beginning of its line."""
        start = self.buffer.rfind("\n", 0, at)
        return at - start - 1 if start >= 0 else self._column + at


def array_rows(file: BufferedReader, name: str) -> Iterator[Row]:
    """Read the rows of an array. Raises DatasetError at once for a file that is not an array."""
    text = _Text(file)
    try:
        first = text.peek()
    except _Fatal as error:
        raise DatasetError(f"{name} holds {error}; it must be an array of rows") from None
    if first != "[":
        what = {"": "is empty", "{": "holds an object"}.get(first, "does not begin with [")
        raise DatasetError(f"{name} {what}; it must be an array of rows; one row a line is named .jsonl")
    return _Document(text, name).rows()


def document_rows(file: BufferedReader, name: str, steps: Steps) -> Iterator[Row] | None:
    """Read the rows at a place within one JSON value; None if nothing is there, or what is there is no array."""
    rows = (document := _Document(_Text(file), name, steps)).rows()
    first = list(islice(rows, 1))
    return chain(first, rows) if document.matches or first else None


def object_rows(file: BufferedReader, name: str) -> Iterator[Row]:
    """Read objects that follow each other, of several lines each, with or without a comma between them."""
    document = _Document(_Text(file), name)
    text = document.text
    try:
        while text.peek():
            yield document.row()
            text.at += text.peek() == ","
    except _Fatal as error:
        yield document.end(error)


class _Document:
    """The rows at a place within the one JSON value of a text, all else of which is passed over."""

    def __init__(self, text: _Text, name: str, steps: Steps = ()) -> None:
        self.text = text
        self.matches = 0
        self._name = name
        self._steps = steps
        self._done = 0

    def rows(self) -> Iterator[Row]:
        """Yield the rows. Raises DatasetError for another value behind the array: it may hold more rows."""
        text = self.text
        try:
            yield from self._at(0)
            if (mark := text.peek()) and mark not in "[{,":
                raise _Fatal(f"not JSON: more text behind the array at {text.place(text.at)}")
            if mark:
                raise DatasetError(
                    f"{self._name}: more JSON stands behind the first value, at {text.place(text.at)}; a .json file is "
                    "one value: join them to one, or score each by itself"
                )
        except _Fatal as error:
            yield self.end(error)

    def row(self) -> Row:
        """The value that begins here as a row. Raises _Fatal."""
        row: dict[str, Any] | RowError
        try:
            row = columns(self.text.element())
        except _Fatal:
            raise
        except RowError as error:
            row = error
        self._done += 1
        return f"{self._name}, row {self._done}", row

    def end(self, error: _Fatal) -> Row:
        return f"{self._name}, row {self._done + 1}", UnreadError(f"{error}; the rest of the file cannot be read")

    def _at(self, depth: int) -> Iterator[Row]:
        """The rows within the value that begins here."""
        first, inner = self.text.peek(), depth == len(self._steps)
        if inner and first == "[":
            self.matches += 1
            for _ in self._members("]"):
                yield self.row()
        elif inner and None in self._steps:
            self.matches += 1
            yield self.row()
        elif not inner and first in ("[", "{"):
            step = self._steps[depth]
            for key in self._members("]" if first == "[" else "}"):
                if step is None or step == key:
                    yield from self._at(depth + 1)
                else:
                    self.text.skip()
        else:
            self.text.skip()

    def _members(self, close: str) -> Iterator[str | int]:
        """The names or numbers of what is in an object or array; each value begins here, and is to be passed."""
        text, number = self.text, 0
        text.at += 1
        while (mark := text.peek()) != close or number:
            key: str | int = number
            if close == "}":
                if mark != '"':
                    raise _Fatal(f"not JSON: Expecting a name in double quotes at {text.place(text.at)}")
                key = text.element()
                if text.peek() != ":":
                    raise _Fatal(f"not JSON: Expecting ':' at {text.place(text.at)}")
                text.at += 1
            yield key
            number += 1
            mark = text.peek()
            if mark == close:
                break
            if mark != ",":
                raise _Fatal(f"not JSON: Expecting ',' or '{close}' at {text.place(text.at)}")
            text.at += 1
        text.at += 1
