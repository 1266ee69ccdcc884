"""Threads of the service: so many and no more, whoever hangs up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import httpx
import pytest

from runner.results.store.store import Store
from runner.server.service import base
from runner.server.service.rows import some_rows
from runner.server.service.types import DatasetRows
from tests.server.http.live import Live
from tests.server.http.served import PATIENCE


def test_rows_that_take_long_to_find_hold_up_nothing_else(
    server: Live, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def rows(store: Store, name: str, first: int, count: int) -> DatasetRows:
        assert first == 1 or ended.wait(PATIENCE)
        return some_rows(store, name, 1, count)

    async def look() -> list[DatasetRows]:
        return await asyncio.gather(*(server.service.dataset_rows("demo", 90_000) for _ in range(60)))

    monkeypatch.setattr("runner.server.service.base.some_rows", rows)
    looking = asyncio.run_coroutine_threadsafe(look(), server.loop)
    try:
        for path in ("/v1/evaluators", "/v1/datasets/demo/rows", "/v1/evaluators/json-distance"):
            assert client.get(path).status_code == 200
        assert not looking.done()
    finally:
        ended.set()
    assert len(looking.result(PATIENCE)) == 60


@pytest.mark.parametrize(("slow", "most"), [(True, 4), (False, 40)])
def test_clients_that_hang_up_pile_up_no_threads(server: Live, slow: bool, most: int) -> None:
    begun: list[int] = []
    ended = threading.Event()

    def blocks(number: int) -> None:
        begun.append(number)
        assert ended.wait(PATIENCE)

    def threaded(call: Callable[[int], None], number: int) -> asyncio.Task[None]:
        return asyncio.create_task((server.service._slowly if slow else base.call_in_thread)(call, number))

    async def hang_up() -> None:
        for number in range(most + 10):
            asking = threaded(blocks, number)
            await asyncio.wait({asking}, timeout=0.02)
            asking.cancel()
            await asyncio.wait({asking})

    try:
        asyncio.run_coroutine_threadsafe(hang_up(), server.loop).result(PATIENCE)
        assert len(begun) == most
    finally:
        ended.set()

    async def afterwards() -> None:
        await threaded(blocks, -1)

    asyncio.run_coroutine_threadsafe(afterwards(), server.loop).result(PATIENCE)
    assert begun[most:] == [-1]  # whose client is gone is not begun later
