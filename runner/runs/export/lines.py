"""Rows as they come, one a line, and the result of each as soon as it is there: for tools that are not Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore, Lock
from typing import Any, BinaryIO

from runner.core.errors import ColumnsError, EvaluatorError, InputError
from runner.core.text import json_text, printable
from runner.runs.export.scorer import RowScorer
from sandboxes.errors import SandboxError, UnsupportedConfigError

MOST = 64 << 20
"""Bytes of a row."""
AT_ONCE = 32
"""Rows that are scored at once; further ones are not read yet."""


def score_lines(scorer: RowScorer, rows: BinaryIO, say: Callable[[str], None]) -> set[str]:
    """
    Read rows up to the end of the stream; return the outcomes that there were.

    `say` gets the result of each as JSON, in any order, with the row's `id`. What is no row, lacks a column, or was
    lost is told in its line as well, and so is any error. Raises what `say` does, and InputError for a line that is too
    long.
    """
    lock, room = Lock(), BoundedSemaphore(AT_ONCE)
    unsaid: list[BaseException] = []
    outcomes: set[str] = set()

    def work(number: int, line: bytes) -> None:
        try:
            found = _scored(scorer, number, line)
            told = json_text(found)
            with lock:
                outcomes.add(found["outcome"])
                say(told)
        except BaseException as error:  # of a thread, where nobody sees it
            unsaid.append(error)
        finally:
            room.release()

    number = 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while not unsaid and (line := rows.readline(MOST + 1)):
            if len(line) > MOST:
                raise InputError(f"line {number + 1} of the rows has more than {MOST >> 20} MB; cut its texts")
            if line.strip():
                number += 1
                room.acquire()
                threads.submit(work, number, line)
    if unsaid:
        raise unsaid[0]
    return outcomes


def _scored(scorer: RowScorer, number: int, line: bytes) -> dict[str, Any]:
    own = str(number)
    try:
        row = json.loads(line)
        own = str(row.get("id", number)) if isinstance(row, dict) else own
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return _failure(own, "failed", "mapping", "the line is no JSON object")
    try:
        result = scorer.result(row)
        passed = scorer.passed(result) if result.outcome == "scored" else None
    except ColumnsError as error:
        options = " ".join(f"--map {name}={path}" for name, path in error.paths.items())
        return _failure(own, "failed", "mapping", f"{error.why}; add {options}" if options else error.why)
    except EvaluatorError as error:
        return _failure(own, "failed", "invalid_result", str(error))
    except (SandboxError, InputError, UnsupportedConfigError) as error:
        return _failure(own, "lost", "lost", str(error))
    except BaseException as error:  # whoever sent the row waits for its line
        return _failure(own, "lost", "lost", f"{type(error).__name__}: {error}")
    told = result.model_dump(mode="json", include={"outcome", "label", "score", "explanation", "outputs", "error"})
    return {"id": own, **told, "passed": passed}


def _failure(own: str, outcome: str, kind: str, message: str) -> dict[str, Any]:
    error = {"kind": kind, "message": printable(message, 1000)}
    nothing = dict.fromkeys(("label", "score", "explanation", "passed"))
    return {"id": own, "outcome": outcome, **nothing, "outputs": {}, "error": error}
