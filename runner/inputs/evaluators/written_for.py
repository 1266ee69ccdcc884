"""What a caller says of a script that was written for another tool, and what a request may name."""

from __future__ import annotations

from typing import Annotated

from runner.core.types import DialectFailures
from runner.inputs.evaluators.load import HowRead
from sandboxes.record import Made, Record


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


Name = Annotated[str, Made(_name)]
"""A name or a path; a path need not be valid UTF-8."""


class WrittenFor(Record):
    """The part of a request about a script of another tool."""

    dialect: str | None = None
    """The tool that the script was written for, or `native`. None: that of its header, else the one that is seen."""
    entry: str | None = None
    """What is called in a script of another tool; `FILE.py:ENTRY` says it as well."""
    dialect_failures: DialectFailures = "failed"
    """What an exception of a script is whose own tool takes it for the score 0."""

    @property
    def how_read(self) -> HowRead:
        """The same, as a script is read by it."""
        return HowRead(dialect=self.dialect, entry=self.entry, failures=self.dialect_failures)
