"""When evalcell itself ends, in whatever way and in the middle of an attack, nothing of it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Isolation, Limits, SandboxError
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.process.conftest import run
from tests.sandboxes.hostile.boxed import named, tools
from tests.sandboxes.hostile.driven import ROOT
from tests.scripts import python

pytestmark = pytest.mark.rotating("process", "process")

LIMITS = Limits(timeout=30, load_timeout=30, memory=256 << 20)
GONE = 20.0
"""Seconds in which a box must have ended when its host is gone, however busy the machine; its scripts last minutes."""

HOST = """
import asyncio, sys
from sandboxes import Call, Limits
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.scripts import python

async def main(tier, source, jobs):
    config = ProcessConfig(tier=tier, isolation="call", jobs=int(jobs))
    limits = Limits(timeout=60, load_timeout=60, memory=256 << 20)
    async with ProcessSandbox(config) as sandbox:
        program = await sandbox.load(python(source), limits)
        async def one(n):
            async for execution in program.run([Call(id=n)], limits):
                print(execution.status, flush=True)
        await asyncio.gather(*map(one, range(int(jobs))))

asyncio.run(main(*sys.argv[1:]))
"""
"""A host application, in a few lines."""

DAEMONS = """
def stay():
    away()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    forked(lambda: time.sleep(600))
    time.sleep(600)
"""
ATTACKS = {
    "daemons": DAEMONS + "def evaluate():\n    forked(stay, 5)\n    time.sleep(600)\n",
    "bomb": """
def evaluate():
    while True:
        try:
            if os.fork() == 0: away()
        except OSError: time.sleep(0.001)
""",
    "daemons-at-load": DAEMONS + "forked(stay, 5)\ntime.sleep(600)\ndef evaluate(): pass\n",
    "stopped": """
def evaluate():
    forked(lambda: os.kill(os.getpid(), signal.SIGSTOP), 5)
    os.kill(os.getpid(), signal.SIGSTOP)
""",
}
KILLS = """
def evaluate(n):
    forked(lambda: time.sleep(600), 5)
    for pid in (-1, os.getppid()):
        try: os.kill(pid, signal.SIGKILL)
        except OSError: pass
"""
QUIET = """
def evaluate(n=0):
    time.sleep(0.05)
    return n
"""


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """What the test's processes are called; none is left after it."""
    found = f"end{os.getpid()}-{abs(hash(request.node.name)) % 10000}"[:15]
    yield found
    assert gone(found), named(found)


def gone(name: str, seconds: float = GONE) -> bool:
    until = time.monotonic() + seconds
    while named(name) and time.monotonic() < until:
        time.sleep(0.02)
    return not named(name)


def begun(name: str, count: int, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while len(named(name)) < count:
        assert time.monotonic() < until, "the attack has not begun"
        time.sleep(0.02)


def ends() -> Iterator[Any]:
    """Each attack with one signal, and each signal with one attack; the rest is for make test-all."""
    rest = pytest.mark.thorough("a signal to the host, and an attack, that are tried together with others")
    for attack in ATTACKS:
        for ending in ("KILL", "TERM", "INT", "HUP"):
            marks = () if attack == "daemons" or ending == "KILL" else (rest,)
            yield pytest.param(attack, ending, marks=marks)


@pytest.mark.parametrize(("attack", "ending"), list(ends()))
def test_a_host_that_is_killed_leaves_nothing(tier: Tier, attack: str, ending: str, name: str, tmp_path: Path) -> None:
    source = tools(name) + ATTACKS[attack]
    command = [sys.executable, "-c", HOST, tier, source, "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=-1, stderr=-1, start_new_session=True) as host:
        try:
            begun(name, 8)
            host.send_signal(getattr(signal, f"SIG{ending}"))
            assert gone(name)
            host.wait(GONE)
        finally:
            host.kill()
            out, _ = host.communicate()
    # The crowd of a bomb may have ended it before the signal: by its number, or by what it holds together.
    assert set(out.split()) <= ({b"crash", b"memory"} if attack == "bomb" else set())
    assert list(tmp_path.iterdir()) == []


async def opened(tier: Tier, **options: Any) -> ProcessSandbox:
    sandbox = ProcessSandbox(ProcessConfig(tier=tier, **options))
    await sandbox.open()
    return sandbox


def test_a_task_that_is_cancelled_leaves_a_sandbox_that_works(tier: Tier, name: str) -> None:
    async def body() -> list[Execution]:
        async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1)) as sandbox:
            attack = await sandbox.load(python(tools(name) + ATTACKS["daemons"]), LIMITS)
            for _ in range(3):
                task = asyncio.create_task(_all(attack, 1))
                await asyncio.to_thread(begun, name, 8)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await asyncio.to_thread(_at_most, name, 1)
            quiet = await sandbox.load(python(tools(name) + QUIET), LIMITS)
            return await _all(quiet, 3)

    assert [e.value for e in run(body())] == [0, 1, 2]


