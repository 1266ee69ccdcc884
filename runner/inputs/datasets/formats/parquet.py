"""The rows of a Parquet file, decoded in a process of its own: see `parquet_decoder`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import IO, Any
from weakref import finalize

from pydantic_core import from_json

from runner.core.errors import DatasetError
from runner.core.text import describe, printable
from runner.inputs.datasets.formats.column_values import MAX_ROW, RowError, UnreadError
from runner.inputs.datasets.formats.parquet_decoder import MEMORY, OVER, STEP, memory_ran_out
from runner.inputs.datasets.location import is_url
from runner.inputs.datasets.rows import Row, read_json
from runner.inputs.datasets.slices import Slice
from runner.inputs.datasets.work import at_end
from sandboxes.host.own_python import module_command


class ParquetRows:
    """
    The rows of a Parquet or Arrow file, with the columns that are asked for alone, or with all for None.

    With a `part` those of its row groups, and with `at` the rows at these places alone, from 0. Memory is bounded
    whatever the file says. Raises DatasetError, at once, for a file that cannot be used.
    """

    def __init__(
        self,
        path: Path | str,
        columns: Collection[str] | None = None,
        part: Slice | None = None,
        at: Collection[int] | None = None,
    ) -> None:
        before = 0 if part is None else part.before
        self._numbers = count(before + 1) if at is None else (number + 1 for number in sorted(at))
        groups = None if part is None else part.groups
        place = os.fspath(path) if is_url(os.fspath(path)) else os.path.abspath(path)
        path = Path(path)
        self.name = printable(path.name)
        self._kind = "Arrow" if path.suffix.lower() == ".arrow" else "Parquet"
        if find_spec("pyarrow") is None:
            raise DatasetError(f'{self.name}: {self._kind} needs pyarrow: pip install "evalcell[parquet]"')
        try:
            self._process = subprocess.Popen(
                module_command("runner.inputs.datasets.formats.parquet_decoder", place),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # pyarrow's own allocators reserve far more than they use.
                env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
                # A Ctrl-C is for us; we end it.
                start_new_session=True,
            )
        except OSError as error:
            why = printable(error.strerror or str(error))
            raise DatasetError(f"{self.name}: no process to decode it can be started: {why}; stop others") from None
        at_end(self._process.kill)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self.close = finalize(self, _end, self._process, self._process.stdin, self._lines)
        try:
            asked = {
                "columns": None if columns is None else sorted(columns),
                "groups": groups,
                "at": None if at is None else [*at],
            }
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, and the next line says so
        about = self._answer()
        if "rows" not in about:
            self.close()
            raise DatasetError(self._refusal(about))
        self.count: int | None = about["rows"]
        self.unread: tuple[str, ...] = tuple(about["unread"])
        """Columns that were not asked for."""
        self.left_out: tuple[str, ...] = ()
        """Where values of the rows so far were, which are binary."""
        self._read: list[str] = about["read"]
        self.header: tuple[str, ...] = (*self._read, *self.unread)
        """All columns; those that were not asked for may be incomplete. Empty if it is too long."""

        self.groups: list[tuple[int, int]] = [(rows, size) for rows, size in about.get("groups") or ()]
        """The rows and bytes of each row group of the file; none where it has too many, or is Arrow."""

    def __iter__(self) -> Iterator[Row]:
        while (line := self._line()) != b"null\n":
            if not line and not self.close.alive:
                return
            if line.startswith(b"[{"):
                self.left_out = tuple(json.loads(line)[0]["left_out"])
                continue
            if line.startswith(b"[["):
                for values in zip(*from_json(line), strict=True):
                    yield f"{self.name}, row {next(self._numbers, 0)}", dict(zip(self._read, values, strict=True))
                continue
            row: dict[str, Any] | RowError
            try:
                row = self._row(line)
            except RowError as error:
                row = error
            yield f"{self.name}, row {next(self._numbers, 0)}", row
            if not line:
                return

    def _row(self, line: bytes) -> dict[str, Any]:
        """Parse a row from the decoder. Raises RowError."""
        if not line:
            raise UnreadError(f"{self._ended()}; the rest of the file cannot be read")
        if line.startswith(b"{"):
            try:
                row: dict[str, Any] = from_json(line, allow_inf_nan=False)  # in half the time
            except ValueError:  # it is too strict for some, and the slower parser has the words
                row = read_json(line.decode())
            return row
        why = json.loads(line)
        raise UnreadError(*why) if isinstance(why, list) else RowError(why)

    def _line(self) -> bytes:
        """The next one, with its end; nothing where there is none."""
        try:
            line = self._lines.readline(MAX_ROW + 2)
        except ValueError:  # closed
            return b""
        return line if line.endswith(b"\n") else b""

    def _answer(self) -> dict[str, Any]:
        line = self._line()
        reply = json.loads(line) if line else {"refused": f"cannot be read as {self._kind}: {self._ended()}"}
        return reply if isinstance(reply, dict) else {}

    def _refusal(self, about: dict[str, Any]) -> str:
        if "repeated" in about:
            return f"{self.name}: two columns are named {describe(about['repeated'], 60)}; rename one"
        return f"{self.name} {about.get('refused', f'cannot be read as {self._kind}')}"

    def _ended(self) -> str:
        code = self._process.wait()
        if code == OVER:
            return memory_ran_out()
        # pyarrow ends so where memory runs out in the wrong place.
        how = f"was ended by signal {-code}" if code < 0 else f"ended with the code {code}"
        return f"its decoder {how}, perhaps for lack of memory (it has {MEMORY >> 20} MB); {STEP}"


def _end(process: subprocess.Popen[bytes], *pipes: IO[bytes]) -> None:
    # First of all: a thread that waits for a line holds the pipe's lock until there is one, or the end.
    process.kill()
    process.wait()
    for pipe in pipes:
        pipe.close()
