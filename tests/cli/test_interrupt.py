"""The first signal stops the work and says so; what else goes wrong meanwhile is no news."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli import signals
from runner.cli.main import cli
from sandboxes.errors import SandboxError, SandboxLostError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


async def killed(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_work(number: signal.Signals) -> None:
    assert signals.run(killed(number)) is True


def test_a_sandbox_that_is_lost_while_it_is_stopped_is_no_failure() -> None:
    async def work() -> None:
        try:
            await killed(signal.SIGINT)
        except asyncio.CancelledError:
            raise SandboxLostError("the worker is gone") from None

    assert signals.run(work()) is True


def test_without_a_signal_the_work_ends_or_fails_by_itself() -> None:
    async def fine() -> None:
        await asyncio.sleep(0)

    async def fail() -> None:
        raise SandboxError("no")

    assert signals.run(fine()) is False
    with pytest.raises(SandboxError):
        signals.run(fail())


def test_a_signal_while_the_loop_begins_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    async def work() -> None:
        begun.append(1)

    made = asyncio.new_event_loop

    def interrupted() -> asyncio.AbstractEventLoop:
        signal.raise_signal(signal.SIGTERM)
        return made()

    monkeypatch.setattr(asyncio, "new_event_loop", interrupted)
    assert signals.run(work()) is True
    assert begun == []


def test_a_signal_while_the_loop_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = asyncio.Runner.close

    def interrupted(runner: asyncio.Runner) -> None:
        signal.raise_signal(signal.SIGTERM)
        closed(runner)

    async def work() -> None:
        pass

    monkeypatch.setattr(asyncio.Runner, "close", interrupted)
    assert signals.run(work()) is True


def test_an_interrupted_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "invoke", interrupted)
    with pytest.raises(SystemExit, match="130"):
        cli.main(["doctor"])
    assert capsys.readouterr().err.strip() == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    """As `&` and `nohup` do it."""
    signal.signal(number, signal.SIG_IGN)

    async def work() -> None:
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.05)

    assert signals.run(work()) is False


TALKER = """
import asyncio, fcntl, sys, termios
from runner.cli import signals

async def work():
    open(sys.argv[1], "w").close()
    try:
        await asyncio.sleep(30)
    finally:
        print("the terminal is gone", file=sys.stderr, flush=True)

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
stopped = signals.run(work())
print("interrupted", flush=True)
sys.exit(130 if stopped else 1)
"""


def test_a_terminal_that_is_closed_stops_the_work_and_fails_no_word_of_it(tmp_path: Path) -> None:
    import pty  # not for Windows

    begun, (ours, its) = tmp_path / "begun", pty.openpty()
    words = [sys.executable, "-c", TALKER, str(begun)]
    process = subprocess.Popen(words, cwd=ROOT, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    deadline = time.monotonic() + 20
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.close(ours)
    assert process.wait(20) == 130
