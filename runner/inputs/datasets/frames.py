"""
Data frames and tables as rows: pandas, polars, Arrow and Hugging Face datasets.

None of these libraries is imported here. A frame can exist only where its own library is imported already.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from operator import length_hint
from typing import Any, TypeAlias

from runner.core.errors import DatasetError
from runner.core.text import describe, printable
from runner.inputs.datasets.formats.arrow_rows import python_rows
from runner.inputs.datasets.formats.column_values import RowError

_ROWS = 1000
"""Rows that become Python values at once."""
_BYTES = 4 << 20
"""Bytes from which on fewer do."""
_UNREAD = 200
"""Columns that are named in messages about columns that were not read."""

Values: TypeAlias = "dict[str, Any] | RowError"


class FrameRows:
    """
    The rows of a data frame. Only a slice of them is held as Python values at a time.

    `count` is None if it is unknown, as for a stream. `read` yields the rows with the columns that it is given.
    """

    def __init__(self, names: Iterable[str], count: int | None, read: Callable[[list[str]], Iterator[Values]]) -> None:
        self.names = tuple(names)
        self.count = count
        self._read = read

    def read(self, columns: Collection[str] | None = None) -> Iterator[Values]:
        """Yield each row, or why it cannot be read. `columns` are those that are needed; None is all."""
        wanted = [name for name in self.names if columns is None or name in columns]
        if wanted or self.count is None:
            return self._read(wanted)
        return ({} for _ in range(self.count))

    def unread(self, columns: Collection[str] | None) -> tuple[str, ...]:
        """Return the columns that `read` leaves out, as far as messages name them."""
        if columns is None:
            return ()
        return tuple(name[:_UNREAD] for name in self.names if name not in columns)[:_UNREAD]

    def __iter__(self) -> Iterator[Any]:
        return self.read()


def row_count(rows: Iterable[object]) -> int | None:
    """Return the number of rows, if it is known before they are read."""
    count = rows.count if isinstance(rows, FrameRows) else length_hint(rows, -1)
    return None if count == -1 else count


def frame_rows(data: object) -> FrameRows | None:
    """
    Return the rows of a data frame; None for anything else.

    Raises:
        DatasetError: For columns that cannot be told apart, and for an Arrow stream without pyarrow.
    """
    for library, name, source in (
        ("pandas", "DataFrame", _pandas),
        ("polars", "DataFrame", _polars),
        ("pyarrow", "Table", _arrow),
        ("pyarrow", "RecordBatch", _arrow_batch),
        ("pyarrow", "RecordBatchReader", _arrow_reader),
        ("datasets", "Dataset", _hugging_face),
    ):
        kind = getattr(sys.modules.get(library), name, None)
        if isinstance(kind, type) and isinstance(data, kind):
            return _checked(source(data))
    if hasattr(data, "__arrow_c_stream__") and not _is_column(data):
        return _checked(_arrow_stream(data))
    return None


def _is_column(data: Any) -> bool:
    return type(data).__name__ in ("Series", "ChunkedArray")


def _checked(rows: FrameRows) -> FrameRows:
    repeated = next((name for name, count in Counter(rows.names).items() if count > 1), None)
    if repeated is not None:
        raise DatasetError(f"the data frame: two columns are named {describe(repeated, 60)}; rename one")
    return rows


def _pandas(frame: Any) -> FrameRows:
    if frame.columns.nlevels > 1:
        raise DatasetError(
            "the data frame's columns have several levels; join their names: "
            'df.columns = ["_".join(map(str, names)) for names in df.columns]'
        )
    names = [str(name) for name in frame.columns]
    # A named index is a column, as in a Parquet file; an unnamed one counts the rows.
    levels = {str(name): at for at, name in enumerate(frame.index.names) if name is not None and str(name) not in names}

    def read(columns: list[str]) -> Iterator[Values]:
        places = {name: at for at, name in enumerate(names)}
        for start in range(0, len(frame), _ROWS):
            part = frame.iloc[start : start + _ROWS]
            series = [
                part.iloc[:, places[name]] if name in places else part.index.get_level_values(levels[name])
                for name in columns
            ]
            for values in zip(*(column.tolist() for column in series), strict=True):
                yield dict(zip(columns, values, strict=True))

    return FrameRows([*levels, *names], len(frame), read)


def _polars(frame: Any) -> FrameRows:
    def read(columns: list[str]) -> Iterator[Values]:
        some = frame.select(columns)
        size = max(1, min(_ROWS, _BYTES * len(some) // max(1, some.estimated_size())))
        for part in some.iter_slices(size):
            yield from _each(part, len(part), lambda part: part.to_dicts())

    return FrameRows(frame.columns, len(frame), read)


def _arrow(table: Any) -> FrameRows:
    def read(columns: list[str]) -> Iterator[Values]:
        for batch in table.select(columns).to_batches(_ROWS):
            yield from _batch_rows(batch)

    return FrameRows(table.schema.names, table.num_rows, read)


def _arrow_batch(batch: Any) -> FrameRows:
    return _arrow(sys.modules["pyarrow"].Table.from_batches([batch]))


def _arrow_reader(reader: Any) -> FrameRows:
    def read(columns: list[str]) -> Iterator[Values]:
        for batch in reader:
            # Without columns, a batch of pyarrow has no rows.
            yield from _batch_rows(batch.select(columns)) if columns else ({} for _ in range(batch.num_rows))

    return FrameRows(reader.schema.names, None, read)


def _arrow_stream(data: Any) -> FrameRows:
    if find_spec("pyarrow") is None:
        kind = printable(type(data).__name__, 60)
        raise DatasetError(f'a table of type {kind} is read by pyarrow: pip install "evalcell[parquet]"')
    import pyarrow as pa

    try:
        return _arrow_reader(pa.RecordBatchReader.from_stream(data))
    except Exception as error:
        raise DatasetError(f"the Arrow stream cannot be read: {printable(str(error))}") from None


def _hugging_face(dataset: Any) -> FrameRows:
    def read(columns: list[str]) -> Iterator[Values]:
        if dataset.format["type"] == "custom":
            # What the user's own transform gives, maybe with other columns.
            yield from dataset
            return
        for table in dataset.select_columns(columns).with_format("arrow").iter(_ROWS):
            for batch in table.to_batches(_ROWS):
                yield from _batch_rows(batch)

    return FrameRows(dataset.column_names, len(dataset), read)


def _batch_rows(batch: Any) -> Iterator[Values]:
    """The rows of a record batch; of one that is large, a part at a time."""
    count = batch.num_rows
    size = max(1, min(_ROWS, _BYTES * count // max(1, batch.nbytes)))
    for start in range(0, count, size):
        part = batch.slice(start, size)
        yield from _each(part, part.num_rows, python_rows)


def _each(part: Any, count: int, values: Callable[[Any], list[dict[str, Any]]]) -> Iterator[Values]:
    """One value that Python cannot hold, such as a date in the year 20000, costs its own row only."""
    try:
        rows: Sequence[Values] = values(part)
    except BaseException as error:
        # polars panics.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if count == 1:
            rows = [RowError(f"a value cannot be read: {printable(str(error))}")]
        else:
            rows = [row for at in range(count) for row in _each(part.slice(at, 1), 1, values)]
    yield from rows
