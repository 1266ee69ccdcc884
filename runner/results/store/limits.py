"""How much the store may hold: of one run, and in all."""

from __future__ import annotations

import os
from typing import NamedTuple

from runner.core.text import printable
from runner.results.store.errors import StoreError

_MB = 1 << 20


class Limit(NamedTuple):
    """A number of MB, which a variable may set."""

    variable: str
    default: int

    def bytes(self) -> int:
        """Return the limit. Raises StoreError for a variable that is no number."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default * _MB
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise StoreError(
                f"{self.variable}={printable(text, 40)} is no number of MB; write {self.default}, for example"
            )
        return int(text) * _MB

    def __str__(self) -> str:
        return f"{self.bytes() // _MB:,} MB"


RUN = Limit("EVALCELL_STORE_RUN_MB", 4_096)
"""The results of one run."""
STORE = Limit("EVALCELL_STORE_MB", 51_200)
"""All files."""
