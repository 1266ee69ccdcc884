"""A place in a script, shown."""

from __future__ import annotations

from runner.text import printable

WIDTH = 100
"""Characters of a line that are shown above a caret."""


def pointed(where: str, source: str, line: int, column: int, message: str) -> str:
    """
    File, line and column, the message, and the line itself with a caret below the place.

    `line` and `column` count from 1; a place outside the source becomes the nearest inside.
    """
    lines = source.split("\n")
    line = min(max(line, 1), len(lines))
    text = lines[line - 1]
    column = min(max(column, 1), len(text) + 1)
    start = max(0, column - WIDTH + 20)
    excerpt = "".join(c if c.isprintable() else " " for c in text[start : start + WIDTH])
    indent = len(excerpt) - len(excerpt.lstrip())
    caret = " " * (column - 1 - start - indent) + "^"
    return f"{where}:{line}:{column}: {printable(message)}\n    {excerpt.strip()}\n    {caret}"
