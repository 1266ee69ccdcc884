"""Removes what a script has left on a machine's own file system, where it could not be given one of its own."""

from __future__ import annotations

import contextlib
import os

_OPEN = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders that every user may write to; more are not looked for."""


def sweep(uid: int) -> bool:
    """Everything there that belongs to this user, of which no process may be left. Whether there was anything."""
    found = False
    for top in _OPEN:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(top)):
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    found = True
                    _remove(top, entry)
    return found


def _remove(top: str, entry: os.DirEntry[str]) -> None:
    """However deep it is: folders in it are moved up first, so that no path grows long."""
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
