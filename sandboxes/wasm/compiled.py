"""The guest as native code: compiled once per machine, wasmtime version and guest, then kept in the user's cache."""

from __future__ import annotations

import hashlib
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
    """Paths of verified native code; only to be loaded by the process that verified it, or one that it starts."""

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
    source = guest_file(f"{part}.wasm")

    def build() -> bytearray:
        if part == "code":
            progress(f"compiling the sandbox for this machine, once, some seconds (kept in {cache_dir()})")
        try:
            return Module(engine, source).serialize()
        except WasmtimeError as e:
            raise SandboxUnavailableError(f"{GUEST.name}/{part}.wasm does not compile ({e}); reinstall evalcell") from e

    key = f"{part}-{_fingerprint(source)}"
    path = cached("wasm", key, SUFFIX, build)
    if not _loads(engine, path):  # another processor, or settings that the key does not know
        path.unlink(missing_ok=True)
        path = cached("wasm", key, SUFFIX, build)
    return path


def _fingerprint(source: bytes) -> str:
    """Of all that decides what the native code looks like."""
    about = f"{version('wasmtime')} {sys.platform} {platform.machine()} {SETTINGS} ".encode()
    return hashlib.sha256(about + source).hexdigest()[:24]


def _loads(engine: wasmtime.Engine, path: Path) -> bool:
    try:
        Module.deserialize_file(engine, str(path))
    except WasmtimeError:
        return False
    return True
