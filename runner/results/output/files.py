"""Results files: their paths are checked before a run, their rows are written during it."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from runner.core.errors import OutputError
from runner.core.text import printable, whole, why
from runner.core.types import Result
from runner.results.output.row_cells import Layout
from sandboxes.words.wording import Setting

if TYPE_CHECKING:
    from runner.results.output.spool import Spool

_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")


_HURRY = 1.5
"""Seconds that the rest of the rows gets after a signal."""
_LATE = 10.0
"""And after a failure, which nobody waits at the keyboard for."""


class WriteError(OSError):
    """A results file could not be written any further, as when the disk is full. What was written stays."""


class ResultsFiles:
    """
    Any number of results files. Nothing is touched before `open`, which empties files that exist.

    Each is written by a thread of its own, so that one which hangs holds up neither the event loop nor the others.
    `inputs` are the files that the run reads, `taken` those that it writes besides. `own`: they are in a
    results folder, and no links. Raises OutputError for a path that must or can not be written.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        inputs: Iterable[str] = (),
        taken: Sequence[str] = (),
        own: bool = False,
    ) -> None:
        inputs = list(inputs)
        for number, path in enumerate(paths):
            _check(path, inputs, [*taken, *paths[:number]])
        self._paths = tuple(paths)
        self._own = own
        self._layout = Layout()
        self._spools: list[Spool] = []
        self._closed = False

    @property
    def rows(self) -> dict[str, int]:
        """The number of whole rows in each file, by path."""
        return {spool.path: spool.rows for spool in self._spools}

    @property
    def hang(self) -> bool:
        """True if a file was left unfinished, because its disk or reader hangs."""
        return self._closed and not all(spool.closed for spool in self._spools)

    async def open(self, layout: Layout, prefix: tuple[int, int] | None = None) -> None:
        """
        Create the files.

        `prefix` are the bytes and rows with which a file in JSON lines begins, and which stay.

        Raises:
            OutputError, WriteError: Where there is no room.
        """
        self._layout = layout
        for path in self._paths:
            new = not os.path.lexists(path)
            spool = _spool(path, layout, prefix, self._own)
            self._spools.append(spool)
            try:
                await spool.open()
            except OSError as e:
                if new and not spool.whole:
                    with suppress(OSError):
                        os.unlink(path)  # it is no file of its format
                raise _open_error(path, e) from e

    def add(self, results: Sequence[Result]) -> None:
        """Take results for all files, without waiting. Raises WriteError."""
        if results:
            for spool in self._spools:
                if spool.failure is not None:
                    raise _write_error(spool)
                spool.add(results)

    async def room(self) -> None:
        """Wait while some file has too much to be written. Raises WriteError."""
        for spool in self._spools:
            await spool.room()
            if spool.failure is not None:
                raise _write_error(spool)

    async def close(self, patience: float | None = None) -> None:
        """
        Finish all files, even if one fails; then raise WriteError for the first. Safe twice.

        A file for which that takes more than `patience` seconds is left as it is.
        """
        if self._closed:
            return
        self._closed = patience is not None
        await asyncio.gather(*(spool.close(patience) for spool in self._spools))
        self._closed = True
        for spool in self._spools:
            if spool.failure is not None:
                raise _write_error(spool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None) -> None:
        if kind is None:
            await self.close()
        else:
            await self.give_up(kind)

    async def give_up(self, kind: type[BaseException]) -> None:
        """Finish what can be finished after this failure, the only one that is reported."""
        with suppress(WriteError):
            await self.close(_LATE if issubclass(kind, Exception) else _HURRY)


def _spool(path: str, layout: Layout, kept: tuple[int, int] | None, own: bool) -> Spool:
    from runner.results.output.spool import Spool  # here: a run may write no rows
    from runner.results.output.writers import CsvWriter, JsonlWriter, JsonWriter, Writer

    writer: Writer[Any]
    match _suffix(path):
        case ".jsonl":
            writer = JsonlWriter(layout, own=own)
            if kept is not None:
                writer.keep(*kept)
        case ".json":
            writer = JsonWriter(layout)
        case ".csv":
            writer = CsvWriter(layout)
        case _:
            from runner.results.output.parquet_writer import ParquetWriter

            writer = ParquetWriter(layout)
    return Spool(path, writer)


def _check(path: str, inputs: Sequence[str], earlier: Sequence[str]) -> None:
    suffix, named = _suffix(path), str(Setting("output", path))
    if suffix not in _SUFFIXES:
        raise OutputError(f"{named}: the suffix decides the format; end it with one of: {', '.join(_SUFFIXES)}")
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise OutputError(f"{named} needs pyarrow; run: pip install 'evalcell[parquet]'")
    check_place(named, path, inputs)
    if any(same_file(path, other) for other in earlier):
        raise OutputError(f"{named} is given twice; name different files")


def check_place(named: str, path: str, inputs: Sequence[str]) -> None:
    """Raise OutputError, which names the file so, if it cannot be written, or is one of those that the run reads."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise OutputError(f"{named}: there is no directory {printable(whole(str(folder)))}; create it first")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise OutputError(f"{named} cannot be written (no permission); choose another place")
    if any(same_file(path, other) for other in inputs):
        raise OutputError(f"{named} would overwrite what the run reads; choose another name")


def same_file(a: str, b: str) -> bool:
    """Return true if both paths are, or would be, the same file."""
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def replace_file(place: Path, text: str) -> None:
    """Write a file beside its place, then move it there: a reader sees the old one or the whole new one."""
    unfinished = place.with_name(f".{place.name[:200]}.{os.getpid()}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)  # of a killed run with our number
        with unfinished.open("x", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, place)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_error(path: str, error: OSError) -> WriteError:
    """Return what became of a file that is written at once."""
    return WriteError(f"{path} could not be written ({why(error)}); make room, or choose another")


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _open_error(path: str, error: OSError) -> OSError | OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return WriteError(f"{path} cannot be written ({_reason(error)}); make room, or choose another place")
    return OutputError(f"{Setting('output', path)} cannot be written ({_reason(error)}); choose another place")


def _write_error(spool: Spool) -> Exception:
    error = spool.failure
    if not isinstance(error, OSError):
        return error or AssertionError(spool.path)
    rows = f"{spool.rows:,} whole row{'' if spool.rows == 1 else 's'}"
    what = (
        f"{rows} {'is' if spool.rows == 1 else 'are'} in it"
        if spool.whole
        else f"it may end within a row, after {rows}"
    )
    step = "make room, or choose another place, and run again"
    return WriteError(f"{spool.path} could not be written any further ({_reason(error)}); {what}; {step}")
