"""
Segments: a run's results in parts that never change, each with an index.

A segment's data are lines of results.jsonl, so that all of them together are that file. Its index has one record of a
fixed size for each, by which results are ordered and filtered without reading them. Imports no database.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import fsum, inf
from time import monotonic
from typing import NamedTuple, get_args

from runner.core.types import ErrorKind, Outcome, Result
from runner.engine.scoring.tally import label_key
from runner.results.output.result_rows import as_row, encode_row
from runner.results.output.row_cells import PLAIN, Layout
from runner.results.store.errors import SegmentError

ROWS = 1000
BYTES = 4 << 20
SECONDS = 1.0
"""A segment is full at the first of these."""
MOST = 256 << 20
"""Bytes of a segment: its last row may be large."""
MOST_ROWS = 100_000
"""Rows of a segment that is taken from another process."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ERRORS: tuple[ErrorKind, ...] = get_args(ErrorKind)
_RECORD = struct.Struct("<IBBxxQd")
WIDTH = _RECORD.size
NO_LABEL = 0
_NO_SCORE = float("nan")


class SegmentEntry(NamedTuple):
    """What the index says of one result."""

    offset: int
    """Where its line begins."""
    outcome: Outcome
    error: ErrorKind | None
    label: int
    """`label_number` of its label."""
    score: float | None


@dataclass(frozen=True)
class Segment:
    """Results that follow each other."""

    first: int
    """The number of the first in the run, from 1."""
    rows: int
    data: bytes
    """A line of JSON each."""
    index: bytes
    counts: Mapping[Outcome, int]


class SegmentBuilder:
    """
    Gathers results, from number `first` of the run on.

    `layout`: what each of them says beside what all do.
    """

    def __init__(self, first: int = 1, layout: Layout = PLAIN) -> None:
        self._first = first
        self._layout = layout
        self._start()

    def _start(self) -> None:
        self._lines: list[bytes] = []
        self._index: list[bytes] = []
        self._size = 0
        self._counts: Counter[Outcome] = Counter()
        self._began = 0.0

    def add(self, result: Result) -> None:
        """Add the next result."""
        if not self._lines:
            self._began = monotonic()
        line = encode_row(as_row(result, self._layout)) + b"\n"
        error = None if result.error is None else result.error.kind
        self._index.append(record(self._size, result.outcome, error, result.label, result.score))
        self._lines.append(line)
        self._size += len(line)
        self._counts[result.outcome] += 1

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def taken(self) -> int:
        """The number of the last result that was taken."""
        return self._first - 1

    @property
    def full(self) -> bool:
        """True if it should be taken: it is large, or its first result waits for a second."""
        many = len(self._lines) >= ROWS or self._size >= BYTES
        return many or (bool(self._lines) and monotonic() - self._began >= SECONDS)

    def take(self) -> Segment:
        """Return what was added since the last time; to be called only if there is some."""
        rows = len(self._lines)
        made = Segment(self._first, rows, b"".join(self._lines), b"".join(self._index), dict(self._counts))
        self._first += rows
        self._start()
        return made


def record(offset: int, outcome: Outcome, error: ErrorKind | None, label: str | None, score: float | None) -> bytes:
    """
    Return what the index has of a result.

    Raises ValueError, OverflowError or struct.error for what no result has.
    """
    kind = 0 if error is None else 1 + ERRORS.index(error)
    return _RECORD.pack(
        offset, OUTCOMES.index(outcome), kind, label_number(label), _NO_SCORE if score is None else score
    )


def label_number(label: str | None) -> int:
    """Return a number for the label, as summaries name it: 0 for none, else 64 bits of its hash."""
    if label is None:
        return NO_LABEL
    digest = blake2b(label_key(label).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def entries(index: bytes) -> Iterator[SegmentEntry]:
    """Yield the records of an index. Raises SegmentError for what is none."""
    try:
        for offset, outcome, error, label, score in _RECORD.iter_unpack(index):
            kind = ERRORS[error - 1] if error else None
            yield SegmentEntry(offset, OUTCOMES[outcome], kind, label, None if score != score else score)
    except (struct.error, IndexError):
        raise SegmentError("the index of a segment cannot be read") from None


def sum_of(scores: Iterable[float]) -> float:
    """Return their sum; infinity where no float holds it."""
    try:
        return fsum(scores)
    except (OverflowError, ValueError):
        return inf


def check(segment: Segment) -> None:
    """Raise SegmentError unless index, counts and lines agree. A worker's word is not taken for it."""
    data, rows = segment.data, segment.rows
    if not 0 < len(data) <= MOST or not 0 < rows <= MOST_ROWS or segment.first < 1:
        raise SegmentError(f"a segment has {rows} rows in {len(data)} bytes")
    if len(segment.index) != rows * WIDTH or not data.endswith(b"\n") or data.count(b"\n") != rows:
        raise SegmentError("the index of a segment does not fit its rows")
    found, counts = 0, Counter[Outcome]()
    for number, entry in enumerate(entries(segment.index)):
        if (number == 0) != (entry.offset == 0) or (number and data[entry.offset - 1 : entry.offset] != b"\n"):
            raise SegmentError("the index of a segment does not fit its rows")
        if number and entry.offset <= found:
            raise SegmentError("the index of a segment does not fit its rows")
        found = entry.offset
        counts[entry.outcome] += 1
    if counts != Counter(segment.counts):
        raise SegmentError("the counts of a segment do not fit its rows")
