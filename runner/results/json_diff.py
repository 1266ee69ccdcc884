"""The first places in which two JSON documents differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from runner.text import printable, shown_json
from sandboxes.record import Record

MOST = 8
"""Differences that are kept."""

_PLACES = 5000  # that are compared
_PARSED = 100_000  # characters of a text that is parsed
_VALUE = 300
_NOTHING = "(nothing)"


class JsonDifference(Record):
    """One place, and what each side has there."""

    path: str
    output: str
    reference: str


def json_differences(output: Any, reference: Any) -> tuple[JsonDifference, ...]:
    """The first differences of two objects or lists, also as JSON text; none for anything else."""
    left, right = _document(output), _document(reference)
    if type(left) is not type(right) or not isinstance(left, dict | list):
        return ()
    found: list[JsonDifference] = []
    for path, one, other in _unlike(left, right):
        found.append(JsonDifference(path=printable(path, 120), output=_text(one), reference=_text(other)))
        if len(found) == MOST:
            break
    return tuple(found)


class _Missing:
    pass


_MISSING = _Missing()


def _unlike(left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    """The places in the order of the documents; not those beyond a bounded number."""
    stack: list[tuple[str, Any, Any]] = [("$", left, right)]
    for _ in range(_PLACES):
        if not stack:
            return
        path, one, other = stack.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            names = list(dict.fromkeys((*one, *other)))[:_PLACES]
            pairs = [(f"{path}.{name}", one.get(name, _MISSING), other.get(name, _MISSING)) for name in names]
        elif isinstance(one, list) and isinstance(other, list):
            size = min(max(len(one), len(other)), _PLACES)
            pairs = [(f"{path}[{n}]", _item(one, n), _item(other, n)) for n in range(size)]
        else:
            if isinstance(one, bool) is not isinstance(other, bool) or one != other:
                yield path, one, other
            continue
        stack += reversed(pairs)


def _item(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else _MISSING


def _document(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= _PARSED and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def _text(value: Any) -> str:
    return _NOTHING if value is _MISSING else shown_json(value, _VALUE)
