"""The rows of a ledger, changed behind its back."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from sandboxes.remote.ledger import Ledger


def rows(ledger: Ledger, statement: str = "SELECT * FROM machines", *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(ledger.path)) as db, db:
        return db.execute(statement, values).fetchall()


def change(ledger: Ledger, key: str, **values: object) -> None:
    """Columns of the row of a machine."""
    names = ", ".join(f"{name} = ?" for name in values)
    rows(ledger, f"UPDATE machines SET {names} WHERE key = ?", *values.values(), key)
