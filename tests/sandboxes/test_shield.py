"""What is awaited to its end is, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import anyio
import pytest

from sandboxes.guest.supervisor import procfs
from sandboxes.host.shield import every, finish, wait_for
from sandboxes.packages import tool_process
from tests.stopping import EVERY, Stopping


class Cleanup:
    """Takes some waits."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = self.done = 0
        self._error = error

    async def __call__(self) -> str:
        self.begun += 1
        for _ in range(5):
            await asyncio.sleep(0)
        if self._error:
            raise self._error
        self.done += 1
        return "clean"


def test_who_is_not_cancelled_gets_what_it_gives() -> None:
    assert asyncio.run(finish(Cleanup())) == "clean"
    with pytest.raises(OSError, match="the disk"):
        asyncio.run(finish(Cleanup(OSError("the disk"))))


@pytest.mark.parametrize("times", [1, 2, 20])
@pytest.mark.parametrize("error", [None, OSError("the disk")])
async def test_who_is_cancelled_is_told_after_the_end(times: int, error: Exception | None) -> None:
    cleanup = Cleanup(error)
    task = asyncio.create_task(finish(cleanup))
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (cleanup.begun, cleanup.done) == (1, 0 if error else 1)


async def test_anyio_may_cancel_at_each_step() -> None:
    first, second = Cleanup(), Cleanup()
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await finish(first)
        finally:
            await finish(second)
    assert (first.done, second.done, scope.cancelled_caught) == (1, 1, True)


def test_a_loop_that_ends_does_not_end_it() -> None:
    cleanup = Cleanup()

    async def body() -> None:
        task = asyncio.create_task(finish(cleanup))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(body())
    assert cleanup.done == 1


async def test_what_goes_on_already_is_not_cancelled() -> None:
    cleanup = Cleanup()
    going = asyncio.ensure_future(cleanup())
    waiting = [asyncio.create_task(wait_for(going)) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert await waiting[1] == "clean"
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]


async def test_of_several_all_are_done_though_one_fails() -> None:
    cleanups = [Cleanup(OSError("the disk")), Cleanup(), Cleanup()]
    with pytest.raises(OSError, match="the disk"):
        await every(cleanups)
    assert [cleanup.done for cleanup in cleanups] == [0, 1, 1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /proc")
@pytest.mark.parametrize(("again", "scoped"), [((), False), ((1,), False), (EVERY, False), ((), True)])
def test_a_tool_ends_with_who_waits_for_it(again: range, scoped: bool, tmp_path: Path) -> None:
    """As uv, when a run is cancelled that installs packages."""

    async def work() -> None:
        deadline = asyncio.get_running_loop().time() + 60
        command = ["/bin/sh", "-c", "sleep 0.05 & echo; echo >&2; wait"]
        await tool_process.run(command, cwd=tmp_path, variables=os.environ, deadline=deadline)

    before = procfs.descendants(os.getpid())

    def nothing_left() -> None:
        # What other tests keep open may start and end processes of its own.
        others = {one for kept in before for one in (kept, *procfs.descendants(kept))}
        assert not set(procfs.descendants(os.getpid())) - others

    whole = Stopping(1 << 30)
    whole.run(work)
    for n in range(1, whole.waits):
        Stopping(n, again, scoped).run(work, nothing_left)
