"""A folder of the host that a box may read, and a box with such a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from sandboxes.boxes.box import Box
from sandboxes.boxes.host_files import reachable
from sandboxes.boxes.launch import BoxSetup, Tier, plan

PREFIX = "evalcell-deno-"

YOUNG = 60.0
"""Seconds after its creation during which a folder is never deleted."""


class Folder:
    """A folder of the host that a box may read, with named pipes until Deno has opened them, or with files."""

    def __init__(self, pipes: Sequence[str] = (), files: Mapping[str, str] | None = None) -> None:
        place = _temporary_folder()
        sweep(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._lock = _lock(self.path)
        try:
            for name in pipes:
                os.mkfifo(self.path / name)
            for name, text in (files or {}).items():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                (self.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            for path in (self.path, *self.path.rglob("*")):
                path.chmod(0o700 if path.is_dir() else 0o600)  # whatever the umask
        except BaseException:
            self.remove()
            raise

    def give(self, uid: int | None) -> None:
        """Give the folder to the user that Deno will run as."""
        if uid is not None:
            for path in (*self.path.rglob("*"), self.path):
                os.chown(path, uid, uid, follow_symlinks=False)

    def remove(self) -> None:
        """Delete the folder. Safe twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@cache
def sweep(place: str) -> None:
    """Delete, once in a process, the folders of killed processes, whose locks are free."""
    with contextlib.suppress(OSError), os.scandir(place) as found:
        for one in found:
            with contextlib.suppress(OSError):
                if not (one.name.startswith(PREFIX) and _may_delete(one.stat(follow_symlinks=False))):
                    continue
                if (lock := _lock(one.path)) is not None:
                    shutil.rmtree(one.path, ignore_errors=True)
                    os.close(lock)


def _may_delete(found: os.stat_result) -> bool:
    """Whether it may be deleted if its lock is free. A new folder may not be locked yet."""
    return os.geteuid() in (0, found.st_uid) and time.time() - found.st_mtime > YOUNG


def _lock(folder: str | Path) -> int | None:
    """A descriptor that holds the folder's lock while this process lives; None if another one holds it."""
    import fcntl  # not on Windows, where providers are used from

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _temporary_folder() -> str:
    """The folder for temporary files, or /tmp if other users cannot reach it: root's scripts run as another user."""
    chosen = tempfile.gettempdir()
    return chosen if os.geteuid() or reachable(chosen) else "/tmp"


class FolderBox(Box):
    """A box that deletes its folder when it ends, if not before."""

    def __init__(self, tier: Tier, setup: BoxSetup, bwrap: str | None, folder: Folder) -> None:
        """Start the first process. Raises BoxError."""
        self._folder = folder
        try:
            made = plan(tier, setup, bwrap, folder.path)
            folder.give(made.boot["uid"])
            super().__init__(made)
        except BaseException:
            folder.remove()
            raise

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            self._folder.remove()
