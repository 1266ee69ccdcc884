"""One writer for each format of a results file. Each writes row by row, in bounded memory."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from runner.cells import cell

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

_FLUSH_SECONDS = 0.5
_GROUP_ROWS = 5_000  # a row group of a parquet file, held in memory until it is full
_GROUP_CHARS = 8_000_000
# JSON allows these as they are, but some readers take them for the end of a line, and some terminals obey them.
_LINE_OR_CONTROL = re.compile("[\x80-\x9f\u2028\u2029]")
_PARTS = ("label", "score", "explanation")
_COLUMNS = ("id", "evaluator", "version", "sandbox", "outcome", *_PARTS)


class Writer(ABC):
    """
    Writes rows to one file, emptied first. Every method may raise OSError.

    `outputs`: the names of the outputs where there are several, else empty.
    """

    def __init__(self, path: str, outputs: Sequence[str] = ()) -> None:
        self._outputs = tuple(outputs)

    @abstractmethod
    def add(self, row: Row) -> None:
        """Writes one row."""

    @abstractmethod
    def close(self) -> None:
        """Completes the file; nothing may be added after."""


class JsonlWriter(Writer):
    """One object a line, each on disk before the next row comes."""

    def __init__(self, path: str, outputs: Sequence[str] = ()) -> None:
        super().__init__(path, outputs)
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115  (closed by `close`)

    def add(self, row: Row) -> None:
        left = memoryview(_json(row) + b"\n")
        while left:
            left = left[self._file.write(left) :]

    def close(self) -> None:
        self._file.close()


class JsonWriter(Writer):
    """One array, which is complete whenever it has been flushed: what comes next overwrites its end."""

    _END = b"\n]\n"

    def __init__(self, path: str, outputs: Sequence[str] = ()) -> None:
        super().__init__(path, outputs)
        self._file = open(path, "wb")  # noqa: SIM115  (closed by `close`)
        self._flushed = monotonic()
        self._separator = b"\n"
        self._file.write(b"[")
        self._complete()

    def add(self, row: Row) -> None:
        self._file.write(self._separator + _json(row))
        self._separator = b",\n"
        if monotonic() - self._flushed > _FLUSH_SECONDS:
            self._complete()
            self._flushed = monotonic()

    def _complete(self) -> None:
        if self._file.seekable():
            here = self._file.tell()
            self._file.write(self._END)
            self._file.flush()
            self._file.seek(here)

    def close(self) -> None:
        try:
            self._file.write(self._END)
        finally:
            self._file.close()


class CsvWriter(Writer):
    """
    One line a row, the error as two columns, each further output as three.

    A text that a spreadsheet would run as a formula, or a terminal obey, is escaped behind an apostrophe.
    """

    def __init__(self, path: str, outputs: Sequence[str] = ()) -> None:
        super().__init__(path, outputs)
        self._file = open(path, "w", encoding="utf-8", errors="replace", newline="")  # noqa: SIM115
        self._flushed = monotonic()
        named = [f"{name}.{part}" for name in self._outputs for part in _PARTS]
        last = ("error_kind", "error_message", "stdout", "duration_ms")
        self._line([*_COLUMNS, *last, *named])

    def add(self, row: Row) -> None:
        error = row["error"] or {"kind": None, "message": None}
        cells = [
            *(row[c] for c in _COLUMNS),
            error["kind"],
            error["message"],
            row["stdout"],
            row["duration_ms"],
        ]
        for name in self._outputs:
            score = row.get("outputs", {}).get(name, {})
            cells += [score.get(part) for part in _PARTS]
        self._line(cells)
        if monotonic() - self._flushed > _FLUSH_SECONDS:
            self._file.flush()
            self._flushed = monotonic()

    def _line(self, cells: Sequence[Any]) -> None:
        self._file.write(",".join(map(cell, cells)) + "\n")

    def close(self) -> None:
        self._file.close()


class ParquetWriter(Writer):
    """Row groups of some thousand rows. A file that was not closed cannot be read."""

    def __init__(self, path: str, outputs: Sequence[str] = ()) -> None:
        super().__init__(path, outputs)
        import pyarrow.parquet as pq

        self._schema = _schema(self._outputs)
        self._file = pq.ParquetWriter(path, self._schema)
        self._rows: list[Row] = []
        self._chars = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self._chars += sum(len(v) for v in row.values() if isinstance(v, str))
        if len(self._rows) >= _GROUP_ROWS or self._chars >= _GROUP_CHARS:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa

        rows, self._rows, self._chars = self._rows, [], 0
        self._file.write_table(pa.Table.from_pylist([_encodable(r) for r in rows], schema=self._schema))

    def close(self) -> None:
        try:
            if self._rows:
                self._write()
        finally:
            self._file.close()


def _schema(outputs: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    score: list[tuple[str, pa.DataType]] = [
        ("label", pa.string()),
        ("score", pa.float64()),
        ("explanation", pa.string()),
    ]
    fields: list[tuple[str, pa.DataType]] = [(name, pa.string()) for name in _COLUMNS[:5]]
    fields += score
    fields += [
        ("error", pa.struct([("kind", pa.string()), ("message", pa.string())])),
        ("stdout", pa.string()),
        ("duration_ms", pa.float64()),
    ]
    if outputs:
        fields.append(("outputs", pa.struct([(name, pa.struct(score)) for name in outputs])))
    return pa.schema(fields)


def _json(row: Row) -> bytes:
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    if not text.isascii():
        text = _LINE_OR_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode("utf-8", "replace")


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    return {k: _encodable(v) for k, v in value.items()} if isinstance(value, dict) else value
