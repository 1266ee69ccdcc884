"""Runs pieces of code in processes of their own, where they may give up rights for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxes import guest
from sandboxes.boxes import host_files

ABOVE = Path(guest.__file__).parents[1]
UID = 61234

_PRELUDE = """
import asyncio, concurrent.futures.thread, ctypes, errno, fcntl, json, mmap, os, resource, shutil, signal
import socket, stat, struct, subprocess, sys, tempfile, termios, threading, time
sys.path.insert(0, {above!r})
from guest.box import confine
given = json.loads({given!r})
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    "0, or the number of the error"
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments))
    return ctypes.get_errno() if done < 0 else 0

def error(what, *arguments, **named):
    "None, or the name of the error"
    try:
        what(*arguments, **named)
    except OSError as e:
        return errno.errorcode[e.errno]

def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split(None, 1)[1].strip() if len(line.split()) > 1 else ""

if given["uid"]:
    os.setgroups([]), os.setgid(given["uid"]), os.setuid(given["uid"])
    libc.prctl(4, 1)  # else /proc/self would be root's
"""


def told(code: str, *, ordinary: bool = False, python: str | None = None, **given: Any) -> Any:
    """What the code prints as JSON; as an ordinary user where asked, also for root."""
    given["uid"] = UID if ordinary and os.geteuid() == 0 else 0
    whole = _PRELUDE.format(above=str(ABOVE), given=json.dumps(given)) + code
    command = [python or str(host_files.base_python()), "-I", "-S", "-B", "-c", whole]
    done = subprocess.run(
        command, capture_output=True, timeout=60, cwd="/", env={}, start_new_session=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def python_for(uid: int) -> str:
    """A Python of this version that this user may start, who may also read this checkout; else the test is skipped."""
    found = (os.path.realpath(path) for path in (sys.executable, "/usr/bin/python3"))
    python = next((path for path in found if os.path.exists(path) and host_files.reachable(path, uid)), None)
    if python is None or not host_files.reachable(str(ABOVE), uid):
        pytest.skip("an ordinary user may not read this Python, or not this checkout")
    version = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, check=True
    )
    if version.stdout.split() != [b"%d" % n for n in sys.version_info[:2]]:
        pytest.skip("the Python that an ordinary user may read is another version")
    return python


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can do it")
