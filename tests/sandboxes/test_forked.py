"""A child that the host forks holds all that the host has open; what we started ends all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxes.guest.supervisor import procfs
from tests.sandboxes.backends import BACKENDS, unavailable
from tests.sandboxes.hostile.driven import ROOT

HOST = """
import asyncio, contextlib, os, signal, sys
from sandboxes import Call
from sandboxes.boxes import box
from tests.sandboxes.backends import BACKENDS, LIMITS

box.GRACE = 3600  # nothing is to be ended from outside
script = {
    "python": "def evaluate(x):\\n    while x: pass\\n",
    "typescript": "export function evaluate({x}: {x: boolean}) { while (x); }",
}

def forked():
    if (pid := os.fork()) == 0:
        os.close(1)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(100)
        signal.pause()
    return pid

async def main(id, how):
    backend = next(backend for backend in BACKENDS if backend.id == id)
    async with backend.make(backend.isolation) as sandbox:
        program = await sandbox.load(backend.script(script[backend.language]), LIMITS)
        running = program.run([Call(id=0, arguments={"x": how == "kill"})], LIMITS.model_copy(update={"timeout": 60}))
        if how == "close":
            [execution async for execution in running]
        child = forked()
        print(child, flush=True)
        if how == "kill":
            await anext(running)
    print("closed", flush=True)
    os.kill(child, signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""
"""A host application that forks a child, which sleeps."""

SECONDS = 30.0

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no handles on processes"),
    pytest.mark.rotating("promises", "sandboxes"),
]


@pytest.fixture(params=["process-A-call", "process-B-batch", "deno-A-call", "deno-B-batch", "wasm-workers"])
def id(request: pytest.FixtureRequest) -> str:
    backend = next(backend for backend in BACKENDS if backend.id == request.param)
    if missing := unavailable(backend):
        pytest.skip(missing)
    return backend.id


def host(id: str, how: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", HOST, id, how], env=environment, text=True, stdout=subprocess.PIPE)


def test_closing_needs_no_force(id: str) -> None:
    said, _ = host(id, "close").communicate(timeout=SECONDS)
    assert said.split()[1:] == ["closed"]


def test_what_a_killed_host_leaves_ends_though_the_child_lives(id: str) -> None:
    with host(id, "kill") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            started = set(procfs.descendants(process.pid)) - {child}
            assert started
            process.kill()
            process.wait()
            until = time.monotonic() + SECONDS
            while left := [pid for pid in started if _runs(pid)]:
                assert time.monotonic() < until, left
                time.sleep(0.01)
            assert _runs(child)
        finally:
            os.kill(child, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
