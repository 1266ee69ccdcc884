"""A store for each test, on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.results.store import open_store
from runner.results.store.store import Store
from tests.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of an empty database. None: SQLite in the store's folder."""
    if request.param == "sqlite":
        return None
    found: str = request.getfixturevalue("postgres")()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The store's folder."""
    return tmp_path / "store"


@pytest.fixture
def store(address: str | None, folder: Path) -> Iterator[Store]:
    """An empty store."""
    with open_store(address, folder) as made:
        yield made
