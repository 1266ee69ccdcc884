"""Rows as they come, one a line, and the result of each as soon as it is there: for tools that are not Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore, Lock
from typing import Any, BinaryIO

from runner.errors import ColumnsError, EvaluatorError, InputError
from runner.export.scorer import RowScorer
from runner.text import printable
from sandboxes.errors import SandboxError

MOST = 64 << 20
"""Bytes of a row."""
AT_ONCE = 32
"""Rows that are scored at once; further ones are not read yet."""


def score_lines(scorer: RowScorer, rows: BinaryIO, say: Callable[[str], None]) -> None:
    """
    Read rows up to the end of the stream. `say` gets the result of each as JSON, in any order, with the row's `id`.

    What is no row, lacks a column, or was lost is told in its line as well.
    """
    lock, room = Lock(), BoundedSemaphore(AT_ONCE)

    def work(number: int, line: bytes) -> None:
        try:
            told = json.dumps(_scored(scorer, number, line))
            with lock:
                say(told)
        finally:
            room.release()

    number = 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while line := rows.readline(MOST + 1):
            if len(line) > MOST:
                raise InputError(f"line {number + 1} of the rows has more than {MOST >> 20} MB; cut its texts")
            if line.strip():
                number += 1
                room.acquire()
                threads.submit(work, number, line)


def _scored(scorer: RowScorer, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return _failure(str(number), "failed", "mapping", "the line is no JSON object")
    own = str(row.get("id", number))
    try:
        result = scorer.result(row)
        passed = scorer.passed(result) if result.outcome == "scored" else None
    except ColumnsError as error:
        options = " ".join(f"--map {name}={path}" for name, path in error.paths.items())
        return _failure(own, "failed", "mapping", f"{error.why}; add {options}" if options else error.why)
    except EvaluatorError as error:
        return _failure(own, "failed", "invalid_result", str(error))
    except SandboxError as error:
        return _failure(own, "lost", "lost", str(error))
    told = result.model_dump(mode="json", include={"outcome", "label", "score", "explanation", "outputs", "error"})
    return {"id": own, **told, "passed": passed}


def _failure(own: str, outcome: str, kind: str, message: str) -> dict[str, Any]:
    return {"id": own, "outcome": outcome, "error": {"kind": kind, "message": printable(message, 1000)}}
