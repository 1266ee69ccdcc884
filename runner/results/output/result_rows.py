"""A result as a row of a results file: as a dict for tables, as its line of JSON."""

from __future__ import annotations

import re
from _json import encode_basestring as _text
from collections.abc import Mapping
from math import isfinite
from typing import Any

from runner.core.types import Result, ResultError, Score
from runner.results.output.row_cells import CACHED, DIRECTION, REPEAT, Layout
from sandboxes.json_text import writer

Row = dict[str, Any]

_write = writer(ascii=False, compact=False, nan=False)
# JSON allows these as they are, but some readers take them for the end of a line, and some terminals obey them.
_LINE_OR_CONTROL = re.compile("[\x80-\x9f\u2028\u2029]")


def as_row(result: Result, layout: Layout) -> Row:
    """
    A result as a row of a file: these keys, in this order; `outputs` only if there are several, `row` if kept.

    `repeat`, `cached` and `direction` are there if the layout has them.
    """
    row: Row = {
        "id": result.id,
        **({REPEAT: result.repeat} if layout.repeats else {}),
        **({CACHED: result.cached} if layout.cached else {}),
        "evaluator": result.evaluator,
        "version": result.version,
        "sandbox": result.sandbox,
        **({DIRECTION: layout.direction} if layout.direction else {}),
        "given": result.given,
        "outcome": result.outcome,
        "label": result.label,
        "score": result.score,
        "explanation": result.explanation,
        "error": _error(result.error),
        "stdout": result.stdout,
        "duration_ms": result.duration_ms,
    }
    if result.outputs:
        row["outputs"] = _outputs(result.outputs)
    if result.row:
        row["row"] = result.row
    return row


class ResultLines:
    """
    Writes results as `encoded(as_row(…))` does, in a third of the time.

    What all rows of a run share is written once.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._about = "", "", ""
        self._shared = ""

    def encoded(self, result: Result) -> bytes:
        """The row as it stands in a results file."""
        about = result.evaluator, result.version, result.sandbox
        if about != self._about or not self._shared:
            names = ("evaluator", "version", "sandbox")
            shared: dict[str, Any] = dict(zip(names, about, strict=True))
            shared |= {DIRECTION: self._layout.direction} if self._layout.direction else {}
            self._about, self._shared = about, _write(shared)[1:-1]
        layout, label, score, why = self._layout, result.label, result.score, result.explanation
        repeat = f', "{REPEAT}": {result.repeat}' if layout.repeats else ""
        cached = f', "{CACHED}": {_write(result.cached)}' if layout.cached else ""
        error = "null" if result.error is None else _write(_error(result.error))
        outputs = f', "outputs": {_write(_outputs(result.outputs))}' if result.outputs else ""
        row = f', "row": {_write(result.row)}' if result.row else ""
        text = (
            f'{{"id": {_text(result.id)}{repeat}{cached}, {self._shared}, '
            f'"given": {"null" if result.given is None else _text(result.given)}, '
            f'"outcome": "{result.outcome}", "label": {"null" if label is None else _text(label)}, '
            f'"score": {"null" if score is None else _number(score)}, '
            f'"explanation": {"null" if why is None else _text(why)}, "error": {error}, '
            f'"stdout": {_text(result.stdout)}, "duration_ms": {_number(result.duration_ms)}{outputs}{row}}}'
        )
        return text.encode() if text.isascii() else _line(text)


def encode_row(row: Row) -> bytes:
    """The row as it stands in a results file."""
    return _line(_write(row))


def _line(text: str) -> bytes:
    if not text.isascii():
        text = _LINE_OR_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode("utf-8", "replace")


def _number(value: float) -> str:
    if type(value) is float and isfinite(value):
        return repr(value)
    return _write(value)


def _error(error: ResultError | None) -> Mapping[str, Any] | None:
    return None if error is None else {"kind": error.kind, "message": error.message}


def _outputs(outputs: Mapping[str, Score]) -> Mapping[str, Any]:
    return {
        name: {"label": score.label, "score": score.score, "explanation": score.explanation}
        for name, score in outputs.items()
    }
