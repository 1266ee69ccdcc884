"""A results folder, `-o run/`: the rows, how the run was done, and what to install to do it again."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.errors import OutputError
from runner.results import ResultsFiles, WriteError, same_file
from runner.shown import printable
from runner.types import Result

ROWS, MANIFEST, LOCK = "results.jsonl", "manifest.json", "requirements.lock"


def is_folder(path: str) -> bool:
    """Whether `-o` means a folder: it is one, or ends with a separator."""
    return path.endswith((os.sep, os.altsep or os.sep)) or os.path.isdir(path)


class ResultsFolder:
    """
    One folder of results; what else is in it stays. Nothing is touched before `open`.

    `inputs` are the files that the run reads. `lock`, which it reads too, may be the folder's own, and then stays
    as it is. Raises OutputError for a folder that can not, or files in it that must not be written.
    """

    def __init__(self, path: str, *, inputs: Sequence[str], lock: str | None, outputs: Sequence[str]) -> None:
        self.path = path
        self._folder = Path(path)
        self._read = [*inputs] if lock is None else [*inputs, lock]
        self._outputs = outputs
        self._rows: ResultsFiles | None = None
        _check_folder(path, self._folder)
        self._keeps_lock = lock is not None and same_file(lock, self.lock)
        for name in (ROWS, MANIFEST):
            self._check(name, self._read)
        self._check(LOCK, inputs)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all that may be written."""
        return tuple(str(self._folder / name) for name in (ROWS, MANIFEST, LOCK))

    @property
    def lock(self) -> str:
        """Where the lock of a run with packages is."""
        return str(self._folder / LOCK)

    def open(self, manifest: Mapping[str, Any], lock: str | None) -> None:
        """Makes the folder if need be, empties the rows and writes the rest. Raises OutputError and WriteError."""
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as e:
            raise OutputError(f"-o {self.path} cannot be made ({e.strerror}); choose another place") from e
        self._rows = ResultsFiles([str(self._folder / ROWS)], inputs=self._read, outputs=self._outputs)
        self._rows.open()
        if lock is not None and not self._keeps_lock:
            self._replace(LOCK, lock)
        self.write(manifest)

    def add(self, result: Result) -> None:
        """Writes one row. Raises WriteError."""
        if self._rows is not None:
            self._rows.add(result)

    def write(self, manifest: Mapping[str, Any]) -> None:
        """Puts a manifest in the place of the last one, whole or not at all. Raises WriteError."""
        self._replace(MANIFEST, json.dumps(manifest, indent=2, default=str) + "\n")

    def close(self) -> None:
        """Finishes the rows. Raises WriteError. Safe twice."""
        if self._rows is not None:
            self._rows.close()

    def _check(self, name: str, inputs: Sequence[str]) -> None:
        path = self._folder / name
        shown = f"-o {printable(self.path)}: {name} in it"
        try:
            mode = path.lstat().st_mode
        except OSError:
            return  # it is not there, nor the folder perhaps
        if not stat.S_ISREG(mode):  # a link might lead anywhere
            raise OutputError(f"{shown} is no plain file; move it away, or choose another folder")
        if any(same_file(str(path), other) for other in inputs):
            raise OutputError(f"{shown} is what the run reads; choose another folder")
        if name == ROWS and not os.access(path, os.W_OK):  # the others are replaced
            raise OutputError(f"{shown} cannot be written (no permission); choose another folder")

    def _replace(self, name: str, content: str) -> None:
        path = self._folder / name
        unfinished = self._folder / f".{name}.{os.getpid()}.unfinished"
        try:
            unfinished.unlink(missing_ok=True)  # of a killed run with our number
            with unfinished.open("x", encoding="utf-8", errors="replace", newline="") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except OSError as e:
            raise WriteError(f"{path} could not be written ({e.strerror or e}); make room, or choose another") from e
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def _check_folder(path: str, folder: Path) -> None:
    shown = f"-o {printable(path)}"
    if folder.is_dir():
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"{shown} cannot be written (no permission); choose another folder")
        return
    if os.path.lexists(folder):
        raise OutputError(f"{shown}: {printable(str(folder))} is no folder; move it away, or choose another name")
    if not folder.parent.is_dir():
        raise OutputError(f"{shown}: there is no directory {printable(str(folder.parent))}; create it first")
    if not os.access(folder.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{shown} cannot be made (no permission in {printable(str(folder.parent))}); choose another")
