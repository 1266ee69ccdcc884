"""Threads of the service: so many and no more, whoever hangs up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from runner.service import part
from tests.server.live import PATIENCE, Live


@pytest.mark.parametrize(("slow", "most"), [(True, 4), (False, 40)])
def test_clients_that_hang_up_pile_up_no_threads(server: Live, slow: bool, most: int) -> None:
    begun: list[int] = []
    ended = threading.Event()

    def blocks(number: int) -> None:
        begun.append(number)
        assert ended.wait(PATIENCE)

    def threaded(call: Callable[[int], None], number: int) -> asyncio.Task[None]:
        return asyncio.create_task((server.service._slowly if slow else part.threaded)(call, number))

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
