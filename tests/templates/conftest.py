"""Sandboxes that stay open for a module of tests: opening one takes longer than a template's cases do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.templates.ways import Opened


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    found = Opened()
    yield found
    found.close()
