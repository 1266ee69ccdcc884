"""Columns of the dataset's rows that results carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.core.errors import MappingError, PathError, WorkError
from runner.core.text import printable
from runner.core.types import Case
from runner.inputs.evaluators.column import BY_NAME, Source, needed_column, parse_source

ALL = "all"


def parse_column(field: str, text: str) -> Source:
    """Return a column or path that a request names in `field`. Raises MappingError."""
    try:
        return parse_source(text, trusted=True)
    except PathError as error:
        raise MappingError(f"{field} {printable(text, 80)!r}: {error}") from None


class RowColumns:
    """
    The columns of a row that are kept, under the names that the caller gave. `all` is every column but the id.

    No row needs them unless they were `asked` for by name. `use` says in messages what they are for.
    """

    def __init__(self, names: Sequence[str], *, asked: bool = True, use: str = "to keep") -> None:
        self._asked = asked
        self.use = use
        self.all = ALL in names
        self.names = () if self.all else tuple(dict.fromkeys(names))
        self._sources = {name: parse_column("keep", name) for name in self.names}

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns to read; None for all."""
        found: frozenset[str] = frozenset()
        for source in self._sources.values():
            if source.columns is None:
                return None
            found |= source.columns
        return None if self.all else found

    def needs(self) -> dict[str, str]:
        """Return, by name, the column without which every row lacks it."""
        found = {name: needed_column(source) for name, source in self._sources.items()}
        return {name: column for name, column in found.items() if column is not None and self._asked}

    def of(self, case: Case) -> dict[str, Any]:
        """Return the values in this row. What it lacks is None, or left out if all columns are kept."""
        if self.all:
            own = {name: getattr(case, name) for name in ("input", "output", "reference") if name in case.present}
            return own | case.metadata
        document = {name: getattr(case, name) for name in BY_NAME if name in case.present}
        return {name: None if case.broken else _value(source, document) for name, source in self._sources.items()}


def _value(source: Source, document: dict[str, Any]) -> Any:
    try:
        return source.value(document)
    except WorkError:
        raise
    except PathError:
        return None
