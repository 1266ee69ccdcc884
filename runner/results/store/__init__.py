"""
The store: evaluators with their versions, datasets, presets and runs, kept from run to run.

Of what is here only `open_store` needs the extra `store`, and imports a database when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.results.store.store import Store


def open_store(url: str | None = None, folder: Path | None = None) -> Store:
    """
    Open the store, and bring an earlier version's up to date. To be closed.

    `url` is a database's, else that of `EVALCELL_DATABASE_URL`, else SQLite in the folder. `folder` holds the files; it
    is `store` in the state folder.

    Raises:
        StoreError: The store cannot be used.
    """
    from runner.results.store.opening import open_at  # here: a run that keeps nothing imports no database

    return open_at(url, folder)
