"""The cache folder: private to the user, and safe with several processes at once."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from platformdirs import user_cache_path

from sandboxes.errors import SandboxUnavailableError
from sandboxes.host.owner import OTHERS_WRITE, belongs_to_another, fault_above, is_ours, is_trusted, open_ours

__all__ = ["is_ours"]

VARIABLE = "EVALCELL_CACHE_DIR"

SCORES = "scores"
"""The folder of the cache that holds scores of earlier runs."""
SCORES_IN_USE = "in-use"
"""The file in it that a run locks while it uses them."""

UNUSED_SECONDS = 30 * 86_400
"""Seconds after which an unused file is deleted, when the next one is built."""

_PIECE = 8 << 20
"""Bytes that are hashed at once. After each piece a busy thread may keep Python's lock for 5 ms."""

_checked: dict[Path, tuple[int, int]] = {}
"""The files that were whole: device and inode of each."""


def cache_dir() -> Path:
    """
    Return the cache folder's path: `EVALCELL_CACHE_DIR`, else the platform's default. It may not exist yet.

    In a folder that everybody may write to but only owners delete from, such as `/tmp`, it is this user's own one.
    """
    chosen = os.environ.get(VARIABLE)
    path = Path(chosen).expanduser().absolute() if chosen else of_user(user_cache_path, VARIABLE)
    if not hasattr(os, "getuid"):
        return path
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if mode & OTHERS_WRITE and mode & stat.S_ISVTX:
            return path / f"evalcell-{os.getuid()}"
    return path


def of_user(find: Callable[..., Path], variable: str) -> Path:
    """
    Return a folder of the user's own. `variable` names another.

    Root takes its own home where HOME is somebody else's, as after `sudo`: what it makes there would be in their way,
    and they could exchange it.

    Raises:
        SandboxUnavailableError: Where there is none.
    """
    try:
        return _of_root(find("evalcell", appauthor=False))
    except RuntimeError:  # neither HOME nor the list of users tells one, as in many containers
        raise SandboxUnavailableError(
            f"this user has no home folder; set {variable} to a folder to use, such as /tmp"
        ) from None


def _of_root(path: Path) -> Path:
    if not hasattr(os, "getuid") or os.getuid() != 0:
        return path
    import pwd

    home = Path.home()
    if path.is_relative_to(home) and belongs_to_another(home):
        try:
            own = Path(pwd.getpwuid(0).pw_dir)
        except KeyError:  # a container without a list of users
            own = Path("/root")
        return own / path.relative_to(home)
    return path


def is_noexec(path: Path) -> bool:
    """Say whether neither programs nor native code can be loaded from the file's disk."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0))


def private_dir(path: Path, variable: str = VARIABLE) -> Path:
    """
    Make the folder, for its owner alone, or take an existing one as it is. Messages name `variable`, which moves it.

    Raises:
        SandboxUnavailableError: If it cannot be made, belongs to somebody else, or others may write to it or to a
            folder above it, since its content is trusted.
    """
    try:
        if hasattr(os, "getuid") and (fault := fault_above(path)):
            raise SandboxUnavailableError(
                f"{fault}, who could exchange what is in {path}; set {variable} to another folder of yours"
            )
        for folder in (*reversed(path.parents), path):  # those above, too: a mask of others may let everybody write
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # whatever the umask
        if hasattr(os, "getuid"):
            found = path.stat()
            if not (
                is_trusted(found) and is_trusted(path.lstat())
            ):  # the second check is for a link that somebody put there
                raise SandboxUnavailableError(f"{path} belongs to another user; set {variable} to a folder of yours")
            if found.st_mode & OTHERS_WRITE:
                step = f"run: chmod go-w {shlex.quote(str(path))}, or set {variable} to another folder"
                raise SandboxUnavailableError(f"others may write to {path}, and what is in it is trusted; {step}")
    except OSError as e:
        raise SandboxUnavailableError(
            f"cannot use the folder {path} ({e.strerror}); set {variable} to another, such as /tmp"
        ) from e
    return path


def delete(path: Path) -> None:
    """Delete a folder or file, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        import shutil  # here, as tempfile below: most runs only read

        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def mark_used(path: Path) -> None:
    """Record that a run uses it now, if the disk is writable. Raises FileNotFoundError."""
    try:
        os.utime(path)
    except FileNotFoundError:
        raise
    except OSError:
        return  # a read-only disk, or root's file: nothing there is deleted for its age