@pytest.mark.parametrize("isolation", ["call", "batch"])
async def test_a_run_that_is_cancelled_anywhere_is_no_ones_but_its_own(
    tier: Tier, isolation: Isolation, name: str
) -> None:
    async with ProcessSandbox(ProcessConfig(tier=tier, isolation=isolation, jobs=1)) as sandbox:
        program = await sandbox.load(python(tools(name) + "def evaluate(n): return n\n"), LIMITS)
        for steps in range(2, 42, 2):
            task = asyncio.create_task(_all(program, 50))
            for _ in range(steps):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0005 * steps)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert [(e.status, e.value) for e in await _all(program, 3)] == [("ok", n) for n in range(3)]


async def test_a_load_that_is_cancelled_leaves_nothing(tier: Tier, name: str) -> None:
    async with ProcessSandbox(ProcessConfig(tier=tier, jobs=2)) as sandbox:
        task = asyncio.create_task(sandbox.load(python(tools(name) + ATTACKS["daemons-at-load"]), LIMITS))
        await asyncio.to_thread(begun, name, 8)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(gone, name)


async def test_closing_while_runs_go_on_ends_them(tier: Tier, name: str) -> None:
    sandbox = await opened(tier, jobs=2)
    attack = await sandbox.load(python(tools(name) + ATTACKS["daemons"]), LIMITS)
    tasks = [asyncio.create_task(_all(attack, 1)) for _ in range(2)]
    await asyncio.to_thread(begun, name, 14)
    await sandbox.close()
    assert await asyncio.to_thread(gone, name)
    for found in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), GONE):
        if isinstance(found, list):
            assert [e.status for e in found] == ["crash"]
        else:
            assert isinstance(found, SandboxError), found
    await sandbox.close()


async def test_an_iterator_that_is_dropped_stops_its_run(tier: Tier, name: str) -> None:
    async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1)) as sandbox:
        source = tools(name) + "def evaluate(n):\n    if n: forked(lambda: time.sleep(600), 5), time.sleep(600)\n"
        program = await sandbox.load(python(source), LIMITS)
        told = program.run([Call(id=n, arguments={"n": n}) for n in range(3)], LIMITS)
        assert isinstance(told, AsyncGenerator)
        assert (await anext(told)).status == "ok"
        await asyncio.to_thread(begun, name, 6)
        await told.aclose()
        assert await asyncio.to_thread(_at_most, name, 1)


def test_a_loop_that_ends_without_closing_leaves_nothing_when_the_process_ends(tier: Tier, name: str) -> None:
    code = HOST.replace(
        "async with ProcessSandbox(config) as sandbox:", "sandbox = ProcessSandbox(config)\n    if True:"
    )
    code = code.replace("        program =", "        await sandbox.open()\n        program =")
    command = [sys.executable, "-W", "ignore", "-c", code, tier, tools(name) + "def evaluate(): return 1\n", "2"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, b"ok\nok\n"), done.stderr
    assert gone(name)


def test_two_sandboxes_at_once_do_not_disturb_each_other(tier: Tier, name: str) -> None:
    limits = LIMITS.model_copy(update={"timeout": 1.0})

    async def body() -> tuple[list[Execution], list[Execution]]:
        first, second = await asyncio.gather(opened(tier, jobs=1), opened(tier, jobs=1))
        try:
            attack, quiet = await asyncio.gather(
                first.load(python(tools(name) + KILLS), limits), second.load(python(tools(name) + QUIET), limits)
            )
            return await asyncio.gather(_all(attack, 5, limits), _all(quiet, 20))
        finally:
            await asyncio.gather(first.close(), second.close())

    attacked, quiet = run(body())
    assert len(attacked) == 5
    assert [(e.status, e.value) for e in quiet] == [("ok", n) for n in range(20)]


async def _all(program: Any, count: int, limits: Limits = LIMITS) -> list[Execution]:
    batch = [Call(id=n, arguments={"n": n} if count > 1 else {}) for n in range(count)]
    return [e async for e in program.run(batch, limits)]


def _at_most(name: str, count: int) -> bool:
    until = time.monotonic() + GONE
    while len(named(name)) > count and time.monotonic() < until:
        time.sleep(0.02)
    return len(named(name)) <= count
