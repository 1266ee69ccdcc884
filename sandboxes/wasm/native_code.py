"""The guest as native code: compiled once per machine, wasmtime version and guest, then kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import NamedTuple

from sandboxes.cache import VARIABLE, cache_dir, get_or_build, is_noexec
from sandboxes.errors import SandboxUnavailableError
from sandboxes.wasm.compiler import loads, native

Progress = Callable[[str], None]

GUEST = Path(__file__).parent / "_guest"

SETTINGS = "2"
"""Part of the cache's key: to be raised with any change in `engine.configure`."""

_TO_UNPACK = 64 << 20
"""Bytes of memory that xz may take, besides the result; what the build packs takes 9 MB."""

PARTS = ("code", "memory")
SUFFIX = ".cwasm"


class NativeCode(NamedTuple):
    """Paths of verified native code, to be loaded only by the process that verified it and those that it started."""

    code: Path
    memory: Path


def compile_guest(progress: Progress, tried: bool = False, stop: Event | None = None) -> NativeCode:
    """
    Return the compiled guest. The cached files are checked each time; what is missing, damaged or not ours is built.

    `tried` also checks that it loads, which takes a process of its own.
    `progress` is called with a line for the user if that takes long. Raises SandboxUnavailableError, also soon after
    another thread sets `stop` while something is built.
    """
    return NativeCode(*(compile_part(part, progress, tried, stop) for part in PARTS))


def compile_part(part: str, progress: Progress, tried: bool = False, stop: Event | None = None) -> Path:
    """Return one of `PARTS`, as `compile_guest` gives both: they may be checked at the same time."""
    name, key = f"{part}.wasm", _key(part)
    digest = _told(name, "sha256")

    def build() -> bytes:
        if part == "code":
            progress(f"compiling the sandbox for this machine, once, which takes some seconds (kept in {cache_dir()})")
        module = guest_module(name)
        if hashlib.sha256(module).hexdigest() != digest:
            raise _damaged(name)
        return native(f"{GUEST.name}/{name}", module, stop)

    path = get_or_build("wasm", key, SUFFIX, build)
    if is_noexec(path):
        raise SandboxUnavailableError(
            f"{path.parent} is on a disk that is mounted noexec, and native code is loaded from it; "
            f"set {VARIABLE} to a folder on another disk"
        )
    if tried and not loads(path):  # for another processor, or with settings that are not in the key
        path.unlink(missing_ok=True)
        path = get_or_build("wasm", key, SUFFIX, build)
    return path


def guest_file(name: str) -> bytes:
    """Return a built file of the guest. Raises SandboxUnavailableError if it is missing."""
    try:
        return (GUEST / name).read_bytes()
    except FileNotFoundError:
        raise SandboxUnavailableError(
            "the wasm guest has not been built; in a git checkout run `pip install -e .`, else reinstall evalcell"
        ) from None


def guest_module(name: str) -> bytes:
    """
    Return one of the guest's two modules, which a wheel has as xz.

    Raises:
        SandboxUnavailableError: If missing or damaged.
    """
    try:
        return (GUEST / name).read_bytes()
    except FileNotFoundError:
        packed = guest_file(f"{name}.xz")
    try:
        import lzma  # here: only the first run on a machine needs it
    except ImportError:
        raise SandboxUnavailableError(
            "this Python has no module lzma, with which the sandbox is unpacked; install the system's liblzma and "
            "build Python anew, or take another Python"
        ) from None
    try:
        size = max(1, int(_told(name, "size")))
    except ValueError:
        raise _damaged("guest.json") from None
    try:
        return lzma.LZMADecompressor(memlimit=_TO_UNPACK).decompress(packed, max_length=size)
    except lzma.LZMAError:
        raise _damaged(name) from None


def _damaged(name: str) -> SandboxUnavailableError:
    return SandboxUnavailableError(f"{GUEST.name}/{name} is damaged; reinstall evalcell")


@cache
def wasmtime_version() -> str:
    """
    Return the version of the installed wasmtime.

    It stands in the name of the folder beside it that has its metadata: to import what reads these takes 20 ms.
    """
    found = find_spec("wasmtime")
    if found is not None and found.origin is not None:
        beside = os.listdir(os.path.dirname(os.path.dirname(found.origin)))
        names = [name for name in beside if name.startswith("wasmtime-") and name.endswith(".dist-info")]
        if len(names) == 1:
            return names[0].removeprefix("wasmtime-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version("wasmtime")


def _told(name: str, what: str) -> str:
    """What the guest's manifest says of a module: that is large, and read only to compile it."""
    try:
        return str(json.loads(guest_file("guest.json"))["files"][name][what])
    except (ValueError, KeyError, TypeError) as e:
        raise SandboxUnavailableError(f"the wasm guest's manifest is damaged ({e}); reinstall evalcell") from e


def _key(part: str) -> str:
    return f"{part}-{_fingerprint(_told(f'{part}.wasm', 'sha256'))}"


def _fingerprint(source: str) -> str:
    """A hash of everything that decides the native code."""
    about = f"{wasmtime_version()} {sys.platform} {platform.machine()} {SETTINGS} {source}"
    return hashlib.sha256(about.encode()).hexdigest()[:24]
