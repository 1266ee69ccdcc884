"""The first signal stops the work and says so; what else goes wrong meanwhile is no news."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from runner import interrupt
from sandboxes.errors import SandboxError, SandboxLostError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


async def killed(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_work(number: signal.Signals) -> None:
    assert interrupt.run(killed(number)) is True


def test_a_sandbox_that_is_lost_while_it_is_stopped_is_no_failure() -> None:
    async def work() -> None:
        try:
            await killed(signal.SIGINT)
        except asyncio.CancelledError:
            raise SandboxLostError("the worker is gone") from None

    assert interrupt.run(work()) is True


def test_without_a_signal_the_work_ends_or_fails_by_itself() -> None:
    async def fine() -> None:
        await asyncio.sleep(0)

    async def fail() -> None:
        raise SandboxError("no")

    assert interrupt.run(fine()) is False
    with pytest.raises(SandboxError):
        interrupt.run(fail())


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)

    assert interrupt.run(work()) is False
