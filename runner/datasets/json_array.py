"""A JSON file that is one array, element by element: the same parser, so the same values, as for JSONL."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Any

from runner.datasets.column_values import MAX_ROW, UTF8_STEP, RowError, TooLong, UnreadError, too_deep
from runner.datasets.formats import BLANKS
from runner.datasets.rows import DECODER, Row, check_depth, columns
from runner.datasets.work import ask
from runner.errors import DatasetError

CHUNK = 1 << 16
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
"""How the decoder passes on bytes that are not UTF-8, so that a bad row affects no other."""
_NO_SPACE = re.compile("[^ \t\n\r]")
_NEAR_END = 32
"""An error this close to the end of what was read may only mean that more has to be read."""
_ANY_NUMBER = json.JSONDecoder(parse_constant=str, parse_float=str, parse_int=str)
"""Finds the end of an element whose numbers cannot be used."""


class _Fatal(RowError):
    """After this, nothing more of the file makes sense."""


class _Text:
    """A window on the file, from the current place on."""

    def __init__(self, file: BufferedReader, quick: Callable[[str], Any] | None = None) -> None:
        self._file = file
        self._quick = quick
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
        if self._quick is not None and (end := self.buffer.find("\n", self.at)) >= 0:
            end -= self.buffer[end - 1] == ","
            try:
                value = self._quick(self.buffer[self.at : end])
            except (ValueError, TypeError):  # the latter for bytes that are not UTF-8
                pass  # it goes on below, or is none
            else:
                self.at = end
                return value
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


def array_rows(file: BufferedReader, name: str, quick: Callable[[str], Any] | None = None) -> Iterator[Row]:
    """
    Read the rows of an array. Raises DatasetError at once for a file that is not an array.

    `quick` is another parser, for rows that have a line each, as a run writes them; for what it does not take it
    raises ValueError or TypeError.
    """
    text = _Text(file, quick)
    try:
        first = text.peek()
    except _Fatal as error:
        raise DatasetError(f"{name} holds {error}; it must be an array of rows") from None
    if first != "[":
        what = {"": "is empty", "{": "holds an object"}.get(first, "does not begin with [")
        raise DatasetError(f"{name} {what}; it must be an array of rows. One row a line is named .jsonl")
    text.at += 1
    return _elements(text, name)


def object_rows(file: BufferedReader, name: str) -> Iterator[Row]:
    """Read objects that follow each other, of several lines each, with or without a comma between them."""
    text = _Text(file)
    done = 0
    try:
        while text.peek():
            yield _row(text, name, done)
            done += 1
            text.at += text.peek() == ","
    except _Fatal as error:
        yield f"{name}, row {done + 1}", UnreadError(f"{error}; the rest of the file cannot be read")


def _row(text: _Text, name: str, done: int) -> Row:
    row: dict[str, Any] | RowError
    try:
        row = columns(text.element())
    except _Fatal:
        raise
    except RowError as error:
        row = error
    return f"{name}, row {done + 1}", row


def _elements(text: _Text, name: str) -> Iterator[Row]:
    done = 0
    try:
        while text.peek() != "]" or done:
            yield _row(text, name, done)
            done += 1
            mark = text.peek()
            if mark == "]":
                break
            if mark != ",":
                raise _Fatal(f"not JSON: Expecting ',' or ']' at {text.place(text.at)}")
            text.at += 1
        text.at += 1
        if text.peek():
            raise _Fatal(f"not JSON: more text behind the array at {text.place(text.at)}")
    except _Fatal as error:
        yield f"{name}, row {done + 1}", UnreadError(f"{error}; the rest of the file cannot be read")
