"""A folder of the host's that a box may read, and a box with one."""

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
from sandboxes.boxes.launch import Shown, Tier, plan

PREFIX = "evalcell-deno-"

YOUNG = 60.0
"""Seconds in which a folder is nobody's leftover."""


class Folder:
    """A folder of the host's that a box may read: named pipes, until Deno has opened them, or files."""

    def __init__(self, pipes: Sequence[str] = (), files: Mapping[str, str] | None = None) -> None:
        place = _place()
        sweep(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._lock = _locked(self.path)
        try:
            for name in pipes:
                os.mkfifo(self.path / name, 0o600)
            for name, text in (files or {}).items():
                (self.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        except BaseException:
            self.remove()
            raise

    def give(self, uid: int | None) -> None:
        """To the user as whom Deno will run."""
        if uid is not None:
            for path in (*self.path.iterdir(), self.path):
                os.chown(path, uid, uid)

    def remove(self) -> None:
        """Safe twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@cache
def sweep(place: str) -> None:
    """Removes, once a process, the folders of processes that were killed: nobody holds their locks any more."""
    with contextlib.suppress(OSError), os.scandir(place) as found:
        for one in found:
            with contextlib.suppress(OSError):
                if not (one.name.startswith(PREFIX) and _is_left(one.stat(follow_symlinks=False))):
                    continue
                if (lock := _locked(one.path)) is not None:
                    shutil.rmtree(one.path, ignore_errors=True)
                    os.close(lock)


def _is_left(found: os.stat_result) -> bool:
    """Whether it may be deleted where nobody holds it. One that was made just now may not have its lock yet."""
    return os.geteuid() in (0, found.st_uid) and time.time() - found.st_mtime > YOUNG


def _locked(folder: str | Path) -> int | None:
    """A descriptor that holds the folder's lock as long as this process lives; None: another one does."""
    import fcntl  # not on Windows, where providers are used from

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _place() -> str:
    """The folder for temporary files, unless other users cannot get there: scripts of root run as one."""
    chosen = tempfile.gettempdir()
    return chosen if os.geteuid() or reachable(chosen) else "/tmp"


class FolderBox(Box):
    """Has its folder removed when it ends, at the latest."""

    def __init__(self, tier: Tier, shown: Shown, bwrap: str | None, folder: Folder) -> None:
        """Starts its first process. Raises BoxError."""
        self._folder = folder
        try:
            made = plan(tier, shown, bwrap, folder.path)
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
