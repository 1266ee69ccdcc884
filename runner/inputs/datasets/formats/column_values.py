"""Write a row of Python values as JSON text. Imports little: each Parquet file starts a process that imports this."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder
from collections.abc import Collection, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from runner.core.text import describe, printable
from sandboxes.words.wording import Message, Setting

MAX_ROW = 8 << 20
"""Bytes of one row as it stands in the file. A longer one is skipped without being held."""
MAX_DEPTH = 500
"""Nested lists and objects. Beyond this, most code that handles a row runs out of stack."""

_PLACES, _PLACE = 20, 200  # places of binary values that are named, and their characters


UNDECODED_BYTE = 0xFE
"""The byte that stands for what could not be decoded, where a file has another encoding than UTF-8."""
UTF8_STEP = Message("save the file as UTF-8, or give its encoding, such as ", Setting("encoding", "cp1252"))


class RowError(ValueError):
    """Why one row cannot be used."""


class UnreadError(RowError):
    """Neither this row nor the rows after it can be read."""


class TooLong(RowError):
    def __init__(self, more: str = "") -> None:
        super().__init__(f"the row is longer than {MAX_ROW >> 20} MB{more}")


def too_deep() -> RowError:
    return RowError(f"nested more than {MAX_DEPTH} levels deep")


def json_text(row: Mapping[str, Any]) -> str:
    """
    Return a row of Python values as JSON: dates as ISO text, NaN and the like as the word NaN, arrays as lists.

    Raises:
        RowError: For what has no such form, or is too long.
    """
    try:
        text = _written(row)
    except MemoryError:
        raise TooLong() from None
    if len(text) > MAX_ROW:
        raise TooLong()
    return text


def _written(row: Mapping[str, Any]) -> str:
    column = None
    try:
        plain = dict(row)
        try:
            return "".join(_chunks(plain, 0))
        except Exception:
            for column, value in plain.items():
                _chunks({column: value}, 0)
            raise
    except RecursionError:
        raise too_deep() from None
    except MemoryError:
        raise
    except Exception as error:
        where = "" if column is None else f"column {describe(column, 60)}: "
        raise RowError(f"{where}{printable(str(error))}") from None


def without_binary(
    row: Mapping[str, Any], columns: Collection[str] | None, left_out: dict[str, None]
) -> dict[str, Any]:
    """
    Return these columns of the row, without what is binary within them, such as an image's bytes; in a list it is None.
    `columns` None: all, but for those that are binary, and are not the id. Where it was is added to
    `left_out`. Keys of objects are text.

    Raises:
        RowError: The row cannot be used.
    """
    try:
        return {
            name: _textual(value, printable(str(name), 60), left_out)
            for name, value in row.items()
            if (
                name in columns
                if columns is not None
                else name == "id" or not _is_left_out(value, printable(str(name), 60), left_out)
            )
        }
    except RecursionError:
        raise too_deep() from None
    except (RowError, MemoryError):
        raise
    except Exception as error:
        raise RowError(printable(str(error))) from None


def _textual(value: Any, path: str, left_out: dict[str, None]) -> Any:
    if getattr(value, "ndim", 0) and callable(getattr(value, "tolist", None)):
        value = value.tolist()
    if isinstance(value, Mapping):
        found = {}
        for key, inner in value.items():
            place = f"{path}.{printable(str(key), 60)}" if len(path) < _PLACE else path
            if not _is_left_out(inner, place, left_out):
                found[_key(key)] = _textual(inner, place, left_out)
        return found
    if isinstance(value, list | tuple):
        return [None if _is_left_out(inner, path, left_out) else _textual(inner, path, left_out) for inner in value]
    return value


def _is_left_out(value: Any, place: str, left_out: dict[str, None]) -> bool:
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            bytes(value).decode()
        except UnicodeDecodeError:
            pass
        else:
            return False
    elif type(value).__module__.partition(".")[0] != "PIL":
        return False
    if len(left_out) < _PLACES:
        left_out[place] = None
    return True


def _key(key: Any) -> Any:
    """A key of an object as JSON has it: an Arrow map may have any."""
    if key is None or isinstance(key, str | int | float):
        return key
    found = _plain(key)
    return found if isinstance(found, str | int | float) else str(found)


def _plain(value: Any) -> Any:
    """For what is no JSON type by itself."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if type(value).__name__ in ("datetime64", "timedelta64"):
        # Otherwise numpy gives nanoseconds as an integer.
        value = value.astype(f"{type(value).__name__}[us]").tolist()
    if value is None or isinstance(value, date | time):
        return None if value is None else value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise RowError(
                f"{len(value):,} bytes that are no UTF-8 text; map another column, or make text of it"
            ) from None
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise RowError(
        f"a value of type {printable(type(value).__name__, 60)} cannot be written as JSON; make it text or a number"
    )


def _number(value: Decimal) -> float | int:
    if value.is_finite() and value.adjusted() < 30 and value == value.to_integral_value():
        return int(value)
    return float(value)


# As json.JSONEncoder(default=_plain) writes, which would make this anew for each row.
_chunks = make_encoder(None, _plain, encode_basestring_ascii, None, ": ", ", ", False, False, True)
