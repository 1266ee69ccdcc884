"""The account at the documentation's provider: its machines are folders."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandboxes.remote.ledger import Ledger

KEY = "key-of-the-account-73"
"""A secret: it may be nowhere but in the environment or the env-file."""


@dataclass(frozen=True)
class Folders:
    installed: Path
    """Where its distribution is."""
    place: Path

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.place / "state")

    @property
    def machines(self) -> list[str]:
        return sorted(path.parent.name for path in (self.place / "machines").glob("*/tags"))

    def put(self, id: str, tags: Mapping[str, str], age: float = 0) -> None:
        """A machine that an earlier run made."""
        file = self.place / "machines" / id / "tags"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"owner": "evalcell", "key": id, **tags}))
        then = time.time() - age
        os.utime(file, (then, then))

    def holds(self, secret: str) -> bool:
        """Whether it stands in anything that was written to the account or the ledger."""
        files = [path for path in self.place.rglob("*") if path.is_file()]
        return any(secret.encode() in path.read_bytes() for path in files)
