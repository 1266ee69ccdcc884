"""Files by their content, in a private folder. A name that is no digest reaches no path."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from runner.core.errors import DatasetError
from runner.core.text import printable, whole, why
from runner.inputs.datasets.dataset import SUFFIXES
from runner.inputs.datasets.formats.streams import COMPRESSION_SUFFIXES
from runner.results.store.errors import StoreDamagedError, StoreError, StoreFullError
from runner.results.store.limits import STORE
from sandboxes.cache import private_dir
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.ledger import VARIABLE

SEGMENT = ".segment.jsonl"
_ENDS = [re.escape(f"{suffix}{packed}") for suffix in SUFFIXES for packed in ("", *COMPRESSION_SUFFIXES)]
_BLOB = re.compile(rf"[0-9a-f]{{64}}({'|'.join([*_ENDS, re.escape(SEGMENT)])})")
_COPIED = 1 << 20
ORPHAN_SECONDS = 3600.0
"""Seconds after which a file that nothing names was left by a process that was killed."""


class BlobFiles:
    """The folder `files`: each file's name is its SHA-256 and its suffix. Raises StoreError."""

    def __init__(self, folder: Path) -> None:
        try:
            self.folder = private_dir(private_dir(folder, VARIABLE) / "files", VARIABLE)
            self.locks = private_dir(folder / "running", VARIABLE)
        except SandboxUnavailableError as error:
            raise StoreError(str(error)) from None

    def path(self, blob: str) -> Path:
        """Return the place of a file. Raises StoreDamagedError for a name that none has."""
        if not _BLOB.fullmatch(blob):
            raise StoreDamagedError(f"the store is damaged: {printable(blob, 80)!r} is no file's name; move it away")
        return self.folder / blob[:2] / blob

    @contextmanager
    def written(self, data: bytes | BinaryIO | Path, suffix: str) -> Iterator[New]:
        """Open a file beside the others that becomes one of them by `New.keep`, and else is gone. Raises StoreError."""
        unfinished = ""
        try:
            with _source(data) as source:
                descriptor, unfinished = tempfile.mkstemp(dir=self.folder, prefix=".unfinished-")
                with os.fdopen(descriptor, "wb") as file:
                    digest, size = _copy(source, file)
                    file.flush()
                    os.fsync(file.fileno())  # the database must not name what a loss of power took
            yield New(unfinished, digest, suffix, size, self)
        except OSError as error:
            raise StoreError(
                f"cannot write to {self.folder} ({error.strerror or error}); make room, or set {VARIABLE} to another "
                "folder"
            ) from error
        finally:
            if unfinished:
                with suppress(OSError):
                    os.unlink(unfinished)

    def delete(self, blob: str) -> int:
        """Delete the file; the bytes that the disk gets back."""
        path = self.path(blob)
        with suppress(OSError):
            size = path.lstat().st_size
            path.unlink()
            return size
        return 0

    def strays(self, named: Callable[[Iterable[str]], set[str]]) -> Iterator[str]:
        """
        Yield files of a killed process: those, old enough, that are not `named`.

        Unfinished ones are deleted at once.
        """
        old = time.time() - ORPHAN_SECONDS
        for place in [self.folder, *(path for path in self.folder.iterdir() if path.is_dir())]:
            found = []
            for path in place.iterdir():
                with suppress(OSError):
                    if path.is_dir() or path.lstat().st_mtime > old:
                        continue
                    if path.name.startswith(".unfinished-"):
                        path.unlink()
                    elif _BLOB.fullmatch(path.name):
                        found.append(path.name)
            yield from set(found) - named(found)

    def room(self) -> int:
        """Return the bytes that the disk has."""
        return shutil.disk_usage(self.folder).free


def _copy(source: BinaryIO, file: BinaryIO) -> tuple[str, int]:
    """Copy all of it; its SHA-256 in hex, and its size. Raises StoreFullError."""
    digest = hashlib.sha256()
    size, most = 0, STORE.bytes()
    while block := source.read(_COPIED):
        digest.update(block)
        size += len(block)
        if size > most:
            raise StoreFullError(f"the file is larger than {STORE}, the most of all; raise {STORE.variable}")
        file.write(block)
    return digest.hexdigest(), size


def _source(data: bytes | BinaryIO | Path) -> AbstractContextManager[BinaryIO]:
    """What is read from; a caller's own file stays open. Raises DatasetError."""
    if isinstance(data, bytes):
        return BytesIO(data)
    return _opened(data) if isinstance(data, Path) else nullcontext(data)


def _opened(path: Path) -> BinaryIO:
    """A regular file to be read. Raises DatasetError."""
    shown = printable(whole(str(path)))
    try:
        # What is opened must not be waited for, as a pipe would be.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DatasetError(f"{shown} is not a regular file; copy its rows into one")
        return path.open("rb")
    except (OSError, ValueError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{shown} cannot be read ({why(error)}); name another file") from None


class New:
    """A file that was written and is not kept yet."""

    def __init__(self, unfinished: str, digest: str, suffix: str, bytes: int, files: BlobFiles) -> None:
        self._unfinished = unfinished
        self._files = files
        self.digest = digest
        self.bytes = bytes
        self.blob = f"{digest}{suffix}"

    def keep(self) -> None:
        """Move it to its place. Where it is already, it is replaced by itself."""
        path = self._files.path(self.blob)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(self._unfinished, path)
