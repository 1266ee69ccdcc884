"""Columns of the dataset in a results file that is a table: their names and their cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MOST = 1000
"""Columns of the dataset that get a column of their own."""
OTHERS = "other columns"

REPEAT, CACHED = "repeat", "cached"
PARTS = ("label", "score", "explanation")
OWN = ("id", "evaluator", "version", "sandbox", "given", "outcome", *PARTS)
TAKEN = (*OWN, "error", "error_kind", "error_message", "stdout", "duration_ms", "outputs")
_NO_COLUMNS = frozenset((*TAKEN, REPEAT, CACHED))
_PARTS = tuple(f".{part}" for part in PARTS)


class Layout(NamedTuple):
    """
    The columns of a results file, beside those that each has.

    `outputs` are the names of the outputs where there are several. `columns` are columns of the dataset. With `others`,
    a row's further columns are one column, as JSON. With `repeats` each row has several results, which are numbered.
    With `cached` each tells whether it was taken from the score cache.
    """

    @property
    def own(self) -> tuple[str, ...]:
        """The columns that each file has, up to the parts of the score."""
        more = [*([REPEAT] if self.repeats else []), *([CACHED] if self.cached else [])]
        return (OWN[0], *more, *OWN[1:])

    outputs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    others: bool = False
    repeats: bool = False
    cached: bool = False

    def names(self) -> list[str]:
        """The names of the dataset's columns in the file: one that is taken gets `row.` in front."""
        used = {*TAKEN, *self.own, *(f"{name}.{part}" for name in self.outputs for part in PARTS)}
        found = []
        for name in (*self.columns, *([OTHERS] if self.others else [])):
            while name in used:
                name = f"row.{name}"
            used.add(name)
            found.append(name)
        return found

    def cells(self, row: Mapping[str, Any]) -> list[str | None]:
        """The values of these columns: text as it is, None for null, anything else as JSON."""
        found = [_cell(row.get(name)) for name in self.columns]
        if self.others:
            own = dict.fromkeys(self.columns)
            rest = {name: value for name, value in row.items() if name not in own}
            found.append(_cell(rest) if rest else None)
        return found


def layout(
    outputs: Sequence[str], columns: Sequence[str], complete: bool, *, repeats: bool = False, cached: bool = False
) -> Layout:
    """`complete`: no row has other columns."""
    few = tuple(dict.fromkeys(columns))[:MOST]
    several = tuple(outputs) if len(outputs) > 1 else ()
    return Layout(several, few, others=not complete or len(few) < len(set(columns)), repeats=repeats, cached=cached)


def columns_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the dataset that a row of results carries. In a table they stand beside the result's own."""
    kept = row.get("row")
    if isinstance(kept, dict):
        return dict(kept)
    names = (name for name in row if name not in _NO_COLUMNS and not name.endswith(_PARTS))
    return {name.removeprefix("row."): row[name] for name in names}


def _cell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
