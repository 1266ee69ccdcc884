"""One row: JSON text or Python values -> a case, or why not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from runner.core.errors import PathError, WorkError
from runner.core.settings import FileSettings
from runner.core.text import describe, printable, whole
from runner.core.types import Case
from runner.inputs.datasets.formats.column_values import (
    MAX_DEPTH,
    RowError,
    json_text,
    too_deep,
    without_binary,
)
from runner.inputs.datasets.frames import FrameRows
from runner.inputs.datasets.ids import Ids
from runner.inputs.datasets.notes import RowNotes
from runner.inputs.evaluators.column import Source

MAX_ID = 1000
"""Characters of an id: it stands in every result."""

COLUMNS = ("input", "output", "reference", "metadata")
_OWN = frozenset({"id", *COLUMNS})


class RowReading(FileSettings):
    """How a dataset's texts are read."""

    declared: tuple[str, ...] = ()
    """Columns of parameters that are declared as lists or objects, whose texts are read as such."""


PLAIN = RowReading()
"""As a file is read where nobody says otherwise."""

Row = tuple[str, "dict[str, Any] | RowError"]
"""The row's place, for messages, and its columns or its error."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text, by RFC 8259 and no further. Raises RowError."""
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
    """Return `value`, if it is an object. Raises RowError."""
    if not isinstance(value, dict):
        raise RowError(f'a row must be an object such as {{"output": …}}, not {describe(value, 60)}')
    return value


