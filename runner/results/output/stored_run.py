"""The results of a run that goes on, given to the engine row by row, after comparing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from runner.core.errors import ResumeError
from runner.core.text import describe
from runner.core.types import Evaluator, Result
from runner.engine.rows import Row
from runner.results.output.result_rows import encode_row
from runner.results.output.stored_rows import RowsPrefix, StoredRow, place, stored_rows
from sandboxes.base import Sandbox

_SHOWN = 60  # characters of a value


class StoredPart(NamedTuple):
    """A file with rows in JSON lines, and how much of it counts."""

    path: Path
    kept: RowsPrefix


class StoredRun:
    """
    The rows of a run that goes on, in one file or several.

    Nothing in them is trusted: each row must be what its case says. `again` is how to start anew, in words.
    """

    def __init__(
        self, parts: Sequence[StoredPart], evaluator: Evaluator, identity: str | None, *, finished: bool, again: str
    ) -> None:
        self.identity = identity
        self.finished = finished
        self.rows = sum(part.kept.rows for part in parts)
        """The results that are there."""
        self._again = again
        self._evaluator = evaluator
        self._found = 0
        self._stored = _every(parts, evaluator)
        self._where = ""
        self._parts = parts

    def find(self, row: Row) -> Result | None:
        """Return the row's result, if it is there. Raises ResumeError if it is another row's, or none at all."""
        if self._found == self.rows or self.identity is None:
            return None
        self._found += 1
        try:
            self._where, stored = next(self._stored)
        except OSError as e:
            raise ResumeError(f"{self._parts[0].path} cannot be read on ({e.strerror}); {self._again}") from None
        except ResumeError as e:
            raise ResumeError(f"{e}; put the line right, or {self._again}") from None
        result = row.result or stored.result(row, self._evaluator, self.identity, cached=stored.cached)
        self._compare(stored, row, result, self.identity)
        if row.result is not None:
            return None
        row.stored = True
        return result

    def check(self, sandbox: Sandbox) -> None:
        """Raise ResumeError unless the sandbox is that of the beginning."""
        if self.identity is not None and sandbox.identity != self.identity:
            raise ResumeError(
                f"the run cannot go on: the sandbox was {self.identity} and is {sandbox.identity}; {self._again}"
            )

    def refuse_more(self) -> None:
        """Do nothing: rows that are not there are run."""

    def learn(self, row: Row) -> None:
        """Do nothing: the files have it."""

    def end(self) -> None:
        """Raise ResumeError if there are more results than rows."""
        if self._found < self.rows:
            try:
                where = next(self._stored)[0]
            except (OSError, ResumeError, StopIteration):
                where = f"{self._parts[-1].path}"
            raise ResumeError(f"{where}: the dataset has no such row; put the file right, or {self._again}")

    def _compare(self, stored: StoredRow, row: Row, result: Result, identity: str) -> None:
        own = dict(stored)
        own["row"] = row.kept or {}
        expected = dict(result) | {"row": own["row"], "sandbox": identity}
        for name in ("id", "repeat", "evaluator", "version", "sandbox", "given", "error"):
            if own[name] != expected[name]:
                raise self._unlike(name, own[name], expected[name])
        mapped = stored.error is not None and stored.error.kind == "mapping"
        if mapped and row.result is None:
            raise self._unlike("outcome", "a row that could not be mapped", "one that can")
        if encode_row(stored.row) != encode_row(own["row"]):
            raise self._unlike("row", stored.row, own["row"])

    def _unlike(self, name: str, stored: object, expected: object) -> ResumeError:
        return ResumeError(
            f"{self._where}: `{name}` is {describe(stored, _SHOWN)}, and should be "
            f"{describe(expected, _SHOWN)}: it is not the row that this run wrote; put the line right, or {self._again}"
        )


def _every(parts: Sequence[StoredPart], evaluator: Evaluator) -> Iterator[tuple[str, StoredRow]]:
    for part in parts:
        for number, (_, row) in enumerate(stored_rows(part.path, part.kept, evaluator), 1):
            yield place(part.path, number), row
