"""All that the `-o` options of one run name: any number of files, and at most one folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from runner.errors import OutputError
from runner.folder import ResultsFolder, is_folder
from runner.manifest import Run, State, begun, elapsed, ended
from runner.results import ResultsFiles, WriteError
from runner.summary import Summary
from runner.types import Result


class Outputs:
    """
    Files and a folder, all checked before the run and touched by `begin` first.

    `inputs` are the files that the run reads, `lock` is the one of `--lock`, `outputs` the names of the evaluator's
    outputs. Raises OutputError for a path that must or can not be written.
    """

    def __init__(
        self, paths: Sequence[str], *, inputs: Sequence[str], lock: str | None, outputs: Sequence[str]
    ) -> None:
        folders = [path for path in paths if is_folder(path)]
        if len(folders) > 1:
            raise OutputError(f"-o {folders[1]} is a second folder; the results go to one, {folders[0]}")
        files = [path for path in paths if path not in folders]
        self._folder = ResultsFolder(folders[0], inputs=inputs, lock=lock, outputs=outputs) if folders else None
        read = inputs if lock is None else [*inputs, lock]
        self._files = ResultsFiles(
            files, inputs=read, taken=self._folder.files if self._folder else (), outputs=outputs
        )
        self._manifest: dict[str, Any] | None = None
        self._began = 0.0

    def begin(self, run: Run) -> None:
        """Creates all of it; the run's sandbox is open. Raises OutputError and WriteError."""
        self._files.open()
        if self._folder is not None:
            manifest, self._began = begun(run, self._folder.lock), elapsed()
            self._folder.open(manifest, run.sandbox.lock)
            self._manifest = manifest

    def add(self, result: Result) -> None:
        """Writes one result everywhere. Raises WriteError."""
        self._files.add(result)
        if self._folder is not None:
            self._folder.add(result)

    def close(self) -> None:
        """Finishes what holds rows. Raises WriteError. Safe twice."""
        try:
            self._files.close()
        finally:
            if self._folder is not None:
                self._folder.close()

    def end(self, state: State, summary: Summary, notes: Sequence[str]) -> None:
        """Says in the manifest how the run ended, if it began. Raises WriteError."""
        if self._folder is not None and self._manifest is not None:
            self._folder.write(ended(self._manifest, state, summary, notes, elapsed() - self._began))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(WriteError):
                self.close()
