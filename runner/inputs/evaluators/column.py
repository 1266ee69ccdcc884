"""What a mapping names: a column by its bare name, or a place in the row by a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from runner.core.errors import PathError
from runner.core.text import printable, suggestion

if TYPE_CHECKING:
    from runner.inputs.evaluators.paths.jsonpath import Path
    from runner.inputs.evaluators.paths.rfc9535 import FilterWork

BY_NAME = ("output", "reference", "input", "metadata", "id")
"""Parameters of these names bind by themselves. Other columns are keys of `metadata`."""

TEXTS = ("input", "output", "reference")
"""What people know a row by."""

MAX_NAME = 1000
"""Characters of a column's name."""


class Column:
    """The column of one name: one of `BY_NAME`, else a key of `metadata`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = f"$.{name}" if name in BY_NAME else column_text(name)

    keys = None
    """Those of a path."""

    @property
    def first(self) -> str:
        """The name, as `Path.first` has that of the column that a path looks into."""
        return self.name

    @property
    def column(self) -> str:
        """The name, as `Path.column` has it."""
        return self.name

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns to read; None for all, which `metadata` as a whole needs."""
        if self.name == "metadata":
            return None
        return frozenset({self.name} if self.name in BY_NAME else {self.name, "metadata"})

    def value(self, document: Any, work: FilterWork | None = None) -> Any:
        """Return the column's value. Raises PathError if the row has no such column."""
        columns = document if self.name in BY_NAME else document.get("metadata", {})
        if self.name not in columns:
            known = [*(name for name in document if name != "metadata"), *document.get("metadata", ())]
            raise PathError(f"the row has no column `{printable(self.name, 100)}`{suggestion(self.name, known)}")
        if work is not None:
            work.path = self.text
            work.take(columns[self.name])
        return columns[self.name]


Source: TypeAlias = "Path | Column"


def needed_column(source: Source) -> str | None:
    """
    Return the column without which a row has nothing there; None where it may be any.

    It is the path itself, if no row can have it: it begins with a column that is in `metadata`.
    """
    first = source.first
    if first is None:
        return None
    return source.column if first in BY_NAME or isinstance(source, Column) else source.text


def is_bare(text: str) -> bool:
    """Return true for the name of a column. A path begins with `$` or has a dot, a bracket or a star."""
    return not text.startswith("$") and not any(mark in text for mark in ".[*")


def parse_source(text: str, *, trusted: bool = False) -> Source:
    """Return a column or a path, by what a mapping says. Raises PathError; `trusted` is that of `parse_path`."""
    if not is_bare(text):
        from runner.inputs.evaluators.paths.jsonpath import (
            parse_path,  # here: few evaluators need it, and its import is long
        )

        return parse_path(text, trusted=trusted)
    if not text.strip() or len(text) > MAX_NAME:
        raise PathError(f"a column's name has 1 to {MAX_NAME:,} characters, not {len(text.strip()):,}")
    return Column(text)


def column_text(column: str) -> str:
    """Return what to write in a mapping for a column, whatever its name is; terminals cannot obey it."""
    if is_bare(column) and column.isprintable() and column == column.strip() and len(column) <= MAX_NAME:
        return column
    import json

    # Double quotes and JSON's escapes are those of RFC 9535.
    name = json.dumps(column, ensure_ascii=not column.isprintable())
    return f"$[{name}]" if column in BY_NAME else f"$.metadata[{name}]"
