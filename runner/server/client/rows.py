"""Rows and files on their way to a server: few in memory, many in a temporary file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Self, Unpack

from runner.core.errors import DatasetError
from runner.core.settings import FileOptions
from runner.engine.request import Rows
from runner.inputs.datasets.dataset import open_dataset, refuse_irregular
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.frames import FrameRows, frame_rows
from runner.inputs.datasets.not_rows import refuse_what_has_no_rows
from runner.inputs.datasets.rows import RowReading, as_json

_FEW_BYTES = 4 << 20
"""Characters of rows that are sent in one request."""


class RowSpool:
    """Rows as JSON; a context that deletes their file. `few` are all of them, if they are few and small."""

    def __init__(self, few: list[dict[str, Any]] | None, path: Path | None) -> None:
        self.few = few
        self._path = path

    def file(self) -> Path:
        """Return a file of all rows in JSON lines. Raises DatasetError."""
        if self._path is None:
            self._path = _written(json.dumps(row, ensure_ascii=False) for row in self.few or ())
        return self._path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def spool_rows(rows: Rows, few: int) -> RowSpool:
    """Read rows, at most `few` of them into memory. Raises DatasetError for what has no rows, or a row that is none."""
    frame = frame_rows(rows)
    if frame is None:
        refuse_what_has_no_rows(rows)
    every = _as_json(frame or rows)
    held: list[dict[str, Any]] = []
    size = 0
    for row in every:
        held.append(row)
        size += len(json.dumps(row, ensure_ascii=False))
        if len(held) > few or size > _FEW_BYTES:
            first = held
            return RowSpool(
                None, _written(json.dumps(one, ensure_ascii=False) for part in (first, every) for one in part)
            )
    return RowSpool(held, None)


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def refuse_unreadable(file: Path, **reading: Unpack[FileOptions]) -> None:
    """Raise DatasetError for a file that cannot be read, or is of no known format."""
    refuse_irregular(file)
    with open_dataset(os.fspath(file), reading=RowReading(**reading)):
        pass


def _as_json(rows: Rows | FrameRows) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows, 1):
        try:
            yield as_json(row)
        except RowError as error:
            raise DatasetError(f"row {number}: {error}; mend it, or leave it out") from None


def _written(lines: Iterator[str]) -> Path:
    descriptor, name = mkstemp(prefix="evalcell-rows-", suffix=".jsonl")
    path = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DatasetError(
                f"the rows cannot be written to {path.parent} ({error.strerror}); free some room"
            ) from None
        raise
    return path
