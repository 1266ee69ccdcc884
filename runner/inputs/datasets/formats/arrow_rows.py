"""Rows of Arrow batches as lines of JSON. Each Parquet file starts a process that imports this."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from runner.core.text import printable
from runner.inputs.datasets.formats.column_values import MAX_ROW, RowError, TooLong, json_text, without_binary

_AT_ONCE = 16 << 20
"""Bytes in a batch from which on its rows become Python values one by one."""
_TOGETHER = 1 << 20
"""Bytes of a batch whose rows may share a line."""


def plain(type: Any) -> bool:
    """Say whether each value is as JSON has it."""
    import pyarrow.types as types

    of = (types.is_string, types.is_large_string, types.is_integer, types.is_float64, types.is_boolean, types.is_null)
    return any(one(type) for one in of)


def one_line(batch: Any) -> str | None:
    """Return all rows, column by column; None where they have to be written one by one."""
    if batch.nbytes > _TOGETHER:
        return None
    try:
        text = json.dumps([column.to_pylist() for column in batch.columns], allow_nan=False)
    except Exception:
        return None
    return text if len(text) <= MAX_ROW else None


def lines(batch: Any, columns: Collection[str] | None = None, left_out: dict[str, None] | None = None) -> Iterator[str]:
    """
    Yield each row, or why there is none. What is binary is left out, but for `columns` that are asked for; its place is
    added to `left_out`.
    """
    places: dict[str, None] = {} if left_out is None else left_out
    try:
        values = python_rows(batch) if batch.nbytes <= _AT_ONCE else None
    except Exception:
        values = None
    if values is None:
        # One value that Python cannot hold, such as a date in the year 20000, must not cost its neighbours.
        for at in range(batch.num_rows):
            yield _line(batch.slice(at, 1), columns, places)
        return
    for value in values:
        yield _text(value, columns, places)


def python_rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows as Python values: a map is a dict; of a key that it has twice the last value."""
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="lossy")
    return rows


def _text(row: dict[str, Any], columns: Collection[str] | None, places: dict[str, None]) -> str:
    try:
        with suppress(RowError):
            return json_text(row)
        return json_text(without_binary(row, columns, places))
    except RowError as error:
        return json.dumps(str(error))


def _line(batch: Any, columns: Collection[str] | None, places: dict[str, None]) -> str:
    try:
        (row,) = python_rows(batch)
        if any(isinstance(value, str) and len(value) > MAX_ROW for value in row.values()):
            raise TooLong()
        return _text(row, columns, places)
    except RowError as error:
        return json.dumps(str(error))
    except MemoryError:
        return json.dumps(str(TooLong()))
    except Exception as error:
        return json.dumps(f"a value cannot be read: {printable(str(error))}")
