"""A web application whose clients hang up: see hung_up.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.sandboxes.backends import BACKENDS as EVERY
from tests.sandboxes.backends import unavailable
from tests.sandboxes.hung_up import BACKENDS, Left, left_of

ALIKE = {"wasm": "wasm-restore", "process-A": "process-A-batch", "process-B": "process-B-call"}
ALIKE |= {"deno-A": "deno-A-call", "deno-B": "deno-B-batch"}


OTHERWISE = [pytest.mark.rotating("promises", "sandboxes", "engine")]
TURNS = {"wasm-workers": "wasm", "process-B": "process", "deno-A": "deno", "deno-B": "deno"}
"""What takes turns, and with which code."""


def ways() -> list[Any]:
    marks = {name: [pytest.mark.rotating("other ways of a backend", area)] for name, area in TURNS.items()}
    return [pytest.param(name, marks=marks.get(name, OTHERWISE)) for name in BACKENDS]


@pytest.fixture(params=ways())
def name(request: pytest.FixtureRequest) -> str:
    backend = next(one for one in EVERY if one.id == ALIKE.get(request.param, request.param))
    if missing := unavailable(backend):
        pytest.skip(missing)
    return str(request.param)


def test_clients_that_hang_up_leave_nothing(name: str) -> None:
    assert asyncio.run(left_of(BACKENDS[name], 8)) == Left(0, 0, 0)


@pytest.mark.thorough("the same with fewer of them")
@pytest.mark.timeout(600)
def test_a_hundred_clients_that_hang_up_leave_nothing(name: str) -> None:
    assert asyncio.run(left_of(BACKENDS[name], 100)) == Left(0, 0, 0)
