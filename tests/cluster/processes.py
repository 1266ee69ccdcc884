"""The processes of a cluster's workers, and what they have started."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path


def workers() -> list[int]:
    """The processes of the workers of the tests' cluster, and of no other on this machine."""
    folder = b"RAY_TMPDIR=" + os.environ["RAY_TMPDIR"].encode() + b"\0"
    found = [pid for pid in _every() if _read(pid, "cmdline").startswith(b"ray::NodeWorker")]
    return [pid for pid in found if folder in _read(pid, "environ") + b"\0"]


def below(pids: Iterable[int]) -> set[tuple[int, str]]:
    """These processes and all that they have started, each with the time when it began."""
    parents = {pid: _status(pid) for pid in _every()}
    found = {pid for pid in pids if parents.get(pid)}
    while more := {pid for pid, status in parents.items() if status and int(status[1]) in found} - found:
        found |= more
    return {(pid, status[19]) for pid in found if (status := parents[pid])}


def left(processes: set[tuple[int, str]], seconds: float = 60.0) -> list[str]:
    """Those that are still there after a while; none as soon as all have ended."""
    deadline = time.monotonic() + seconds
    while True:
        there = [pid for pid, began in processes if _lives(pid, began)]
        if not there or time.monotonic() > deadline:
            return [f"{pid} {_read(pid, 'cmdline')[:200]!r}" for pid in there]
        time.sleep(0.1)


def _lives(pid: int, began: str) -> bool:
    status = _status(pid)
    return bool(status) and status[19] == began and status[0] != "Z"


def _every() -> list[int]:
    return [int(place.name) for place in Path("/proc").glob("[0-9]*")]


def _status(pid: int) -> list[str]:
    """The words after the name in its `stat`: its state, its parent; the twentieth is when it began."""
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
