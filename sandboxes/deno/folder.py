"""A folder of the host's that a box may read, and a box with one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandboxes.kernel.box import Box
from sandboxes.kernel.plan import Shown, Tier, plan
from sandboxes.kernel.view import reachable


class Folder:
    """A folder of the host's that a box may read: named pipes, until Deno has opened them, or files."""

    def __init__(self, pipes: Sequence[str] = (), files: Mapping[str, str] | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="evalcell-", dir=_place()))
        try:
            for name in pipes:
                os.mkfifo(self.path / name, 0o600)
            for name, text in (files or {}).items():
                (self.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        except BaseException:
            self.remove()
            raise

    def give(self, uid: int | None) -> None:
        """To the user as whom Deno will run."""
        if uid is not None:
            for path in (*self.path.iterdir(), self.path):
                os.chown(path, uid, uid)

    def remove(self) -> None:
        """Safe twice."""
        shutil.rmtree(self.path, ignore_errors=True)


def _place() -> str:
    """The folder for temporary files, unless other users cannot get there: scripts of root run as one."""
    chosen = tempfile.gettempdir()
    return chosen if os.geteuid() or reachable(chosen) else "/tmp"


class FolderBox(Box):
    """Has its folder removed when it ends, at the latest."""

    def __init__(self, tier: Tier, shown: Shown, bwrap: str | None, folder: Folder) -> None:
        """Starts its first process. Raises BoxError."""
        self._folder = folder
        try:
            made = plan(tier, shown, bwrap, folder.path)
            folder.give(made.boot["uid"])
            super().__init__(made)
        except BaseException:
            folder.remove()
            raise

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            self._folder.remove()
