"""Remove what a script has left on a machine's file system, if it could not be given one of its own."""

from __future__ import annotations

import contextlib
import os

_OPEN = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders that every user may write to; others are not searched."""


def sweep(uid: int) -> bool:
    """Remove everything there that belongs to this user, who must have no process; whether there was anything."""
    found = False
    for top in _OPEN:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(top)):
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    found = True
                    _remove(top, entry)
    return found


def _remove(top: str, entry: os.DirEntry[str]) -> None:
    """Remove an entry of any depth: folders in it are moved up first, so that paths stay short."""
    left = [entry.path]
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(left.pop())
    while left:
        folder = left.pop()
        for below in list(os.scandir(folder)):
            if below.is_dir(follow_symlinks=False):
                left.append(f"{top}/{os.getrandom(16).hex()}")
                os.rename(below.path, left[-1])
            else:
                os.unlink(below.path)
        os.rmdir(folder)
