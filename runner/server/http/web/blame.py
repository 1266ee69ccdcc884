"""The line of a script that an editor marks, where an error itself does not tell one."""

from __future__ import annotations

import re

from runner.runs.pool.types import TriedRow
from sandboxes.base import Problem

_QUOTED = re.compile(r"`([\w$]+)")
_DEFINES = r"^[ \t]*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:def|class|function\*?|const|let|var)\s+{name}\b"


def definition(source: str, message: str) -> tuple[int, str]:
    """Return the line that defines the first name that a message has in backticks, and that in words; else line 1."""
    for name in dict.fromkeys(_QUOTED.findall(message)):
        if found := re.search(_DEFINES.format(name=re.escape(name)) + rf"|^{re.escape(name)}\s*=", source, re.M):
            line = _line(source, found)
            return line, f"line {line} defines `{name}`"
    return 1, ""


def blame(source: str, entry: str, row: TriedRow) -> Problem | None:
    """Return the place of a row's error: where it was raised, or the function."""
    error = row.result.error
    if error is None or error.kind in ("mapping", "lost"):
        return None
    line, column = row.line, row.column
    if line is None:
        line = definition(source, f"`{entry or 'evaluate'}`")[0]
    if column is None:
        text = "".join(source.split("\n")[line - 1 : line])
        column = 1 + len(text) - len(text.lstrip())
    return Problem(line=line, column=column, message=error.message)


def _line(source: str, found: re.Match[str]) -> int:
    return source.count("\n", 0, found.start()) + len(found[0]) - len(found[0].lstrip("\n")) + 1
