"""One run at a time writes to a results folder."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from runner.core.errors import OutputError
from sandboxes.words.wording import Setting

if sys.platform != "win32":
    import fcntl


class FolderLock:
    """A lock on a folder, without a file for it; the kernel releases it when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def take(self) -> None:
        """Raise OutputError if another run has it. Safe twice. Where a folder cannot be locked, nothing is done."""
        if self._descriptor is not None or sys.platform == "win32":
            return
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(descriptor)
            if e.errno in (errno.EWOULDBLOCK, errno.EACCES):
                shown = Setting("output", str(self._folder))
                raise OutputError(f"{shown}: another run writes there; wait for it, or choose another") from None
            return  # some network disks lock no folders
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the lock. Safe twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)
