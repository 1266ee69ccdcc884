"""What loading may leave: it is found, told, and costs a load for each run; what packages are imported once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Limits
from sandboxes.boxes import tiers
from sandboxes.boxes.host_files import View
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.cli.commands import evalcell
from tests.process.conftest import LIMITS, run
from tests.scripts import python

pytestmark = pytest.mark.rotating("process", "process")

EVALUATE = "def evaluate(): return 1\n"

LEAVES = {
    "a pipe": ("import os\nkept = os.pipe()\n", "descriptors"),
    "another input": ("import os\na, b = os.pipe()\nos.dup2(a, 0), os.close(a), os.close(b)\n", "descriptors"),
    "an event loop": ("import asyncio\nloop = asyncio.new_event_loop()\n", "descriptors"),
    "a thread": ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n", "threads"),
    "a thread that Python did not start": (
        "import ctypes, threading\n"
        "waits = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: threading.Event().wait() or 0)\n"
        "made = ctypes.c_ulong()\n"
        "ctypes.CDLL(None).pthread_create(ctypes.byref(made), None, waits, None)\n",
        "threads",
    ),
    "a thread of native code": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nmade = ctypes.c_ulong()\n"
        "libc.pthread_create(ctypes.byref(made), None, libc.pause, None)\n",
        "threads",
    ),
    "a process": ("import os, time\nif os.fork() == 0: time.sleep(60)\n", "processes"),
    "an orphan": (
        "import os, time\nif os.fork() == 0:\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\nos.wait()\n",
        "processes",
    ),
    "a handler": ("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n", "signals"),
    "a timer": ("import signal\nsignal.setitimer(signal.ITIMER_REAL, 60)\n", "signals"),
    "an audit hook": ("import sys\nsys.addaudithook(lambda *_: None)\n", "hooks"),
    "a hook at forks": ("import os\nos.register_at_fork(after_in_parent=print)\n", "hooks"),
    "a hook of the collector": ("import gc\ngc.callbacks.append(lambda *_: None)\n", "hooks"),
    "a tracer": ("import sys\nsys.settrace(lambda *_: None)\n", "hooks"),
    "a profiler": ("import sys\nsys.setprofile(lambda *_: None)\n", "hooks"),
    "another os.fork": ("import os\nos.fork = lambda real=os.fork: real()\n", "patches"),
    "another len": ("import builtins\nbuiltins.len = lambda what, real=len: real(what)\n", "patches"),
    "another method": ("import random\nrandom.Random.gauss = lambda *given: 0\n", "patches"),
    "other code": ("import json\njson.load.__code__ = (lambda *given, **named: 0).__code__\n", "patches"),
    "a pipe above its own limit": (
        "import os, resource\na, b = os.pipe()\nos.dup2(a, 40), os.dup2(b, 41), os.close(a), os.close(b)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (30, 64))\n",
        "descriptors",
    ),
    "another class of a module": (
        "import os, types\nos.__class__ = type('Module', (types.ModuleType,), {})\n",
        "patches",
    ),
    "a name of ours": ("import sys\nsys._getframe(2).f_globals['len'] = lambda what: what.__len__()\n", "patches"),
}  # fmt: skip

NOTHING = {
    "modules": "import asyncio, ctypes, decimal, json, logging, multiprocessing, random, tempfile, unittest.mock\n",
    "a closed file": "import os\nos.close(os.open('/dev/null', 0))\n",
    "an ended thread": "import threading\nended = threading.Thread(target=print)\nended.start(), ended.join()\n",
    "an ended process": "import os\nif os.fork() == 0: os._exit(0)\nos.wait()\n",
    "a hook in children": "import os\nos.register_at_fork(after_in_child=print)\n",
    "random numbers": "import random\nrandom.seed(5), random.random()\n",
    "a patch of what we do not use": "import socket\nsocket.socket.close = lambda *given: 0\n",
    "variables": "import os\nos.environ['X'] = 'y'\n",
    "async": "async def first(): return 1\n",
}


async def left(tier: Tier, *scripts: str) -> list[list[str]]:
    """What is told of loading each."""
    async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1, isolation="call")) as sandbox:
        found = []
        for script in scripts:
            told: list[str] = []
            sandbox.warn = told.append
            program = await sandbox.load(python(script + EVALUATE), LIMITS)
            assert program.loaded.status == "ok", program.loaded
            assert [e.value async for e in program.run([Call(id=0), Call(id=1)], LIMITS)] == [1, 1]
            await program.close()
            found.append(told)
        return found


def test_what_is_left_is_told(tier: Tier) -> None:
    found = run(left(tier, *(script for script, _ in LEAVES.values())))
    for told, (name, (_, kind)) in zip(found, LEAVES.items(), strict=True):
        assert len(told) == 1, name
        assert tiers.LEFTOVERS[kind] in told[0], name
        assert "loaded again for each row" in told[0]


def test_a_script_that_leaves_nothing_is_loaded_once(tier: Tier) -> None:
    found = run(left(tier, *NOTHING.values()))
    assert dict(zip(NOTHING, found, strict=True)) == {name: [] for name in NOTHING}


def test_check_and_run_tell_why_a_script_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opens.py").write_text("import os\nkept = os.pipe()\ndef evaluate(output): return output\n")
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n')
    why = "loading the script leaves an open file, socket or event loop, so it is loaded again for each"
    for command, each in ((["check"], "batch"), (["run", "--isolation", "call"], "row")):
        done = evalcell(*command, "opens.py", "rows.jsonl", "--sandbox", "process")
        assert done.exit_code == 0, done.output
        assert f"{why} {each}" in " ".join(done.output.split())


AGAIN = "import os, sys, time\nagain = 'wave' in sys.modules\nimport wave\nkept = os.pipe()\n"
"""A script that can tell whether it is loaded by a row: what it imports is there already."""


async def rows(script: str, limits: Limits = LIMITS, isolation: str = "call", count: int = 2) -> list[Execution]:
    config = ProcessConfig.model_validate({"jobs": 1, "isolation": isolation})
    async with ProcessSandbox(config) as sandbox:
        program = await sandbox.load(python(AGAIN + script), limits)
        assert program.loaded.status == "ok", program.loaded
        return [e async for e in program.run([Call(id=n) for n in range(count)], limits)]


def test_what_it_imports_is_imported_once() -> None:
    assert [e.value for e in run(rows("def evaluate(): return again\n"))] == [True, True]


@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_a_row_whose_load_fails_is_that_rows_failure(isolation: str) -> None:
    found = run(rows(f"if again: raise ValueError('unlucky')\n{EVALUATE}", isolation=isolation))
    assert [(e.call, e.status, e.error.type, e.error.message) for e in found] == [
        (n, "error", "ValueError", "unlucky") for n in range(2)
    ]


def test_what_ends_a_load_is_told_of_its_row() -> None:
    found = run(rows(f"if again: os._exit(3)\n{EVALUATE}"))
    assert [(e.status, "exit code 3" in e.error.message) for e in found] == [("crash", True)] * 2


def test_loading_for_a_row_has_the_time_of_loading() -> None:
    limits = LIMITS.model_copy(update={"timeout": 1.0})
    found = run(rows(f"if again: time.sleep(1.2)\n{EVALUATE}", limits))
    assert [e.status for e in found] == ["ok", "ok"]
    assert all(e.duration < 1 for e in found)


def test_a_load_that_hangs_for_a_row_is_stopped() -> None:
    limits = LIMITS.model_copy(update={"load_timeout": 2.0})
    (found,) = run(rows(f"while again: pass\n{EVALUATE}", limits, count=1))
    assert found.status == "timeout"
    assert "loading took longer than 2 s" in found.error.message


def test_what_loading_prints_is_no_rows() -> None:
    found = run(rows("print('loading')\ndef evaluate(): print('row')\n"))
    assert [e.output for e in found] == ["row\n", "row\n"]


class _Installed(ProcessSandbox):
    """With packages that are there already."""

    folder: Path

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._packages = ("any",)

    async def _install(self, host: View) -> Path:
        return self.folder


async def test_a_package_that_opens_something_is_imported_by_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir(mode=0o755)
    (folder / "opens.py").write_text("import os\nread, write = os.pipe()\nos.set_blocking(read, False)\n")
    os.chmod(folder / "opens.py", 0o644)
    monkeypatch.setattr(_Installed, "folder", folder, raising=False)
    script = """
import os, sys
there = "opens" in sys.modules
import opens
def evaluate():
    try: got = os.read(opens.read, 9).decode()
    except BlockingIOError: got = ""
    os.write(opens.write, b"x")
    return [there, got]
"""

    async with _Installed(ProcessConfig(jobs=1, isolation="call")) as sandbox:
        program = await sandbox.load(python(script), LIMITS)
        assert program.loaded.status == "ok", program.loaded
        assert [e.value async for e in program.run([Call(id=n) for n in range(3)], LIMITS)] == [[False, ""]] * 3


@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_a_lock_that_loading_makes_is_no_two_runs(isolation: str) -> None:
    lock = "import multiprocessing\nlock = multiprocessing.get_context('fork').Lock()\n"
    script = lock + "def evaluate(): return lock.acquire(block=False)\n"
    found = [run(rows(script, isolation=isolation, count=count)) for count in (1, 2)]
    expected = [[True], [True, isolation == "call"]]
    assert [[e.value for e in each] for each in found] == expected
