"""One server for a store, and nothing in its environment that it does not need."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from runner.errors import InputError
from runner.pool.variables import local_variables
from runner.store.limits import RUN, STORE
from runner.text import printable

_SECRET = re.compile(r"PASSWORD|TOKEN|SECRET|KEY|USERNAME|INDEX|URL|PROXY|NETRC", re.IGNORECASE)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the store of this folder for one server. Raises InputError if another one has it."""
    lock = FileLock(folder / "serve.lock", mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"another evalcell serve uses {printable(str(folder))}; stop it, or set EVALCELL_STATE_DIR to another one"
        ) from None
    try:
        yield
    finally:
        lock.release()


def taken() -> dict[str, str]:
    """The environment, of which this process keeps no credential: only the workers that need one get it."""
    every = dict(os.environ)
    kept = {*local_variables(every), RUN.variable, STORE.variable}
    for name in every:
        if name not in kept or _SECRET.search(name):
            del os.environ[name]
    if sys.platform == "linux":
        _hide(set(os.environ))
    return every


def _hide(kept: set[str]) -> None:
    """Wipe what this process was started with, which /proc shows to its user."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    if start:
        place = start
        for entry in ctypes.string_at(start, end - start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if value and os.fsdecode(name) not in kept:
                ctypes.memset(place + len(name) + 1, 0, len(value))
            place += len(entry) + 1
