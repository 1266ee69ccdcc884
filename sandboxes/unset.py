"""What a `Record` has for pydantic and hardly ever differs: to set it for each object takes as long as to make that."""

from __future__ import annotations

from typing import Any, cast


class Empty:
    """What a frozen model without further fields leaves empty. Nothing is kept of what is set."""

    def __get__(self, record: Any, kind: type) -> None:
        """Be None for every record."""

    def __set__(self, record: Any, value: object) -> None:
        """Keep nothing."""


class Given:
    """The names of the fields that were given: all, unless it was set."""

    def __get__(self, record: Any, kind: Any) -> set[str]:
        try:
            return cast("set[str]", record._given)
        except AttributeError:
            return cast("set[str]", kind.field_names)

    def __set__(self, record: Any, value: set[str]) -> None:
        object.__setattr__(record, "_given", value)
