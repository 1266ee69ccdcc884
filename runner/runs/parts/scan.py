"""Look at parts before the run: how many rows each has, and which ids. Done by workers."""

from __future__ import annotations

import itertools
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path

from runner.core.text import printable, whole
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.formats.encodings import refuse_encoded
from runner.inputs.datasets.formats.parquet import ParquetRows
from runner.inputs.datasets.formats.streams import as_utf8, beginning
from runner.inputs.datasets.formats.text_rows import json_row, lines
from runner.inputs.datasets.ids import KEY, Ids, key_of
from runner.inputs.datasets.location import is_url, open_file
from runner.inputs.datasets.row_columns import parse_column
from runner.inputs.datasets.rows import own_id
from runner.inputs.datasets.slices import Slice, in_range
from runner.inputs.evaluators.column import Source, needed_column
from runner.runs.parts.types import Count, CountTask, Look, LookTask

_NUMBERED = re.compile(r"(?:.*#)?[1-9][0-9]*", re.DOTALL)


def look_at_file(task: LookTask) -> Look:
    """Return what a Parquet or Arrow file says of itself. Raises DatasetError."""
    rows = ParquetRows(task.path, ())
    try:
        name = "id" if task.id is None else needed_column(parse_column("id", task.id))
        ids = name is None or name in rows.header or not rows.header
        return Look(groups=tuple(rows.groups), rows=rows.count, ids=ids)
    finally:
        rows.close()


def count_part(task: CountTask) -> Count:
    """Read a part once. Raises DatasetError and OSError."""
    survey = _Survey(None if task.id is None else parse_column("id", task.id))
    if task.slice.end is not None:
        survey.json_lines(task.slice, look=task.reading.encoding is None)
    else:
        for id in own_ids(task):
            survey.add(id)
    return survey.end(task.keys)


def own_ids(task: CountTask) -> Iterator[str | None]:
    """Yield the ids that the rows have of their own, in order; None for a row without."""
    source = None if task.id is None else parse_column("id", task.id)
    columns = source.columns if source else frozenset({"id"})
    with open_dataset(task.slice.path, columns=columns, reading=task.reading, part=task.slice) as dataset:
        for _, row in dataset.rows:
            yield own_id(row, source)


class _Survey:
    def __init__(self, source: Source | None) -> None:
        self.source = source
        self._rows = self._lines = self._ids = 0
        self._numbered = False
        self._keys: set[bytes] = set()

    def add(self, id: str | None) -> None:
        self._rows += 1
        if id is not None:
            self._ids += 1
            self._keys.add(key_of(id))
            self._numbered = self._numbered or _NUMBERED.fullmatch(id) is not None

    def json_lines(self, part: Slice, *, look: bool) -> None:
        """`look`: at its encoding. Raises DatasetError."""
        name = printable(whole(os.path.basename(part.path)))
        with open_file(part.path) as raw:
            file = in_range(raw, part.start, part.end or 0)
            if not part.start:
                if look:
                    refuse_encoded([raw.peek()] if is_url(part.path) else beginning(part.path), name)
                file, _ = as_utf8(file, name, "utf-8")
            for line in lines(file):
                self._lines += 1
                if line is None:
                    self.add(None)
                elif line.strip():
                    self.add(self._own(line))

    def _own(self, line: bytes) -> str | None:
        if self.source is None and b'"id"' not in line and b"\\" not in line:
            return None  # no escape can hide the name either
        try:
            return own_id(json_row(line), self.source)
        except RowError:
            return None

    def end(self, keys: str) -> Count:
        if self._keys:
            Path(keys).write_bytes(b"".join(sorted(self._keys)))
        return Count(
            rows=self._rows,
            lines=self._lines,
            ids=self._ids,
            repeated=len(self._keys) < self._ids,
            numbered=self._numbered,
        )


_AT_ONCE = 1 << 20
"""Keys in memory."""


def find_taken(
    keys: Sequence[Path], paths: Sequence[Path], counts: Sequence[Count], own: Callable[[int], Iterator[str | None]]
) -> list[bool]:
    """
    Write for each part the keys of its ids that an earlier part has; return which parts have any.

    `own` reads the ids of a part again, if that has to be done row by row: where ids look as if we had renamed them.
    """
    with_ids = [place for place, count in enumerate(counts) if count.ids]
    unclear = any(count.numbered for count in counts)
    if unclear and any(count.ids < count.rows for count in counts):
        return _row_by_row(paths, counts, own)
    found = _common(keys, paths, with_ids, sum(counts[place].ids for place in with_ids))
    if unclear and (any(found) or any(count.repeated for count in counts)):
        return _row_by_row(paths, counts, own)
    return found


def _common(keys: Sequence[Path], taken: Sequence[Path], parts: Sequence[int], ids: int) -> list[bool]:
    """Range by range of the keys, which are sorted, so that memory is bounded."""
    found = [False] * len(keys)
    for path in taken:
        path.unlink(missing_ok=True)
    ranges = max(1, -(-ids // _AT_ONCE))
    edges = [(number << 64) // ranges for number in range(ranges + 1)]
    for low, high in itertools.pairwise(edges):
        seen: set[bytes] = set()
        for place in parts:
            some = set(_between(keys[place], low, high))
            if common := some & seen:
                found[place] = True
                with taken[place].open("ab") as file:
                    file.write(b"".join(sorted(common)))
            seen |= some
    return found


def _between(path: Path, low: int, high: int) -> list[bytes]:
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        count = len(data) // KEY
        places = range(count)

        def begins(place: int) -> int:
            return int.from_bytes(data[place * KEY : place * KEY + 8], "big")

        start, end = (bisect_left(places, edge, key=begins) for edge in (low, high))
        block = data[start * KEY : end * KEY]
    return [block[at : at + KEY] for at in range(0, len(block), KEY)]


class _Recorded(Ids):
    """The ids of all rows, which remembers those that a part met of earlier parts."""

    def __init__(self) -> None:
        super().__init__()
        self.add_taken(())
        self._own: set[bytes] = set()
        self.met: set[bytes] = set()

    def begin_part(self) -> None:
        self._own, self.met = set(), set()

    def _add(self, key: bytes) -> bool:
        if super()._add(key):
            self._own.add(key)
            return True
        if key not in self._own:
            self.met.add(key)
        return False


def _row_by_row(
    taken: Sequence[Path], counts: Sequence[Count], own: Callable[[int], Iterator[str | None]]
) -> list[bool]:
    ids, number, found = _Recorded(), 0, []
    try:
        for place in range(len(counts)):
            ids.begin_part()
            for id in own(place):
                number += 1
                ids.take(str(number) if id is None else id, number)
            taken[place].unlink(missing_ok=True)
            if ids.met:
                taken[place].write_bytes(b"".join(sorted(ids.met)))
            found.append(bool(ids.met))
    finally:
        ids.close()
    return found
