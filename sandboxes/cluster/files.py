"""Files of a config: what is sent to workers, and where a worker keeps it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from sandboxes.cache import delete, is_ours
from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.regular import read_regular
from sandboxes.host.tree import members
from sandboxes.words.wording import Message, Setting

_NAME = "evalcell-held-files-"  # not evalcell-files-*, which versions that run beside this one may use and not hold
_MOST = 64 << 20  # bytes of all files that travel


def read_files(files: dict[str, str]) -> dict[str, bytes]:
    """Return the files' contents, of those in a folder by `NAME/their path`. Raises UnsupportedConfigError."""
    found, left = {}, _MOST
    for name, path in files.items():
        try:
            for member, file in members(name, path):
                found[member] = read_regular(file, max(0, left) + 1)
                left -= len(found[member])
                if left < 0:
                    break
        except OSError as e:
            raise UnsupportedConfigError(
                Message(Setting("sandbox.files", f"{name}={path}"), f" cannot be read ({e.strerror}); check the path")
            ) from None
        if left < 0:
            raise UnsupportedConfigError(
                f"the files are larger than {_MOST >> 20} MB together, too large to travel; make them smaller, or "
                "leave `on` out"
            )
    return found


class WorkerFiles:
    """The folder of a worker for the files that it was sent. One that was killed leaves it to the next on its node."""

    def __init__(self) -> None:
        self._folder: HeldFolder | None = None

    def write(self, contents: dict[str, bytes]) -> dict[str, str]:
        """Write them where scripts can read them; their paths, by name."""
        above = Path(tempfile.gettempdir())
        sweep(above, _NAME)
        if not contents:
            return {}
        if self._folder is None:
            self._folder = HeldFolder(above, _NAME)
        folder = self._folder.path
        folder.chmod(0o711)  # as root, scripts run as another user
        for name, content in contents.items():
            path = folder / name
            for above in reversed([one for one in path.parents if folder in one.parents]):
                above.mkdir(exist_ok=True)
                above.chmod(0o755)
            path.write_bytes(content)
            path.chmod(0o644)
        return {name: str(folder / name) for name in dict.fromkeys(one.partition("/")[0] for one in contents)}

    def close(self) -> None:
        """Delete them. Safe twice."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None


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
