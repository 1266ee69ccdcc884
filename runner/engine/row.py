"""A row on its way through a sandbox."""

from __future__ import annotations

from typing import Any

from runner.types import Result
from sandboxes.base import Call


class Row:
    """A case on its way. `call` is let go of once it has run: a result that waits holds no arguments."""

    __slots__ = ("call", "chars", "given", "id", "kept", "kept_size", "number", "result", "taken")

    def __init__(self, id: str, number: int) -> None:
        self.id = id
        self.number = number
        self.call: Call | None = None
        self.given: str | None = None
        self.result: Result | None = None
        self.chars = 0
        self.taken = False
        self.kept: dict[str, Any] | None = None
        self.kept_size = 0
