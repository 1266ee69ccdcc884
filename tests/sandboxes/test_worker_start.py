"""A loop that closes while a worker of the Wasm sandbox starts, as after a second Ctrl-C: both end."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from sandboxes.guest.supervisor import procfs
from sandboxes.host.shield import finish
from sandboxes.wasm.lanes import Lane


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("turns", range(10))
def test_a_second_interrupt_while_a_worker_starts_ends_the_loop(turns: int) -> None:
    lane = Lane("auto")

    async def body() -> None:
        loop = asyncio.get_running_loop()

        def strike(left: int) -> None:
            if not left:
                raise KeyboardInterrupt
            loop.call_soon(strike, left - 1)

        loop.call_soon(strike, turns)
        try:
            await finish(lane.start)
            await asyncio.sleep(60)
        finally:
            await finish(lane.close)

    before = {*procfs.children(os.getpid())}
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(body())
    assert {*procfs.children(os.getpid())} <= before  # some of other tests may end meanwhile
