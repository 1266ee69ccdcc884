"""A results folder may be somebody else's: what is written in it by name must be no link to another place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from runner.core.errors import OutputError
from runner.core.text import whole
from sandboxes.words.wording import Setting


def refuse_links(folder: Path, files: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Raise OutputError for a name in the folder that is neither missing nor a file, or folder, of its own."""
    for names, kind in ((files, stat.S_IFREG), (folders, stat.S_IFDIR)):
        for name in names:
            try:
                about = (folder / name).lstat()
            except OSError:
                continue  # it is not there, nor the folder perhaps
            if why := _unfit(about, kind):
                raise OutputError(
                    f"{Setting('output', whole(str(folder)))}: {name} in it {why}; move it away, or choose another "
                    "folder"
                )


def open_own(path: str, flags: int) -> int:
    """
    Return an opener: the file itself, emptied only once it is known to be no link of any kind.

    What another process puts in its place after `refuse_links` is not followed either.

    Raises:
        OSError: The system refused.
    """
    descriptor = os.open(
        path, (flags & ~os.O_TRUNC) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666
    )
    try:
        if why := _unfit(os.fstat(descriptor), stat.S_IFREG):
            raise OSError(errno.EMLINK, f"it {why}")
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unfit(about: os.stat_result, kind: int) -> str | None:
    if stat.S_ISLNK(about.st_mode):
        return "is a link"
    if stat.S_IFMT(about.st_mode) != kind:
        return "is not a regular file" if kind == stat.S_IFREG else "is not a folder"
    if kind == stat.S_IFREG and about.st_nlink > 1:
        return "has another name too (a hard link)"
    return None