def check_depth(value: Any, text: str) -> None:
    """Raise RowError if `text`, the value as JSON, is nested too deeply."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep()
        inner = (x for item in level for x in (item.values() if isinstance(item, dict) else item))
        level = [x for x in inner if isinstance(x, dict | list)]


def _constant(name: str) -> NoReturn:
    raise RowError(f"{name} is not JSON; write null")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise RowError(f"the number {printable(digits, 40)} is too large; write it as text")
    return value


DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float)


def as_json(
    row: object, columns: Collection[str] | None = None, left_out: dict[str, None] | None = None
) -> dict[str, Any]:
    """
    Return a row of Python values as JSON values: dates as ISO text, NaN and the like as null, arrays as lists.

    What is binary is left out, and its place is added to `left_out`, unless it is a column that is needed by its name.

    Raises:
        RowError: For what has no such form, unless that is in no column that is needed: None is all.
    """
    if isinstance(row, RowError):
        raise row
    if not isinstance(row, Mapping):
        raise RowError(f"a row must be a mapping, not {describe(row)}")
    try:
        return read_json(json_text(row))
    except RowError:
        return read_json(json_text(without_binary(row, columns, {} if left_out is None else left_out)))


def read_json(text: str) -> dict[str, Any]:
    """Parse the output of `json_text`, with NaN as null. Raises RowError for what JSON cannot express."""
    try:
        value: dict[str, Any] = _MISSING_DECODER.decode(text)
    except RecursionError:
        raise too_deep() from None
    check_depth(value, text)
    return value


def _nan_is_null(name: str) -> None:
    if name != "NaN":
        raise RowError("an infinite number is not JSON; write null")


_MISSING_DECODER = json.JSONDecoder(parse_constant=_nan_is_null)


def cases(
    rows: Iterable[Row],
    ids: Ids,
    unread: tuple[str, ...] = (),
    id_source: Source | None = None,
    first: int = 1,
    on_broken: Callable[[RowError], object] | None = None,
) -> Iterator[Case]:
    """
    Yield one case for each row, with ids that differ.

    Args:
        rows: Rows, or why one could not be read.
        ids: Makes ids that no earlier row has.
        unread: The columns that the rows lack.
        id_source: Where the id is. None: in the column `id`.
        first: The first row's number.
        on_broken: Gets the error of each broken row.
    """
    last: tuple[str, ...] = ()  # rows that follow each other mostly have the same columns
    bare = filled = False  # whether these can hold no metadata, and whether there was some
    present = frozenset[str]()
    for number, (where, row) in enumerate(rows, first):
        name = ""
        try:
            if isinstance(row, RowError):
                raise row
            same = (names := tuple(row)) == last
            if id_source is None:
                name = _id(row.get("id"), number)
                metadata = {} if same and bare else _metadata(row)
            else:
                metadata = _metadata(row, frozenset(COLUMNS))
                name = _id(_found(id_source, row, metadata), number)
        except RowError as error:
            if on_broken is not None:
                on_broken(error)
            found = ids.take(name or str(number), number)
            yield Case(number=number, id=found, where=where, broken=f"{where}: {error}")
            continue
        if not same or filled != bool(metadata):
            last, filled, present = names, bool(metadata), _present(row, metadata)
            bare = row.keys() <= _OWN and "metadata" not in row
        yield Case.trusted(
            {
                "number": number,
                "id": ids.take(name, number),
                "where": where,
                "input": row.get("input"),
                "output": row.get("output"),
                "reference": row.get("reference"),
                "metadata": metadata,
                "present": present,
                "unread": unread,
                "broken": None,
            }
        )


def with_json(rows: Iterable[Row], names: Collection[str]) -> Iterator[Row]:
    """Yield the rows with the values of these columns that are texts read as JSON; an empty one is null."""
    for where, row in rows:
        if not isinstance(row, RowError):
            texts = {name: row[name] for name in names if isinstance(row.get(name), str)}
            try:
                row = row | {name: json_value(name, text) for name, text in texts.items()}
            except RowError as error:
                row = error
        yield where, row


def json_value(name: str, text: str) -> Any:
    """Return the value of a cell that is JSON. Raises RowError."""
    if not text.strip():
        return None
    try:
        return parse_json(text)
    except RowError as error:
        step = "; Python's lists are no JSON: write them with json.dumps" if "'" in text else ""
        raise RowError(f"column {describe(name, 60)}, {describe(text, 60)}: {error}{step}") from None


def own_id(row: dict[str, Any] | RowError, id_source: Source | None) -> str | None:
    """Return the id that a row has of its own, as `cases` finds it; None if it is called by its number."""
    try:
        if isinstance(row, RowError):
            return None
        value = row.get("id") if id_source is None else _found(id_source, row, _metadata(row, frozenset(COLUMNS)))
        found = _id(value, -1)
    except RowError:
        return None
    return None if found == "-1" and str(value) != found else found


def cases_from_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Collection[str] | None = None,
    id_source: Source | None = None,
    reading: RowReading = PLAIN,
    notes: RowNotes | None = None,
) -> Iterator[Case]:
    """
    Return Python rows as cases; one that cannot be used is a broken case. Messages name it by its number.

    What is wrong with others than `columns` does no harm; None is all.
    """
    frame = rows if isinstance(rows, FrameRows) else None
    notes = notes or RowNotes()

    def read() -> Iterator[Row]:
        for number, row in enumerate(frame.read(columns) if frame else rows, 1):
            try:
                yield f"row {number}", as_json(row, columns, notes.left_out)
            except RowError as error:
                yield f"row {number}", error

    found = with_json(read(), reading.json_columns) if reading.json_columns else read()
    found = notes.watch(found, columns, reading.declared, table=bool(frame))
    try:
        yield from cases(found, notes.ids, frame.unread(columns) if frame else (), id_source)
    finally:
        notes.ids.close()


def _present(row: Mapping[str, Any], metadata: Mapping[str, Any]) -> frozenset[str]:
    own = [column for column in ("id", *COLUMNS) if column in row]
    return frozenset([*own, "metadata"] if metadata else own)


def _found(source: Source, row: Mapping[str, Any], metadata: dict[str, Any]) -> Any:
    document = {name: row[name] for name in ("id", *COLUMNS) if name in row} | {"metadata": metadata}
    try:
        return source.value(document)
    except WorkError as error:
        raise RowError(f"its id: {error}") from None
    except PathError:
        return None


def _id(value: Any, number: int) -> str:
    if type(value) is str and len(value) <= MAX_ID and value.isascii():  # as most
        return value if value.strip() else str(number)
    if value is None:
        return str(number)
    if type(value) is not str and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise RowError(f"the id must be text or a number, not {describe(value)}")
    text = value if isinstance(value, str) else str(value)
    if len(text) > MAX_ID:
        raise RowError(f"the id has {len(text):,} characters, over {MAX_ID:,}")
    return whole(text) if text.strip() else str(number)


def _metadata(row: Mapping[str, Any], named: frozenset[str] = _OWN) -> dict[str, Any]:
    """The metadata column and, below it in rank, every column without a meaning of its own."""
    extra = {} if row.keys() <= _OWN else {name: value for name, value in row.items() if name not in named}
    own = row.get("metadata")
    if isinstance(own, str):
        own = _object(own)
    if own is None:
        return extra
    if not isinstance(own, dict):
        raise RowError(f"metadata must be an object, not {describe(own)}; put a single value in a column of its own")
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
