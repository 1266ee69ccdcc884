"""Rows of datasets that are kept: looked at, and counted when a file comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from runner.core.errors import DatasetError
from runner.core.text import whole, whole_json
from runner.core.types import Case
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.work import ask
from runner.results.store.store import Store
from runner.server.service.errors import ServiceError
from runner.server.service.types import DatasetRow, DatasetRows, line

FURTHEST = 100_000
"""The last row that can be looked at: those before it are read each time."""
FIRST_ROWS = 1000
"""Rows that are soon found."""
_COUNTED = 64 << 20
"""Bytes of a file whose rows are counted one by one."""
_SECONDS = 2.0
"""Seconds in which they are; reading them holds up whatever else this process does."""
_PATIENCE = 10.0
"""Seconds in which the rows that somebody looks at must be found."""
_LOOKED_AT = 1000
_TOO_DEEP = "(nested too deeply to be shown; evaluators are given all of it)"
_NAMES = 1000


def some_rows(store: Store, name: str, first: int, count: int) -> DatasetRows:
    """Return rows of a dataset. Raises NotStoredError, DatasetError and ServiceError. Blocks."""
    if first > FURTHEST:
        raise ServiceError("invalid-request", f"`first` is at most {FURTHEST:,}; a run's results show all rows")
    info = store.dataset(name)
    with open_dataset(store.dataset_path(info)) as dataset:
        found = tuple(_row(case) for case in islice(_soon(dataset), first - 1, first - 1 + count))
    names = dict.fromkeys(key for row in found if row.row for key in row.row)
    return DatasetRows(dataset=info.name, first=first, total=info.rows, columns=tuple(names)[:_NAMES], rows=found)


def _soon(dataset: Iterable[Case]) -> Iterator[Case]:
    end = monotonic() + _PATIENCE
    for case in dataset:
        ask()
        yield case
        if monotonic() > end:
            raise ServiceError("invalid-request", "it takes too long to read so many rows; ask for earlier, or fewer")


class FileContent(NamedTuple):
    """What a file has."""

    rows: int | None
    """None where it takes long to count them."""
    columns: tuple[str, ...]
    """Those of the first rows."""
    notes: tuple[str, ...] = ()
    """How it is read, where that is not as its name says."""


def looked_at(path: Path, seconds: float = _SECONDS) -> FileContent:
    """
    Look at a file's rows.

    Blocks, for about so many seconds at most.

    Raises:
        DatasetError: For a file that has no row that can be used.
    """
    end = monotonic() + seconds
    columns: dict[str, None] = {}
    rows = broken = 0
    why = ""
    with open_dataset(path) as dataset:
        total = dataset.total()
        columns |= dict.fromkeys(dataset.header)
        most = None if total is None and path.stat().st_size <= _COUNTED else _LOOKED_AT
        ended = True
        for case in dataset:
            ask()
            if (most is not None and rows >= most) or (rows and monotonic() >= end):
                ended = False
                break
            rows += 1
            if case.broken is not None:
                broken += 1
                why = why or case.broken
            elif rows <= _LOOKED_AT:
                columns |= dict.fromkeys(list(as_row(case))[:_NAMES])
    if rows == broken:
        if not rows:
            raise DatasetError("the file has no rows; add some")
        which = "no row" if ended else f"no row among the first {rows:,}"
        raise DatasetError(f"{which} can be used: {line(why)}")
    return FileContent(rows if ended else total, tuple(map(whole, columns))[:_NAMES], tuple(map(line, dataset.about)))


def as_row(case: Case) -> dict[str, Any]:
    """Return the row that a case was made of."""
    own = {name: getattr(case, name) for name in ("id", "input", "output", "reference") if name in case.present}
    return own | case.metadata


def _row(case: Case) -> DatasetRow:
    if case.broken is not None:
        return DatasetRow(number=case.number, row=None, error=line(case.broken))
    return DatasetRow(number=case.number, row=writable(as_row(case)))


def writable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reply can hold of a row."""
    return {whole(name): _writable(value) for name, value in row.items()}


def writable_result(row: dict[str, Any]) -> dict[str, Any]:
    """Return the same of a result, and of the columns that it carries."""
    carried = row.get("row")
    return writable(row) | ({"row": writable(carried)} if isinstance(carried, dict) else {})


def _writable(value: Any) -> Any:
    try:
        return whole_json(value)
    except RecursionError:
        return _TOO_DEEP
