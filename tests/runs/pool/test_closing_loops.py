"""A loop that closes while it starts a process, as after a second Ctrl-C: both end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from runner.runs.parts.workers import ProcessWorker
from runner.runs.pool.process import WorkerProcess
from sandboxes.guest.supervisor import procfs
from sandboxes.packages import tool_process


async def _tool() -> None:
    deadline = asyncio.get_running_loop().time() + 600
    await tool_process.run(["/bin/sleep", "600"], cwd=Path("/"), variables={}, deadline=deadline)


async def _part() -> None:
    worker = ProcessWorker(1)
    try:
        await worker.start()
        await asyncio.sleep(600)
    finally:
        await worker.close()


async def _pool() -> None:
    worker = WorkerProcess("1", os.environ)
    try:
        await worker.start()
        await asyncio.sleep(600)
    finally:
        await worker.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("work", [_tool, _part, _pool])
def test_a_second_interrupt_while_a_process_starts_ends_the_loop(
    work: Callable[[], Awaitable[None]], turns: int
) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()

        def strike(left: int) -> None:
            if not left:
                raise KeyboardInterrupt
            loop.call_soon(strike, left - 1)

        loop.call_soon(strike, turns)
        await work()

    before = procfs.children(os.getpid())
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(body())
    assert procfs.children(os.getpid()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_start_that_was_cancelled_goes_on_and_starts_no_second_process() -> None:
    async def body() -> None:
        worker = ProcessWorker(1)
        first = asyncio.create_task(worker.start())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        await worker.start()
        try:
            assert len({*procfs.children(os.getpid())} - before) == 1
        finally:
            await worker.close()

    before = {*procfs.children(os.getpid())}
    asyncio.run(body())
    assert {*procfs.children(os.getpid())} == before
