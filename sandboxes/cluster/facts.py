"""Facts of a worker that decide scores: they must be the same on all nodes, and here."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sandboxes.errors import SandboxUnavailableError

Facts = dict[str, Any]

_EVERYWHERE = {"evalcell": "evalcell", "code": "evalcell's code, though not its version"}
"""What a worker and this program must have in common, in words."""
_WORKERS = {"identity": "the sandbox", "lock": "packages"}
"""What workers must have in common, in words."""
_WEB = "runner/server/http/web/"
BUILD = ("sandboxes/guest/wasm/", "sandboxes/wasm/build/", f"{_WEB}build/", f"{_WEB}assets/")
"""What makes the guest and the page, which a wheel does not have."""
_SHORT = 60  # characters of a fact in a message


def facts() -> Facts:
    """Return where this process runs, and which versions it has."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "evalcell": _version(),
        "code": _code(),
        "python": platform.python_version(),
    }


def place(theirs: Facts) -> str:
    """Return where a worker is, for people. One whose evalcell is older may not say."""
    return f"{theirs.get('host', 'an unknown node')}, process {theirs.get('pid', 'unknown')}"


def refuse_other_program(where: str, theirs: Facts) -> None:
    """Raise SandboxUnavailableError if a worker has another evalcell than this program, or does not say which."""
    here = facts()
    for name, words in _EVERYWHERE.items():
        if (found := theirs.get(name, "unknown")) != here[name]:
            raise SandboxUnavailableError(
                f"the worker at {where} differs from this program in {words} ({found}, not {here[name]}), "
                "which could change scores; install the same evalcell on each node"
            )


def refuse_other_worker(first: str, facts: Facts, where: str, theirs: Facts) -> None:
    """Raise SandboxUnavailableError if a worker differs from the first one in what decides scores."""
    for name, words in _WORKERS.items():
        if facts[name] != theirs[name]:
            found, wanted = (_said(name, values[name]) for values in (theirs, facts))
            raise SandboxUnavailableError(
                f"the worker at {where} differs from the one at {first} in {words} ({found}, not {wanted}), "
                "which could change scores; make the nodes alike, or leave that one out"
            )


def _said(name: str, value: str | None) -> str:
    if name != "lock":
        return str(value)[:_SHORT]
    return "none" if value is None else f"a lock with the digest {hashlib.sha256(value.encode()).hexdigest()[:12]}"


def _version() -> str:
    try:
        return version("evalcell")
    except PackageNotFoundError:
        return "none installed"  # its folders alone were sent, by `py_modules`


@cache
def _code() -> str:
    """
    The digest of what runs on nodes: two installations from a clone have the same version.

    That is `sandboxes`, beside scripts, and the Python of `runner`, which scores parts there.
    """
    above, found = Path(__file__).parents[2], hashlib.sha256()
    files = [path for path in (above / "sandboxes").rglob("*") if path.suffix in (".py", ".js", ".ts")]
    for path in sorted([*files, *(above / "runner").rglob("*.py")]):
        name = path.relative_to(above).as_posix()
        if not name.startswith(BUILD):
            found.update(f"{name}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]
