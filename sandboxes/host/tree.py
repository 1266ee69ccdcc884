"""A folder that a user names to be read as one thing: all files in it, bounded, and none that a link leads to."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

MOST_FILES = 10_000
_MOST_FOLDERS = 1000


def tree(path: str | os.PathLike[str]) -> list[str]:
    """
    Return the files in a folder and below it by their paths from it, sorted.

    Raises OSError; its `strerror` says what is in it that cannot be given.
    """
    found: list[str] = []
    waiting, folders = [""], 0
    while waiting:
        above = waiting.pop()
        folders += 1
        with os.scandir(os.path.join(path, above)) as entries:
            for entry in entries:
                name = above + entry.name
                if entry.is_symlink():
                    _refuse(f"{name!a} in it is a link: give a copy without links, made by cp -rL", path)
                if entry.is_dir():
                    waiting.append(f"{name}/")
                elif not entry.is_file():
                    _refuse(f"{name!a} in it is no regular file", path)
                elif not name.isprintable():
                    _refuse(f"{name!a} in it has a name of other characters than text", path)
                else:
                    found.append(name)
                if len(found) > MOST_FILES or folders + len(waiting) > _MOST_FOLDERS:
                    _refuse(f"more than {MOST_FILES:,} files or {_MOST_FOLDERS:,} folders are in it: pack them", path)
    if not found:
        _refuse("no file is in it", path)
    return sorted(found)


def _refuse(why: str, path: str | os.PathLike[str]) -> None:
    raise OSError(errno.EINVAL, why, os.fspath(path))


def members(name: str, path: str) -> Iterator[tuple[str, str]]:
    """
    Yield a file under the name that it is given, or those in a folder, each as `name/its path`, and where it is.

    Raises as `tree`.
    """
    if not os.path.isdir(path):
        yield name, path
        return
    for file in tree(path):
        yield f"{name}/{file}", os.path.join(path, file)


def digest_of(digests: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 of a folder by those of its files, in hex: each with its path from it, sorted."""
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in digests).encode()).hexdigest()


def stamps(path: str) -> list[tuple[int, ...]]:
    """Return what changes when a file, or one in a folder, is changed. Raises OSError."""
    abouts = [
        os.stat(path),
        *(os.stat(os.path.join(path, file)) for file in (tree(path) if os.path.isdir(path) else ())),
    ]
    return [(about.st_ino, about.st_size, about.st_mtime_ns) for about in abouts]


def lacking(path: str, *, others: bool) -> str:
    """
    Return the file or folder at or below `path` that cannot be read: by `others`, or by this user. Empty: all can.

    Raises as `tree`.
    """
    below = tree(path) if os.path.isdir(path) else []
    folders = {os.path.dirname(file) for file in below}
    for each in dict.fromkeys(os.path.join(path, name) if name else path for name in ("", *sorted(folders), *below)):
        wanted = 0o005 if stat.S_ISDIR(mode := os.stat(each).st_mode) else 0o004
        readable = mode & wanted == wanted if others else os.access(each, os.R_OK | (os.X_OK if wanted & 1 else 0))
        if not readable:
            return each
    return ""
