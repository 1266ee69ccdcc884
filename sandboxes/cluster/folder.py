"""Temporary folders that are held: where their process was killed, the next one deletes them."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from sandboxes.cache import delete, is_ours

if sys.platform != "win32":
    import fcntl


class HeldFolder:
    """A new folder, held until it is closed."""

    def __init__(self, above: Path, name: str) -> None:
        """`above` is where it is made, and `name` what its own begins with, as those that `sweep` deletes."""
        self._lock: int | None = None
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=name, dir=above))
            with contextlib.suppress(FileNotFoundError):
                self._lock = _hold(self.path)
            if self._lock is not None or sys.platform == "win32":
                return  # else another run has deleted it before it was held

    def close(self) -> None:
        """Delete it. Safe twice."""
        delete(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep(above: Path, name: str) -> None:
    """Delete the folders of this name that nobody holds."""
    for old in above.glob(f"{name}*"):
        _delete_unheld(old)


def _hold(folder: Path) -> int | None:
    """The lock of a folder, which the system lets go of where its process ends. None: another one has it."""
    if sys.platform == "win32":
        return None
    found = os.open(folder / ".held", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(found)
        return None
    return found


def _delete_unheld(folder: Path) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        if folder.is_symlink() or not is_ours(folder.stat()):
            return
        if (lock := _hold(folder)) is not None:
            delete(folder)
            os.close(lock)
