"""Look at parts before the run: how many rows each has, and which ids. Done by workers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from runner.core.text import printable, whole
from runner.inputs.datasets.column_values import RowError
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.encodings import refuse_encoded
from runner.inputs.datasets.formats import json_row, lines
from runner.inputs.datasets.ids import key_of
from runner.inputs.datasets.location import is_url, open_file
from runner.inputs.datasets.parquet import ParquetRows
from runner.inputs.datasets.row_columns import parse_column
from runner.inputs.datasets.rows import own_id
from runner.inputs.datasets.slices import Slice, in_range
from runner.inputs.datasets.streams import as_utf8, beginning
from runner.inputs.evaluators.column import Source, needed_column
from runner.runs.parts.types import Count, CountTask, Look, LookTask

_NUMBERED = re.compile(r"(?:.*#)?[1-9][0-9]*", re.DOTALL)


def looked(task: LookTask) -> Look:
    """What a Parquet or Arrow file says of itself. Raises DatasetError."""
    rows = ParquetRows(task.path, ())
    try:
        name = "id" if task.id is None else needed_column(parse_column("id", task.id))
        ids = name is None or name in rows.header or not rows.header
        return Look(groups=tuple(rows.groups), rows=rows.count, ids=ids)
    finally:
        rows.close()


def counted(task: CountTask) -> Count:
    """Read a part once. Raises DatasetError and OSError."""
    survey = _Survey(None if task.id is None else parse_column("id", task.id))
    if task.slice.end is not None:
        survey.json_lines(task.slice, look=task.reading.encoding is None)
    else:
        for id in own_ids(task):
            survey.add(id)
    return survey.end(task.keys)


def own_ids(task: CountTask) -> Iterator[str | None]:
    """The ids that the rows have of their own, in order; None for a row without."""
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
