"""Locks on entries of the cache, for building and for using them; the kernel releases them when their process dies."""

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

UNFINISHED_PREFIX = ".unfinished-"
"""Prefix of folders in which a process builds an entry, or built one when it was killed."""

_held: dict[tuple[int, int], int] = {}  # (device, inode) -> descriptor, kept open until this process ends


@contextlib.asynccontextmanager
async def work_folder(folder: Path, key: str, *, say: Say, deadline: float) -> AsyncIterator[Path]:
    """
    Give one process at a time for each key an empty folder to work in; delete it at the end.

    Folders of killed processes, for this or another key, are deleted too. Raises TimeoutError past the deadline.
    """
    lock = FileLock(folder / f"{key}.lock", mode=0o600)
    await _acquire(lock, say, deadline)
    try:
        for left in folder.glob(f"{UNFINISHED_PREFIX}*-*"):
            _clear(left, key)
        work = Path(tempfile.mkdtemp(dir=folder, prefix=f"{UNFINISHED_PREFIX}{key}-"))
        try:
            yield work
        finally:
            delete(work)
    finally:
        lock.release()


def key_of(name: str) -> str:
    """Return the key in a file's or folder's name: `KEY`, `KEY-DIGEST.suffix` or `.unfinished-KEY-any`."""
    whole = name.removeprefix(UNFINISHED_PREFIX)
    return whole.rpartition("-")[0] or whole


def _clear(left: Path, own: str) -> None:
    """Delete unfinished work of a dead process: its lock is free, or ours."""
    if key_of(left.name) == own:
        delete(left)
        return
    lock = FileLock(left.parent / f"{key_of(left.name)}.lock", mode=0o600)
    with contextlib.suppress(Timeout), lock.acquire(blocking=False):
        delete(left)


async def _acquire(lock: FileLock, say: Say, deadline: float) -> None:
    said = False
    while True:
        try:
            lock.acquire(blocking=False)
            return
        except Timeout:
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError from None
        if not said:
            say("packages: waiting for another evalcell that is preparing the same packages")
            said = True
        await asyncio.sleep(0.05)


def use(marker: Path) -> bool:
    """
    Mark an entry as used by this process until it ends, and as last used now. False: it was or is being deleted.

    Whoever deletes an entry locks its marker first (see `exclusive`), so an entry in use is kept.
    """
    fd = _open_shared(marker)
    if fd is None:
        return False
    found = os.fstat(fd)
    if _held.setdefault((found.st_dev, found.st_ino), fd) != fd:
        os.close(fd)
    return True


@contextlib.contextmanager
def share_lock(marker: Path) -> Iterator[bool]:
    """Use it until the block ends."""
    fd = _open_shared(marker)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def _open_shared(marker: Path) -> int | None:
    try:
        fd = os.open(marker, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        if _try_lock(fd, shared=True) and os.path.samestat(os.fstat(fd), marker.lstat()):
            mark_used(marker)
            return fd
    except FileNotFoundError:
        pass
    os.close(fd)
    return None


@contextlib.contextmanager
def exclusive(marker: Path) -> Iterator[bool]:
    """Say whether nobody uses the entry; until the block ends, nobody can begin to."""
    try:
        fd = os.open(marker, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        yield True  # without a marker it is incomplete, and nobody can be using it
        return
    try:
        yield _try_lock(fd, shared=False)
    finally:
        os.close(fd)


def age(path: Path) -> float:
    """Return the seconds since it was last used."""
    return time.time() - path.lstat().st_mtime


def _try_lock(fd: int, *, shared: bool) -> bool:
    """Take the lock if it is free; on a disk without locks it always counts as free."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
