"""Choose results of a run by its index: which match, and which of them are on the page, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import Any

from runner.datasets.column_values import RowError
from runner.datasets.rows import DECODER
from runner.store.segments import Entry, label_number
from runner.store.types import Selection
from runner.types import Direction

SEARCHED = 1 << 30
"""Bytes that a search reads."""
Numbered = tuple[int, Entry]


def matches(selection: Selection) -> Callable[[Entry], bool]:
    """Whether a result is one of those, by its index alone."""
    label = None if selection.label is None else label_number(selection.label)
    low, high, outcome, error = selection.low, selection.high, selection.outcome, selection.error
    if low is None and high is None and outcome is None and error is None and label is None:
        return lambda entry: True

    def match(entry: Entry) -> bool:
        if low is not None and (entry.score is None or entry.score < low):
            return False
        if high is not None and (entry.score is None or entry.score > high):
            return False
        return (
            (outcome is None or entry.outcome == outcome)
            and (error is None or entry.error == error)
            and (label is None or entry.label == label)
        )

    return match


def place(order: str, direction: Direction) -> Callable[[Numbered], tuple[int, float, int]]:
    """
    The key by which results are sorted, `worst` or `best`.

    The worst are those that failed or were lost, then those that abstained, then scores from the worst on, and last
    those with a label alone. The best are the scores from the best on, then labels, and at the end what has none.
    """
    best = order == "best"
    sign = 0.0 if direction == "none" else (1.0 if direction == "maximize" else -1.0) * (-1.0 if best else 1.0)

    def key(one: Numbered) -> tuple[int, float, int]:
        number, entry = one
        if entry.outcome in ("failed", "lost"):
            return 4 if best else 0, 0.0, number
        if entry.outcome == "abstained":
            return 3 if best else 1, 0.0, number
        if entry.score is None:
            return 2 if best else 3, 0.0, number
        return 1 if best else 2, sign * entry.score, number

    return key


class Chosen:
    """Counts what it passes on, and takes one page of it."""

    def __init__(self, selection: Selection, direction: Direction) -> None:
        self.total = 0
        self._selection = selection
        self._direction: Direction = direction

    def page(self, found: Iterable[Numbered]) -> list[int]:
        """The numbers of the results on the page, in order."""
        first, count, order = self._selection.first, self._selection.count, self._selection.order
        every = self._counted(found)
        if order == "row":
            numbers = [number for number, _ in islice(every, first, first + count)]
            for _ in every:
                pass
            return numbers
        best = nsmallest(first + count, every, key=place(order, self._direction))
        for _ in every:
            pass  # nothing was asked for, and all is to be counted
        return [number for number, _ in best[first:]]

    def _counted(self, found: Iterable[Numbered]) -> Iterator[Numbered]:
        for one in found:
            self.total += 1
            yield one


class Search:
    """Finds a text in results: in what is said of a row, and in the columns that it carries."""

    def __init__(self, text: str, read: Callable[[str, int, int], bytes]) -> None:
        self.complete = True
        """False once more was to be read than may be."""
        self._text = text.casefold()
        self._read = read
        self._left = SEARCHED

    def among(self, found: list[Numbered], digest: str, size: int) -> Iterator[Numbered]:
        """Those of a segment's results that have the text."""
        if not found or not self.complete:
            return
        self._left -= size
        if self._left < 0:
            self.complete = False
            return
        data = self._read(digest, 0, size)
        for number, entry in found:
            end = data.find(b"\n", entry.offset)
            line = data[entry.offset : end if end >= 0 else size]
            if any(self._text in text.casefold() for text in _texts(line)):
                yield number, entry


def _texts(line: bytes) -> Iterator[str]:
    """The texts and numbers of a result, without the names of its fields."""
    try:
        row = DECODER.decode(line.decode())
    except (RowError, ValueError, RecursionError):
        return  # that it is damaged is told where it is shown
    if isinstance(row, dict):
        error = row.get("error")
        said = error.get("message") if isinstance(error, dict) else None
        left: list[Any] = [
            row.get("row"),
            row.get("stdout"),
            said,
            row.get("explanation"),
            row.get("label"),
            row.get("id"),
        ]
        while left:
            value = left.pop()
            if isinstance(value, dict):
                left.extend(reversed(value.values()))
            elif isinstance(value, list):
                left.extend(reversed(value))
            elif isinstance(value, str):
                yield value
            elif value is not None:
                yield json.dumps(value)
