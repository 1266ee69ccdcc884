"""Python values that are no dataset, and the line that makes one of them."""

from __future__ import annotations

import io
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import islice
from typing import Any

from runner.core.errors import DatasetError
from runner.core.text import describe, list_names, printable

_LOOKED_AT = 10
"""Rows of a list that are looked at; if none is a mapping, the list holds something else."""
_OUTPUT = '[{"output": value} for value in data]'


def refuse_what_has_no_rows(data: object) -> None:
    """Raise DatasetError, with the line to write, for a value that is not an iterable of mappings."""
    kind = type(data)
    words = f"{printable(kind.__module__.split('.')[0], 60)}'s {printable(kind.__name__, 60)}"
    step = _step(data)
    if step is not None:
        raise DatasetError(f"{step[0].format(words)}: {step[1]}")
    if isinstance(data, AsyncIterable) or not isinstance(data, Iterable):
        raise DatasetError(
            'a dataset is a path, a data frame, or rows such as [{"output": "4", "reference": "4"}], '
            f"not {describe(data, 60)}"
        )


def _step(data: Any) -> tuple[str, str] | None:
    """What the value is, where `{}` stands for its type, and what to write instead; None for what may be rows."""
    if isinstance(data, Mapping):
        return _mapping(data)
    if isinstance(data, io.IOBase):
        return "an open file is no dataset; give its path", 'evaluate(…, "data.jsonl")'
    if isinstance(data, AsyncIterable):
        return "rows that are awaited are collected first", "[row async for row in data]"
    if callable(data) and not isinstance(data, Iterable):
        return (
            "the dataset is a function; call it",
            f"evaluate(…, {printable(getattr(data, '__name__', 'rows'), 60)}())",
        )
    if type(data).__name__ in ("Series", "ChunkedArray") or hasattr(data, "__arrow_c_array__"):
        to_frame = hasattr(data, "to_frame")
        return "{} is one column; name it", 'data.to_frame("output")' if to_frame else 'pyarrow.table({"output": data})'
    if hasattr(data, "ndim") and hasattr(data, "tolist"):
        named = 'pandas.DataFrame(data, columns=["output", "reference"])'
        return "{} has no column names; name them", named if data.ndim == 2 else _OUTPUT
    for method in ("collect", "toPandas", "to_pandas", "to_arrow", "compute"):
        if callable(getattr(data, method, None)) and not isinstance(data, Sequence):
            return "{} is no data frame that is read here; make it one", f"data.{method}()"
    if isinstance(data, list | tuple):
        return _elements(data)
    return None


def _mapping(data: Mapping[Any, Any]) -> tuple[str, str]:
    values = list(islice(data.values(), _LOOKED_AT))
    for name, value in islice(data.items(), _LOOKED_AT):
        if isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value[:_LOOKED_AT]):
            return f"the rows seem to be in {describe(name, 60)}; give those", f"data[{describe(name, 60)}]"
    if values and all(callable(getattr(value, "select_columns", None)) for value in values):
        return f"{{}} has several splits, {list_names(map(str, data))}; name one", f"data[{next(iter(data))!r}]"
    if values and all(not isinstance(value, str | Mapping) and _has_length(value) for value in values):
        step = "[dict(zip(data, row)) for row in zip(*data.values())]"
        return "the dataset is a dict of columns; make rows of it", step
    return "the dataset is one row; put it into a list", "[row]"


def _has_length(value: object) -> bool:
    return hasattr(value, "__len__")


def _elements(data: Sequence[Any]) -> tuple[str, str] | None:
    if not data or any(isinstance(row, Mapping) for row in data[:_LOOKED_AT]):
        return None
    first = data[0]
    if is_dataclass(first):
        return "the rows are dataclasses; make dicts of them", "[dataclasses.asdict(row) for row in data]"
    for method in ("model_dump", "_asdict", "to_dict"):
        if callable(getattr(first, method, None)):
            return "the rows are objects; make dicts of them", f"[row.{method}() for row in data]"
    if isinstance(first, list | tuple):
        names = ", ".join(f'"{name}"' for name in ("output", "reference", "input")[: max(1, len(first))])
        names = names if len(first) > 1 else f"{names},"
        return "the rows have no column names; name them", f"[dict(zip(({names}), row)) for row in data]"
    return f"a row must be a mapping, not {describe(first, 60)}; name the column", _OUTPUT
