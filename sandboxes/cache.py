"""Where built things are kept on this machine: private to the user, safe under several processes at once."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path

from sandboxes.errors import SandboxUnavailableError

VARIABLE = "EVALCELL_CACHE_DIR"

UNUSED = 30 * 86_400
"""Seconds after which a file that no run has wanted is deleted, when the next one is built."""


def cache_dir() -> Path:
    """The cache folder's path: `EVALCELL_CACHE_DIR`, else the platform's own place. It may not exist yet."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else user_cache_path("evalcell", appauthor=False)


def private_dir(path: Path, variable: str = VARIABLE) -> Path:
    """
    Makes the folder, readable and writable by its owner alone. `variable` moves it.

    Raises SandboxUnavailableError when it cannot be made, or is somebody else's: what is in it is trusted.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if hasattr(os, "getuid"):
            if found.st_uid != os.getuid():
                raise SandboxUnavailableError(f"{path} belongs to another user; set {variable} to a folder of yours")
            if stat.S_IMODE(found.st_mode) != 0o700:
                path.chmod(0o700)
    except OSError as e:
        raise SandboxUnavailableError(f"cannot use the folder {path} ({e.strerror}); set {variable} to another") from e
    return path


def verified(folder: Path, key: str, suffix: str) -> Path | None:
    """
    The file kept under `key`, if it is ours and whole: its name carries the SHA-256 of its content.

    Whatever else claims the key, by a link, another owner or other content, is removed.
    """
    for path in sorted(folder.glob(f"{key}-*{suffix}")):
        if _is_ours(path) and _digest(path) == path.name[len(key) + 1 : -len(suffix)]:
            os.utime(path)  # see _forget_unused
            return path
        path.unlink(missing_ok=True)
    return None


def keep(folder: Path, key: str, suffix: str, content: bytes | bytearray) -> Path:
    """Puts a file under `key`, whole or not at all. Raises SandboxUnavailableError when the disk is full."""
    path = folder / f"{key}-{hashlib.sha256(content).hexdigest()}{suffix}"
    fd, unfinished = tempfile.mkstemp(dir=folder, prefix=f".unfinished-{key}-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as e:
        Path(unfinished).unlink(missing_ok=True)
        raise SandboxUnavailableError(f"cannot write to {folder} ({e.strerror}); make room or set {VARIABLE}") from e
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return path


def cached(name: str, key: str, suffix: str, build: Callable[[], bytes | bytearray]) -> Path:
    """
    The file kept under `key` in the cache folder `name`, built first where it is missing.

    Two processes that miss it at once build it once: the second waits for the first.
    """
    folder = private_dir(private_dir(cache_dir()) / name)
    if path := verified(folder, key, suffix):
        return path
    from filelock import FileLock

    with FileLock(folder / f"{key}.lock", mode=0o600):
        for left in folder.glob(f".unfinished-{key}-*"):  # of a build that was killed; nobody else builds this now
            left.unlink(missing_ok=True)
        _forget_unused(folder)
        return verified(folder, key, suffix) or keep(folder, key, suffix, build())


def _forget_unused(folder: Path) -> None:
    """Deletes what no run has wanted for a while, such as the builds of earlier versions."""
    for path in folder.iterdir():
        try:
            if time.time() - path.lstat().st_mtime > UNUSED:
                path.unlink()
        except OSError:
            continue  # another process was faster


def _is_ours(path: Path) -> bool:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
