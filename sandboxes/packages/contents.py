"""Record what an installed folder holds, so that a damaged one is noticed before a script fails in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sandboxes.base import Model


class _File(NamedTuple):
    name: str
    """Relative to the folder."""
    path: str
    bytes: int
    changed: int
    """In whole seconds: archives and container images store no fractions."""


class Contents(Model):
    """The size and hashes of all files in a folder."""

    bytes: int
    looks: str
    """SHA-256 of their names, sizes and times, which takes milliseconds for thousands of files."""
    digest: str
    """SHA-256 of their names and bytes."""

    def are_in(self, folder: Path) -> bool:
        """Say whether the folder still holds them. Files are read only if their times differ, as in a copy."""
        try:
            files = _files(folder)
            if sum(file.bytes for file in files) != self.bytes:
                return False
            return _looks(files) == self.looks or _digest(files) == self.digest
        except OSError:
            return False


def contents_of(folder: Path) -> Contents:
    """Read all files of the folder. Raises OSError."""
    files = _files(folder)
    return Contents(bytes=sum(file.bytes for file in files), looks=_looks(files), digest=_digest(files))


def _files(folder: Path) -> list[_File]:
    return sorted(_below(str(folder), ""))


def _below(folder: str, prefix: str) -> Iterator[_File]:
    with os.scandir(folder) as inside:
        for one in inside:
            name = prefix + one.name
            if one.is_dir(follow_symlinks=False):
                yield from _below(one.path, f"{name}/")
            else:
                about = one.stat(follow_symlinks=False)
                yield _File(name, one.path, about.st_size, int(about.st_mtime))


def _looks(files: list[_File]) -> str:
    lines = (f"{file.name}\0{file.bytes}\0{file.changed}\n" for file in files)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _digest(files: list[_File]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name}\0".encode("utf-8", "surrogateescape"))
        fd = os.open(file.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(fd, "rb") as opened:
            whole.update(hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()
