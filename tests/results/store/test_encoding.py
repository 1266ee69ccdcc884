"""A PostgreSQL database whose encoding is not UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from runner.results.store import open_store
from tests.results.store.making import evaluator, script


@pytest.mark.rotating("stores of strange databases", "store")
def test_a_database_without_an_encoding_keeps_text_as_it_is(postgres: Callable[[], str], tmp_path: Path) -> None:
    address = postgres()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0")
    with open_store(_named(address), tmp_path) as store:
        store.add_evaluator(evaluator("return 'Grün 🙂'"))
        assert store.evaluator("polite").source == script("return 'Grün 🙂'")


def _named(address: str) -> str:
    path, _, query = address.partition("?")
    return f"{path.rpartition('/')[0]}/plain?{query}"
