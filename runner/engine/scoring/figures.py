"""The figures of a whole dataset, from what `aggregate` returned. docs/how-to/aggregates.md has the rules."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from runner.core.text import list_names, printable
from runner.core.types import ResultError
from runner.engine.scoring.normalize import InvalidResultError
from runner.inputs.evaluators.dialect import DIALECTS, Dialect
from sandboxes.base import Language
from sandboxes.record import Record

ONLY = "aggregate"
"""The name of a figure that was returned without one."""
MOST = 100
"""Figures."""
NAME = 60
"""Characters of a figure's name."""

_NOT_IN_NAMES = frozenset("<>=!")  # or no gate could name it


class InvalidFiguresError(InvalidResultError):
    """What `aggregate` returned has something that is no figure; `figures` are those beside it."""

    def __init__(self, message: str, figures: dict[str, float | None] | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


class Figures(Record):
    """What `aggregate` said of all rows together."""

    aggregates: dict[str, float | None] = Field(default_factory=dict)
    """By name. None: the script says that there is no such figure, for example because it would divide by zero."""
    aggregate_rows: int | None = None
    """The rows that it was given: all that were scored or abstained. None if there are no figures."""
    aggregate_error: ResultError | None = None
    """Why there are no figures, or why one of them is missing."""


def figures_of(value: Any, language: Language) -> dict[str, float | None]:
    """
    Return the figures in a returned JSON value: a number, or a dict of names to numbers or None.

    Raises InvalidFiguresError, which shows the value and what is accepted, and has the figures that can be used.
    """
    dialect = DIALECTS[language]
    if not isinstance(value, dict):
        return {ONLY: _number(value, dialect)}
    if not value or len(value) > MOST:
        raise InvalidFiguresError(f"aggregate returned {len(value):,} figures; return 1 to {MOST}")
    for name in value:
        if not name or len(name) > NAME or name != printable(name.strip(), NAME) or not _NOT_IN_NAMES.isdisjoint(name):
            raise InvalidFiguresError(
                f"aggregate returned a figure named {dialect.value(name, 80)}; a name has 1 to {NAME} printable "
                "characters, no spaces around it, and none of < > = !"
            )
    found: dict[str, float | None] = {}
    wrong: dict[str, str] = {}
    for name, one in value.items():
        try:
            found[name] = None if one is None else _number(one, dialect, name)
        except InvalidFiguresError as error:
            wrong[name] = str(error)
    if wrong:
        first, *others = wrong
        raise InvalidFiguresError(
            wrong[first] + (f"; nor is there one for {list_names(others)}" if others else ""), found
        )
    return found


def _number(value: Any, dialect: Dialect, name: str | None = None) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    of = "" if name is None else f" for {dialect.value(name, 80)}"
    raise InvalidFiguresError(
        f"aggregate returned {dialect.value(value, 80)}{of}; return a finite number, or {dialect.mapping} of names to "
        f"numbers: {dialect.object(f1='0.9')}; {dialect.none} says that there is no such figure"
    )
