"""A job that is stopped and goes on, as by Ctrl-Z, or a container that is frozen: no row fails for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from sandboxes import Limits
from sandboxes.guest.supervisor import procfs
from tests.sandboxes.backends import BACKENDS, Backend, calls, evaluate, unavailable

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
    pytest.mark.rotating("stopped jobs", "sandboxes"),
]

STOPPED = 3.0
"""Seconds; longer than the rows' timeout."""

CLOCK = """
import os, sys, time
from sandboxes.guest.supervisor import clock
if sys.argv[1] == "fork":
    clock.hold("before")
    if pid := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
clock.hold("test")
began, real, last = clock.now(), time.monotonic(), 0.0
print(os.getpid(), flush=True)
while time.monotonic() < real + 4:
    now = clock.now()
    assert now >= last, (now, last)
    last = now
clock.release("test")
assert clock.now() >= last
print(time.monotonic() - real, last - began, clock.now() - began)
"""


def stop(pids: list[int]) -> None:
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(STOPPED if number is signal.SIGSTOP else 0)


@pytest.mark.parametrize("way", ["here", "fork"])
def test_a_clock_leaves_out_the_time_in_which_nothing_ran_and_never_goes_back(way: str) -> None:
    with subprocess.Popen([sys.executable, "-c", CLOCK, way], stdout=-1, text=True) as process:
        assert process.stdout
        stop([int(process.stdout.readline())])
        told, _ = process.communicate()
    assert process.returncode == 0
    real, counted, after = map(float, told.split())
    assert real >= 4
    assert counted <= after < real - STOPPED + 0.5


@pytest.mark.parametrize(
    ("name", "isolation"),
    [
        *(
            ("wasm-restore", "call"),
            ("wasm-workers", "batch"),
            ("process-A-batch", "batch"),
            ("process-B-call", "call"),
        ),
        *(("deno-A-batch", "batch"), ("deno-B-call", "call"), ("e2b", "batch"), ("modal", "call")),
        ("modal-typescript", "batch"),
    ],
)
def test_no_row_in_flight_fails_when_everything_is_stopped_for_longer_than_its_time(name: str, isolation: str) -> None:
    if missing := unavailable(next(each for each in BACKENDS if each.id == name)):
        pytest.skip(missing)
    words = [sys.executable, "-m", "tests.sandboxes.stopped", name, isolation]
    with subprocess.Popen(words, stdout=-1, text=True) as process:
        assert process.stdout
        first = process.stdout.readline()
        stop([process.pid, *procfs.descendants(process.pid)])
        told, _ = process.communicate()
    assert (first + told).split() == ["ok"] * 3
    assert process.returncode == 0


@pytest.mark.parametrize(
    "backend", [b for b in BACKENDS if b.id in ("process-A-call", "process-A-batch")], ids=lambda b: b.id
)
def test_a_script_that_stops_itself_stops_no_clock(backend: Backend) -> None:
    if missing := unavailable(backend):
        pytest.skip(missing)
    script = "import os, signal\ndef evaluate(): os.kill(os.getpid(), signal.SIGSTOP)"
    assert [e.status for e in evaluate(backend, script, calls(2), limits=Limits(timeout=0.5))] == ["timeout"] * 2
