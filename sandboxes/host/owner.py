"""Who can have written a file, and who can exchange it: as strict as ssh is with its own."""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_ours(status: os.stat_result) -> bool:
    """Say whether nobody else can have written it, except the system's own user, who can do anything."""
    return not hasattr(os, "getuid") or (is_trusted(status) and not status.st_mode & OTHERS_WRITE)


def is_trusted(status: os.stat_result) -> bool:
    """Say whether this user has it, or the system's own."""
    return status.st_uid in (os.getuid(), 0)


def fault_above(path: Path) -> str | None:
    """Return what lets others exchange what is at the path through a folder above it; None if nobody can."""
    for folder in dict.fromkeys((*path.absolute().parents, *path.resolve().parents)):
        try:
            found = folder.lstat()
        except FileNotFoundError:
            continue  # to be made
        if not _is_known(found):
            return f"{folder} belongs to another user"
        if stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX:
            continue  # in /tmp and its like nobody else can exchange what is ours
        others = found.st_mode & OTHERS_WRITE
        if others & stat.S_IWOTH or (others and not _is_private(found.st_gid)):
            return f"others may write to {folder}"
    return None


def belongs_to_another(folder: Path) -> bool:
    """Say whether it, or what is there of it, is neither this user's nor the system's."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    return not _is_known(there.stat())


def _is_known(found: os.stat_result) -> bool:
    return is_trusted(found) or found.st_uid == _unmapped()


def open_ours(path: Path) -> int | None:
    """Return a descriptor of a file, which is no link, and that nobody else can have written. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and is_ours(found):
        return descriptor
    os.close(descriptor)
    return None


@cache
def _is_private(group: int) -> bool:
    """Whether the group is this user's alone, as many systems make one for each user."""
    import grp
    import pwd

    try:
        me, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return me.pw_gid == group and found.gr_name == me.pw_name and {*found.gr_mem} <= {me.pw_name}


@cache
def _unmapped() -> int | None:
    """The user as whom root's own files appear in a user namespace, where root is not there; None elsewhere."""
    try:
        if Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]:
            return None
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return None
