"""The guest as native code: compiled once per machine, wasmtime version and guest, then kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import wasmtime
from wasmtime import Module, WasmtimeError

from sandboxes.cache import cache_dir, cached
from sandboxes.errors import SandboxUnavailableError
from sandboxes.wasm.engine import GUEST, SETTINGS, configure, guest_file

Progress = Callable[[str], None]

PARTS = ("code", "memory")
SUFFIX = ".cwasm"


class Compiled(NamedTuple):
    """Paths of verified native code; only to be loaded by the process that verified it, and those it has started."""

    code: Path
    memory: Path


def compiled(progress: Progress) -> Compiled:
    """
    The compiled guest. What the cache holds is checked each time; what is missing, damaged or not ours is built.

    `progress` is called with a line for the user when that takes long. Raises SandboxUnavailableError.
    """
    engine = wasmtime.Engine(configure(parallel=True))
    return Compiled(*(_part(engine, part, progress) for part in PARTS))


def _part(engine: wasmtime.Engine, part: str, progress: Progress) -> Path:
    name = f"{part}.wasm"
    digest = _digest(name)

    def build() -> bytearray:
        if part == "code":
            progress(f"compiling the sandbox for this machine, once, some seconds (kept in {cache_dir()})")
        source = guest_file(name)
        if hashlib.sha256(source).hexdigest() != digest:
            raise SandboxUnavailableError(f"{GUEST.name}/{name} is damaged; reinstall evalcell")
        try:
            return Module(engine, source).serialize()
        except WasmtimeError as e:
            raise SandboxUnavailableError(f"{GUEST.name}/{name} does not compile ({e}); reinstall evalcell") from e

    key = f"{part}-{_fingerprint(digest)}"
    path = cached("wasm", key, SUFFIX, build)
    if not _loads(engine, path):  # another processor, or settings that the key does not know
        path.unlink(missing_ok=True)
        path = cached("wasm", key, SUFFIX, build)
    return path


def _digest(name: str) -> str:
    """The SHA-256 of a built file, as the guest's manifest tells it: the file is large, and only read to compile it."""
    try:
        return str(json.loads(guest_file("guest.json"))["files"][name]["sha256"])
    except (ValueError, KeyError, TypeError) as e:
        raise SandboxUnavailableError(f"the wasm guest's manifest is damaged ({e}); reinstall evalcell") from e


def _fingerprint(source: str) -> str:
    """Of all that decides what the native code looks like."""
    about = f"{version('wasmtime')} {sys.platform} {platform.machine()} {SETTINGS} {source}"
    return hashlib.sha256(about.encode()).hexdigest()[:24]


def _loads(engine: wasmtime.Engine, path: Path) -> bool:
    try:
        Module.deserialize_file(engine, str(path))
    except WasmtimeError:
        return False
    return True
