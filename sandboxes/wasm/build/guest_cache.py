"""Guests built on this machine, kept in the cache folder by the hash of their sources."""

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from .manifest import CODE, MANIFEST, MEMORY, is_current
from .tools import cache_folder, write_atomically

MOST = 4
"""The number of guests kept, the newest; each has about 30 MB."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def fetch(inputs: str) -> dict[str, bytes] | None:
    """Return the three files of a guest built from these inputs; None if there is no complete one of ours."""
    folder = _folder(inputs)
    if not (all(map(is_ours, (cache_folder(), folder.parent, folder))) and is_current(folder, inputs)):
        return None
    with contextlib.suppress(OSError):
        found = {name: (folder / name).read_bytes() for name in (CODE, MEMORY, MANIFEST)}
        os.utime(folder)
        return found
    return None


def keep(inputs: str, files: Mapping[str, bytes]) -> None:
    """Keep a guest, if possible; a cache is not necessary."""
    folder = _folder(inputs)
    with contextlib.suppress(OSError):
        there = next(one for one in folder.parents if one.exists())
        if hasattr(os, "getuid") and there.stat().st_uid not in (os.getuid(), 0):
            return  # root with the HOME of somebody else would make what is in their way
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(folder, files)
        guests = sorted(folder.parent.glob("guest-*"), key=lambda path: path.stat().st_mtime)
        for old in guests[:-MOST]:
            shutil.rmtree(old, ignore_errors=True)


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, the manifest last, so that an interrupted write never looks complete. Raises OSError."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for name in (CODE, MEMORY, MANIFEST):
        write_atomically(folder / name, files[name])


def _folder(inputs: str) -> Path:
    return cache_folder() / "build" / f"guest-{inputs[:32]}"


def is_ours(folder: Path) -> bool:
    """Say whether nobody else can have written to it, since its content becomes part of every wheel."""
    try:
        found = folder.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (os.getuid(), 0) and not found.st_mode & _OTHERS_WRITE
