"""Files of a config: what is sent to workers, and where a worker keeps it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sandboxes.cluster.folder import HeldFolder, sweep
from sandboxes.errors import UnsupportedConfigError
from sandboxes.regular import read_regular
from sandboxes.wording import Message, Setting

_NAME = "evalcell-held-files-"  # not evalcell-files-*, which versions that run beside this one may use and not hold
_MOST = 64 << 20  # bytes of all files that travel


def read_files(files: dict[str, str]) -> dict[str, bytes]:
    """The files' contents. Raises UnsupportedConfigError."""
    found, left = {}, _MOST
    for name, path in files.items():
        try:
            found[name] = read_regular(path, left + 1)
        except OSError as e:
            raise UnsupportedConfigError(
                Message(Setting("sandbox.files", f"{name}={path}"), f" cannot be read ({e.strerror}); check the path")
            ) from None
        left -= len(found[name])
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
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o644)
        return {name: str(folder / name) for name in contents}

    def close(self) -> None:
        """Delete them. Safe twice."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None
