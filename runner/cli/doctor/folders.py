"""The folders that evalcell writes to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runner.cli.doctor.finding import Finding, ok, problem, warning
from runner.core.text import size_of
from sandboxes.cache import VARIABLE, cache_dir, is_noexec, private_dir
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import ledger

_CACHE = 300 << 20
"""Bytes: the compiled sandbox takes 75 MB, a set of packages some more."""
_TEMPORARY = 100 << 20


def home() -> Iterator[Finding]:
    """Say whether this user has a folder to keep things in."""
    user = f"user {os.getuid()}" if hasattr(os, "getuid") else "this user"
    try:
        path = Path.home()
    except RuntimeError:
        step = f"set HOME, or {VARIABLE} and {ledger.VARIABLE}, to folders of yours"
        yield warning("home", f"{user} has none, by HOME or in the list of users", step)
        return
    if path.is_dir() and os.access(path, os.W_OK):
        yield ok("home", f"{path}, of {user}")
    else:
        step = f"set {VARIABLE} and {ledger.VARIABLE} to folders that you may write to"
        yield warning("home", f"{path}, of {user}, cannot be written to", step)


def cache() -> Iterator[Finding]:
    """Say whether the compiled sandbox and packages can be kept."""
    try:
        path = private_dir(cache_dir())
    except SandboxUnavailableError as error:
        why, _, step = str(error).rpartition("; ")
        yield problem("cache", why or step, step)
        return
    room = shutil.disk_usage(path).free
    found = f"{path}, {size_of(room)} are free"
    if is_noexec(path):
        yield problem("cache", f"{path} is on a disk that is mounted noexec", f"set {VARIABLE} to a folder on another")
    elif not os.access(path, os.W_OK):
        yield warning("cache", f"{path} is read-only", f"what it does not hold yet needs another folder: {VARIABLE}")
    elif room < _CACHE:
        yield warning("cache", found, f"make room, run evalcell cache prune, or set {VARIABLE} to another folder")
    else:
        yield ok("cache", found)


def state() -> Iterator[Finding]:
    """Say whether the list of machines at providers can be kept."""
    try:
        path = private_dir(ledger.state_dir(), ledger.VARIABLE)
    except SandboxUnavailableError as error:
        why, _, step = str(error).rpartition("; ")
        yield warning("state", why or step, f"{step}; only providers need it")
        return
    if os.access(path, os.W_OK):
        yield ok("state", str(path))
    else:
        step = f"set {ledger.VARIABLE} to a folder that you may write to; only providers need it"
        yield warning("state", f"{path} is read-only", step)


def temporary() -> Iterator[Finding]:
    """Say whether there is room for files that a run needs for a while."""
    try:
        path = Path(tempfile.gettempdir())
        with tempfile.NamedTemporaryFile(dir=path):
            pass
    except OSError as error:
        yield problem("temporary folder", f"none can be written to ({error})", "set TMPDIR to one that can")
        return
    room = shutil.disk_usage(path).free
    found = f"{path}, {size_of(room)} are free"
    step = "make room, or set TMPDIR to another folder"
    yield ok("temporary folder", found) if room >= _TEMPORARY else warning("temporary folder", found, step)
