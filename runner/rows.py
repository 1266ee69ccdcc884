"""One row: JSON text or Python values -> a case, or why not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, NoReturn
from uuid import UUID

from runner.ids import Ids
from runner.shown import printable, shown, whole
from runner.types import Case

MAX_ROW = 8 << 20
"""Bytes of one row as it stands in the file. A longer one is skipped without being held."""
MAX_DEPTH = 500
"""Lists and objects within one another; beyond, most code that a row meets runs out of stack."""
MAX_ID = 1000
"""Characters of an id: it stands in every result."""

COLUMNS = ("input", "output", "reference", "metadata")
_OWN = frozenset({"id", *COLUMNS})


class RowError(ValueError):
    """Why one row cannot be used."""


class UnreadError(RowError):
    """Neither this row nor anything behind it can be read."""


Row = tuple[str, "dict[str, Any] | RowError"]
"""Where it stands, and its columns."""


class TooLong(RowError):
    def __init__(self, more: str = "") -> None:
        super().__init__(f"the row is longer than {MAX_ROW >> 20} MB{more}")


def decoded(data: bytes) -> str:
    """Raises RowError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8 at byte {error.start + 1}; save the file as UTF-8") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text, by RFC 8259 and no further. Raises RowError."""
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise RowError(f"not JSON: {error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise too_deep() from None
    except RowError:
        raise
    except ValueError:
        raise RowError("an integer has more than 4,300 digits; write it as text") from None
    check_depth(value, text)
    return value


def columns(value: Any) -> dict[str, Any]:
    """`value`, if it is an object. Raises RowError."""
    if not isinstance(value, dict):
        raise RowError(f'a row must be an object such as {{"output": …}}, not {shown(value, 60)}')
    return value


def check_depth(value: Any, text: str) -> None:
    """Raises RowError for what `text`, the value as JSON, nests too deeply."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep()
        inner = (x for item in level for x in (item.values() if isinstance(item, dict) else item))
        level = [x for x in inner if isinstance(x, dict | list)]


def too_deep() -> RowError:
    return RowError(f"nested more than {MAX_DEPTH} levels deep")


def _constant(name: str) -> NoReturn:
    raise RowError(f"{name} is not JSON; write null")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise RowError(f"the number {printable(digits, 40)} is too large; write it as text")
    return value


DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float)


def as_json(row: object) -> dict[str, Any]:
    """
    A row of Python values as JSON values: dates as ISO text, NaN and the like as null, arrays as lists.

    Raises RowError for what has no such form.
    """
    if not isinstance(row, Mapping):
        hint = '; a data frame gives its rows by to_dict("records")' if isinstance(row, str) else ""
        raise RowError(f"a row must be a mapping, not {shown(row)}{hint}")
    text = _written(row)
    if len(text) > MAX_ROW:
        raise TooLong()
    value: dict[str, Any] = _parse_missing(text)
    return value


def _written(row: Mapping[str, Any]) -> str:
    column = None
    try:
        plain = dict(row)
        try:
            return json.dumps(plain, default=_plain)
        except Exception:
            for column, value in plain.items():
                json.dumps({column: value}, default=_plain)
            raise
    except RecursionError:
        raise too_deep() from None
    except Exception as error:
        where = "" if column is None else f"column {shown(column, 60)}: "
        raise RowError(f"{where}{printable(str(error))}") from None


def _parse_missing(text: str) -> Any:
    try:
        value = _MISSING_DECODER.decode(text)
    except RecursionError:
        raise too_deep() from None
    check_depth(value, text)
    return value


def _nan_is_null(name: str) -> None:
    if name != "NaN":
        raise RowError("an infinite number is not JSON; write null")


_MISSING_DECODER = json.JSONDecoder(parse_constant=_nan_is_null)


def _plain(value: Any) -> Any:
    """For what is no JSON type by itself."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return decoded(bytes(value))
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise RowError(f"a value of type {printable(type(value).__name__, 60)} cannot be written as JSON")


def _number(value: Decimal) -> float | int:
    if value.is_finite() and value.adjusted() < 30 and value == value.to_integral_value():
        return int(value)
    return float(value)


def cases(rows: Iterable[Row], ids: Ids) -> Iterator[Case]:
    """One case for each row, numbered from 1, with ids that differ."""
    for number, (where, row) in enumerate(rows, 1):
        name = str(number)
        try:
            if isinstance(row, RowError):
                raise row
            name = _id(row.get("id"), number)
            metadata = _metadata(row)
        except RowError as error:
            yield Case(number=number, id=ids.take(name, number), where=where, broken=f"{where}: {error}")
            continue
        present = [column for column in ("id", *COLUMNS) if column in row]
        if metadata and "metadata" not in row:
            present.append("metadata")
        yield Case(
            number=number,
            id=ids.take(name, number),
            where=where,
            input=row.get("input"),
            output=row.get("output"),
            reference=row.get("reference"),
            metadata=metadata,
            present=frozenset(present),
        )


def cases_from_rows(rows: Iterable[Mapping[str, Any]], where: str = "row") -> Iterator[Case]:
    """Python rows as cases; one that cannot be used is a broken case. Messages name it by `where` and number."""

    def read() -> Iterator[Row]:
        for number, row in enumerate(rows, 1):
            try:
                yield f"{where} {number}", as_json(row)
            except RowError as error:
                yield f"{where} {number}", error

    ids = Ids()
    try:
        yield from cases(read(), ids)
    finally:
        ids.close()


def _id(value: Any, number: int) -> str:
    if value is None:
        return str(number)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(f"the id must be text or a number, not {shown(value)}")
    text = value if isinstance(value, str) else str(value)
    if len(text) > MAX_ID:
        raise RowError(f"the id has {len(text):,} characters, over {MAX_ID:,}")
    return whole(text) if text.strip() else str(number)


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata column and, below it in rank, every column without a meaning of its own."""
    extra = {name: value for name, value in row.items() if name not in _OWN}
    own = row.get("metadata")
    if isinstance(own, str):
        own = _object(own)
    if own is None:
        return extra
    if not isinstance(own, dict):
        raise RowError(f"metadata must be an object, not {shown(own)}; put a single value in a column of its own")
    return {**extra, **own} if extra else own


def _object(text: str) -> Any:
    """Metadata as a CSV cell: the text of a JSON object."""
    if not text.strip():
        return None
    try:
        value = parse_json(text)
    except RowError:
        return text
    return value if isinstance(value, dict) else text
