"""Open the store: its folder, its database, its tables."""

from __future__ import annotations

import os
from pathlib import Path

from runner.results.store.errors import StoreError
from runner.results.store.files import BlobFiles
from runner.results.store.limits import RUN, STORE
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.ledger import state_dir

try:
    from sqlalchemy import URL

    from runner.results.store.database import VARIABLE, Database
    from runner.results.store.store import Store
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("sqlalchemy", "alembic"):
        raise
    raise StoreError("the store needs SQLAlchemy and Alembic; run: pip install 'evalcell[store]'") from None


def open_at(url: str | None, folder: Path | None) -> Store:
    """See `open_store`."""
    for limit in (RUN, STORE):
        limit.bytes()  # one that is none is told now, not at the first write
    try:
        folder = folder or state_dir() / "store"
    except SandboxUnavailableError as error:
        raise StoreError(str(error)) from None
    files = BlobFiles(folder)
    address = url or os.environ.get(VARIABLE)
    if not address:
        _private(folder / "store.sqlite")
    database = Database(address or URL.create("sqlite", database=str(folder / "store.sqlite")))
    try:
        database.migrate()
    except BaseException:
        database.close()
        raise
    return Store(database, files)


def _private(path: Path) -> None:
    """An empty file of this user's alone, if there is none: SQLite gives those beside it the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
    except OSError as error:
        raise StoreError(f"cannot use {path} ({error.strerror}); move it away") from None