def find_file(folder: Path, key: str, suffix: str) -> Path | None:
    """
    Return the file kept under `key`, if it is ours and intact: its name has the SHA-256 of its content.

    Anything else under the key, such as a link, another owner's file or other content, is removed if possible.
    """
    for path in sorted(folder.glob(f"{key}-*{suffix}")):
        with contextlib.suppress(OSError):  # not readable, a link, or just deleted
            if _is_whole(path, path.name[len(key) + 1 : -len(suffix)]):
                mark_used(path)  # see _forget_unused
                return path
        delete(path)
    return None


def content(path: Path) -> bytes:
    """
    Return what a file holds that was found here, checked once more as it is read, since somebody may exchange files.

    Raises:
        SandboxUnavailableError: The sandbox cannot start on this machine.
    """
    with contextlib.suppress(OSError):
        if (descriptor := open_ours(path)) is not None:
            with os.fdopen(descriptor, "rb") as file:
                found = file.read()
            if hashlib.sha256(found).hexdigest() == path.stem.rpartition("-")[2]:
                return found
    raise SandboxUnavailableError(f"{path} was changed since it was checked; see who else writes to {path.parent}")


def identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file that was found whole, for who loads it: another one has others."""
    return _checked.get(path)


def keep(folder: Path, key: str, suffix: str, content: bytes | bytearray) -> Path:
    """Put a complete file under `key`, or none. Raises SandboxUnavailableError if nothing can be written."""
    import tempfile

    path = folder / f"{key}-{hashlib.sha256(content).hexdigest()}{suffix}"
    with disk_errors(folder):
        fd, unfinished = tempfile.mkstemp(dir=folder, prefix=f".unfinished-{key}-")
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    return path


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a full, broken or read-only disk into a SandboxUnavailableError."""
    try:
        yield
    except TimeoutError:  # an OSError to Python
        raise
    except OSError as e:
        said = e.strerror or e
        if e.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            step = f"run the same command once where the cache is writable, or set {VARIABLE} to another folder"
        elif e.errno == errno.EFBIG:
            step = "raise the limit of a file's size: ulimit -f unlimited"
        else:
            step = f"make room or set {VARIABLE}"
        raise SandboxUnavailableError(f"cannot write to {folder} ({said}); {step}") from e


def find(name: str, key: str, suffix: str) -> Path | None:
    """Return the file that `get_or_build` would give, if it need not be built. Raises SandboxUnavailableError."""
    return find_file(_folder(name), key, suffix)


def get_or_build(name: str, key: str, suffix: str, build: Callable[[], bytes | bytearray]) -> Path:
    """
    Return the file kept under `key` in the cache folder `name`, built first if it is missing.

    If two processes miss it at once, it is built once: the second waits for the first.
    """
    folder = _folder(name)
    if path := find_file(folder, key, suffix):
        return path
    from filelock import FileLock

    lock = FileLock(folder / f"{key}.lock", mode=0o600)
    with disk_errors(folder):
        lock.acquire()
    try:
        for left in folder.glob(f".unfinished-{key}-*"):  # of a killed build; nobody else builds this now
            delete(left)
        _delete_old(folder)
        if path := find_file(folder, key, suffix):
            return path
        made = keep(folder, key, suffix, build())
        found = find_file(folder, key, suffix)
        if found is None:
            raise SandboxUnavailableError(f"{made} was changed while it was written; see who else writes to {folder}")
        return found
    finally:
        lock.release()


def _folder(name: str) -> Path:
    return private_dir(private_dir(cache_dir()) / name)


def _delete_old(folder: Path) -> None:
    """Delete what no run has used for a while, such as the builds of earlier versions."""
    for path in folder.iterdir():
        try:
            if time.time() - path.lstat().st_mtime > UNUSED_SECONDS:
                delete(path)
        except OSError:
            continue  # another process was faster


def _is_whole(path: Path, digest: str) -> bool:
    """Checked on one descriptor: the path may lead elsewhere the next time."""
    descriptor = open_ours(path)
    if descriptor is None:
        return False
    made = hashlib.sha256()
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        piece = memoryview(bytearray(min(found.st_size, _PIECE) or 1))
        while read := file.readinto(piece):
            made.update(piece[:read])
    if made.hexdigest() != digest:
        return False
    _checked[path] = found.st_dev, found.st_ino
    return True
