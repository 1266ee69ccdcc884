"""Who works on a cached thing, and who uses it: locks that the kernel lets go of when their holder dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from sandboxes.cache import delete, mark_used

if sys.platform != "win32":
    import fcntl

Say = Callable[[str], None]

UNFINISHED = ".unfinished-"
"""Folders with this prefix are work in progress, or were when their maker was killed."""

_held: dict[tuple[int, int], int] = {}  # (device, inode) -> descriptor, kept open until this process ends


@contextlib.asynccontextmanager
async def alone(folder: Path, key: str, *, say: Say, deadline: float) -> AsyncIterator[Path]:
    """
    An empty folder to work in, by one process at a time for each key; deleted at the end.

    What killed workers left behind, of this key or another, is deleted too. Raises TimeoutError past the deadline.
    """
    lock = FileLock(folder / f"{key}.lock", mode=0o600)
    await _acquire(lock, say, deadline)
    try:
        for left in folder.glob(f"{UNFINISHED}*-*"):
            _clear(left, key)
        work = Path(tempfile.mkdtemp(dir=folder, prefix=f"{UNFINISHED}{key}-"))
        try:
            yield work
        finally:
            delete(work)
    finally:
        lock.release()


def key_of(name: str) -> str:
    """The key that a file or folder is built under, by its name `KEY`, `KEY-DIGEST.suffix` or `.unfinished-KEY-any`."""
    whole = name.removeprefix(UNFINISHED)
    return whole.rpartition("-")[0] or whole


def _clear(left: Path, own: str) -> None:
    """Deletes unfinished work whose worker is dead: its lock is free, or ours."""
    if key_of(left.name) == own:
        delete(left)
        return
    lock = FileLock(left.parent / f"{key_of(left.name)}.lock", mode=0o600)
    with contextlib.suppress(Timeout), lock.acquire(blocking=False):
        delete(left)


async def _acquire(lock: FileLock, say: Say, deadline: float) -> None:
    told = False
    while True:
        try:
            lock.acquire(blocking=False)
            return
        except Timeout:
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError from None
        if not told:
            say("packages: waiting for another evalcell that prepares the same packages")
            told = True
        await asyncio.sleep(0.05)


def use(marker: Path) -> bool:
    """
    Marks the thing as used by this process until it ends, and as wanted now. False: it is gone, or going.

    Whoever deletes takes the marker for itself first (see `unused`), and so leaves alone what is used.
    """
    fd = _shared(marker)
    if fd is None:
        return False
    found = os.fstat(fd)
    if _held.setdefault((found.st_dev, found.st_ino), fd) != fd:
        os.close(fd)
    return True


@contextlib.contextmanager
def using(marker: Path) -> Iterator[bool]:
    """As `use`, until the block ends."""
    fd = _shared(marker)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def _shared(marker: Path) -> int | None:
    try:
        fd = os.open(marker, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        if _try(fd, shared=True) and os.path.samestat(os.fstat(fd), marker.lstat()):
            mark_used(marker)
            return fd
    except FileNotFoundError:
        pass
    os.close(fd)
    return None


@contextlib.contextmanager
def unused(marker: Path) -> Iterator[bool]:
    """Whether nobody uses the thing; while the block lasts, nobody begins to."""
    try:
        fd = os.open(marker, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        yield True  # incomplete: nobody can be using it
        return
    try:
        yield _try(fd, shared=False)
    finally:
        os.close(fd)


def age(path: Path) -> float:
    """Seconds since it was wanted."""
    return time.time() - path.lstat().st_mtime


def _try(fd: int, *, shared: bool) -> bool:
    """Takes the lock if it is free. On a disk without locks everything counts as free."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
