"""A judge that wants a key, and the tiers in which scripts ask it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandboxes.boxes.launch import Tier
from tests.judges.judge import KEY, VARIABLE, fake_judge


@pytest.fixture
def judge() -> Iterator[Any]:
    with fake_judge(require_key=KEY) as judge:
        yield judge


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture(params=["A", "B"])
def tier(request: pytest.FixtureRequest) -> Tier:
    found: Tier = request.param
    return found
