"""What is planted in a row, and the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from runner.runs.audit.answers import Answer, parse_tree

Change: TypeAlias = Callable[[Any], Any]
"""What makes another answer of one, or None where it has nothing to change."""
STRANGE = "unrelated"
"""A word that no reference is taken to have."""
STEPS = (0.25, 0.5, 0.75, 1.0)
"""The shares of an answer that are damaged, in turn."""


class Plant(NamedTuple):
    """One planted output of a row."""

    check: str
    output: Any
    reference: Any = None
    """Another reference to plant, as `Other`; None: the row's own stays."""
    source: str | None = None
    """The row whose answer it is."""
    place: str = ""
    """What was changed of JSON."""


class Other(NamedTuple):
    """A reference to plant, which may be null."""

    value: Any


class PlantRow(NamedTuple):
    """A row of the dataset, and its right answer."""

    id: str
    reference: Any
    output: Any
    input: Any
    answer: Answer

    @property
    def keeps_rules(self) -> bool:
        """True if its reference is rules or tests, which many outputs may keep: sentences, and those of other rows."""
        return self.answer.own and isinstance(parse_tree(self.reference), dict | list)
