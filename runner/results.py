"""Results files: what may be written where, checked before a run; then row by row while it goes on."""

from __future__ import annotations

import errno
import importlib.util
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.errors import OutputError
from runner.types import Result
from runner.writers import CsvWriter, JsonlWriter, JsonWriter, ParquetWriter, Row, Writer

_WRITERS: dict[str, type[Writer]] = {
    ".jsonl": JsonlWriter,
    ".json": JsonWriter,
    ".csv": CsvWriter,
    ".parquet": ParquetWriter,
}
SUFFIXES = ", ".join(_WRITERS)


class WriteError(OSError):
    """A results file could not be written any further, as when the disk is full. What was written stays."""


class ResultsFiles:
    """
    Any number of results files. Nothing is touched before `open`, which empties files that exist.

    `inputs` are the files that the run reads, `taken` those that it writes besides. Raises OutputError for a path
    that must or can not be written.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        inputs: Iterable[str] = (),
        taken: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> None:
        inputs = list(inputs)
        for number, path in enumerate(paths):
            _check(path, inputs, [*taken, *paths[:number]])
        self._paths = tuple(paths)
        self._outputs = tuple(outputs) if len(outputs) > 1 else ()
        self._writers: list[tuple[str, Writer]] = []

    def open(self) -> None:
        """Creates the files. Raises OutputError."""
        for path in self._paths:
            try:
                self._writers.append((path, _WRITERS[_suffix(path)](path, self._outputs)))
            except OSError as e:
                self._give_up()
                raise _open_error(path, e) from e

    def add(self, result: Result) -> None:
        """Writes one result to all files. Raises WriteError."""
        if self._writers:
            row = as_row(result)
            for path, writer in self._writers:
                try:
                    writer.add(row)
                except OSError as e:
                    raise _write_error(path, e) from e

    def close(self) -> None:
        """Finishes all files, even when one fails; then raises WriteError for the first. Safe twice."""
        failed: WriteError | None = None
        while self._writers:
            path, writer = self._writers.pop(0)
            try:
                writer.close()
            except OSError as e:
                failed = failed or _write_error(path, e)
        if failed:
            raise failed

    def _give_up(self) -> None:
        with suppress(WriteError):
            self.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None) -> None:
        if kind is None:
            self.close()
        else:
            self._give_up()


def as_row(result: Result) -> Row:
    """A result as it stands in a file: these keys, in this order; `outputs` only where there are several."""
    row: Row = {
        "id": result.id,
        "evaluator": result.evaluator,
        "version": result.version,
        "sandbox": result.sandbox,
        "outcome": result.outcome,
        "label": result.label,
        "score": result.score,
        "explanation": result.explanation,
        "error": {"kind": result.error.kind, "message": result.error.message} if result.error else None,
        "stdout": result.stdout,
        "duration_ms": result.duration_ms,
    }
    if result.outputs:
        row["outputs"] = {
            name: {"label": s.label, "score": s.score, "explanation": s.explanation}
            for name, s in result.outputs.items()
        }
    return row


def _check(path: str, inputs: Sequence[str], earlier: Sequence[str]) -> None:
    suffix = _suffix(path)
    if suffix not in _WRITERS:
        raise OutputError(f"-o {path}: the suffix decides the format; end it with one of: {SUFFIXES}")
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise OutputError(f"-o {path} needs pyarrow; run: pip install 'evalcell[parquet]'")
    folder = Path(path).parent
    if not folder.is_dir():
        raise OutputError(f"-o {path}: there is no directory {folder}; create it first")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise OutputError(f"-o {path} cannot be written (no permission); choose another place")
    if any(same_file(path, other) for other in inputs):
        raise OutputError(f"-o {path} would overwrite what the run reads; choose another name")
    if any(same_file(path, other) for other in earlier):
        raise OutputError(f"-o {path} is given twice; name different files")


def same_file(a: str, b: str) -> bool:
    """Whether both paths are one file, or would be."""
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _open_error(path: str, error: OSError) -> OSError | OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return WriteError(f"{path} cannot be written ({_reason(error)}); make room, or choose another place")
    return OutputError(f"-o {path} cannot be written ({_reason(error)}); choose another place")


def _write_error(path: str, error: OSError) -> WriteError:
    return WriteError(f"{path} could not be written any further ({_reason(error)}); what was written stays")
