"""What a mutant is, and the changes that are the same in both languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

COMPARISONS: Mapping[str, str] = {
    "==": "!=",
    "!=": "==",
    "===": "!==",
    "!==": "===",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
ARITHMETIC: Mapping[str, str] = {
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "//": "/",
    "%": "*",
    "**": "*",
    "&": "|",
    "|": "&",
    "^": "&",
    "<<": ">>",
    ">>": "<<",
}
RESULT_KEYS = ("explanation", "score", "label")
"""Keys of a result: another name is no result, which any example notices; what explains it is judged by nobody."""
_SHOWN = 40


class Edit(NamedTuple):
    """One change of a script: the bytes from `start` to `end` of its UTF-8 text are replaced."""

    start: int
    end: int
    text: str
    change: str
    """What it does, in words: `== -> !=`."""


class Mutant(NamedTuple):
    """A script with one change."""

    line: int
    """The line of the change, from 1."""
    change: str
    source: str
    file: str = ""
    """The path of the file that has it, from the script; empty: the script itself."""


def apply_edit(data: bytes, edit: Edit, file: str = "") -> Mutant:
    """Return the mutant that an edit of a script, or of a file beside it, makes."""
    source = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return Mutant(data.count(b"\n", 0, edit.start) + 1, edit.change, source.decode(), file)


def shorten(text: str) -> str:
    """Return a piece of code in one short line."""
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…"
