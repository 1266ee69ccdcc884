"""Files that a user names may be pipes or devices: to open one never waits, and none but a regular file is read."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file to be read. Raises OSError, whose `strerror` says what else it is, and ValueError."""
    return open(path, "rb", opener=_opener)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Read at most this many bytes of a regular file. Raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read(most)


def _opener(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # to open a pipe would wait for its writer
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file: save what it gives as one", path)
