"""The results that `aggregate` is given, kept in a file until all rows are done."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Self

from runner.core.errors import InputError
from runner.core.text import printable, rows_of
from runner.core.types import ErrorKind, Evaluator, Result, ResultError
from runner.engine.scoring.figures import Figures
from sandboxes.base import MB, Call
from sandboxes.json_text import JsonText, writer
from sandboxes.words.wording import Setting

SHARE = 16
"""A call may be given JSON of a sixteenth of its memory: read, it takes about eight times as much."""
MOST = 128 * MB
"""Bytes of JSON, whatever the memory: the host reads them too, to hand them over."""

_IN_MEMORY = MB
_encoded = writer(ascii=True, compact=True, nan=True)


class GatherError(InputError):
    """The rows cannot be handed over; `figures` says why."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.figures = Figures(aggregate_error=ResultError(kind=kind, message=message))


class AggregateRows:
    """
    The rows that were scored or abstained, in the dataset's order, as JSON in a temporary file.

    Of each: id, outcome, label, score, and its arguments but those that are `constant`, the same for all rows. Memory
    does not grow with the number of rows; beyond what `memory`, a call's limit, allows, nothing is kept but the count.
    Leaving it deletes the file.
    """

    def __init__(self, evaluator: Evaluator, constant: Container[str], memory: int) -> None:
        self._names = [p.name for p in evaluator.parameters if p.positional_only]
        self._constant = constant
        self._memory = memory
        self.most = min(memory // SHARE, MOST)
        """Bytes that are kept."""
        self.rows = 0
        self._size = 0
        self._arguments: dict[int, str] = {}  # the same for all repeats of a row
        self._failure: str | None = None
        from tempfile import SpooledTemporaryFile  # here: few evaluators have an `aggregate`

        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  (closed by `__exit__`)

    def watch(self, result: Result, call: Call) -> int:
        """Hold what was given to a row, until `add`; return its characters."""
        if result.outcome in ("failed", "lost"):
            return 0
        given = dict(zip(self._names, call.positional, strict=False)) | call.arguments
        try:
            text = _encoded({name: value for name, value in given.items() if name not in self._constant})
        except RecursionError:
            self._failure = f"the arguments of row {printable(result.id, 60)} are nested too deeply"
            return 0
        self._arguments[result.number] = text
        return len(text)

    def add(self, result: Result) -> None:
        """Add one row: the average, if it was scored several times."""
        arguments = self._arguments.pop(result.number, None)
        if result.outcome in ("failed", "lost"):
            return
        if arguments is None:
            self._failure = self._failure or f"what row {printable(result.id, 60)} was given is not known any more"
            arguments = "null"
        about: dict[str, Any] = {
            "id": result.id,
            "outcome": result.outcome,
            "label": result.label,
            "score": result.score,
        }
        if result.outputs:
            about["outputs"] = {name: {"label": s.label, "score": s.score} for name, s in result.outputs.items()}
        row = f'{_encoded(about)[:-1]},"arguments":{arguments}}}'.encode()
        self._write((b"," if self.rows else b"[") + row)
        self.rows += 1

    def _write(self, data: bytes) -> None:
        self._size += len(data)
        try:
            if self._size >= self.most:
                self._file.close()
            elif self._failure is None:
                self._file.write(data)
        except OSError as e:
            self._failure = _unkept(e)

    def read(self) -> JsonText:
        """Return all rows, as a JSON array. Raises GatherError if there are too many, or if they could not be kept."""
        if self._size >= self.most:
            raise GatherError("memory", self._too_much())
        self._write(b"]" if self.rows else b"[]")
        if self._failure is None:
            try:
                self._file.seek(0)
                return JsonText(self._file.read(), "ascii")
            except OSError as e:
                self._failure = _unkept(e)
        raise GatherError("lost", self._failure)

    def _too_much(self) -> str:
        size = f"{rows_of(self.rows)} are {self._size / MB:,.1f} MB of JSON"
        if self._size >= MOST:
            return f"{size}, and aggregate can be given at most {MOST // MB} MB; aggregate a part of the rows"
        needed = -(-(self._size + 1) * SHARE // MB)
        return (
            f"{size}, and aggregate can be given {self.most / MB:,.1f} MB, a sixteenth of a call's memory; raise "
            f"{Setting('limits.memory')} to {needed} MB, or aggregate a part of the rows"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _unkept(error: OSError) -> str:
    return (
        f"the rows for aggregate could not be kept ({error.strerror}); free room for temporary files, and run it again"
    )
