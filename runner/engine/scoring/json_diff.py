"""The first places in which two JSON documents differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice, starmap
from typing import Any, NamedTuple

from runner.core.text import printable, shown_json
from runner.engine.scoring.look_alikes import tell_apart
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


class JsonDifferences(NamedTuple):
    """The first places, and how many follow."""

    first: tuple[JsonDifference, ...] = ()
    more: int = 0
    all_compared: bool = True
    """False if the documents were too large to compare each place: there may be more."""


def json_differences(output: Any, reference: Any) -> tuple[JsonDifference, ...]:
    """
    The first differences of two objects or lists, also as JSON text; none for anything else.

    Nor of two texts that are lists: a script that takes them for lists gets their characters, and that is to be seen.
    """
    return tuple(starmap(_difference, islice(filter(None, _places(output, reference)), MOST)))


def count_differences(output: Any, reference: Any, most: int) -> JsonDifferences:
    """The same with as many places as are asked for, and with how many there are beyond."""
    found: list[JsonDifference] = []
    more = compared = 0
    for place in _places(output, reference):
        compared += 1
        if place and len(found) < most:
            found.append(_difference(*place))
        elif place:
            more += 1
    return JsonDifferences(tuple(found), more, compared < _PLACES)


def _difference(path: str, one: Any, other: Any) -> JsonDifference:
    output, reference = tell_apart([_text(one), _text(other)])
    return JsonDifference(path=printable(path, 120), output=output, reference=reference)


class _Missing:
    pass


_MISSING = _Missing()


def _places(output: Any, reference: Any) -> Iterator[tuple[str, Any, Any] | None]:
    """Each place in the order of the documents, None where both are alike; not those beyond a bounded number."""
    left, right = _document(output), _document(reference)
    texts = isinstance(output, str) and isinstance(reference, str)
    if type(left) is not type(right) or not isinstance(left, dict if texts else dict | list):
        return
    stack: list[tuple[str, Any, Any]] = [("$", left, right)]
    for _ in range(_PLACES):
        if not stack:
            return
        path, one, other = stack.pop()
        unlike = False
        if isinstance(one, dict) and isinstance(other, dict):
            names = list(dict.fromkeys((*one, *other)))[:_PLACES]
            stack += [(f"{path}.{name}", one.get(name, _MISSING), other.get(name, _MISSING)) for name in names][::-1]
        elif isinstance(one, list) and isinstance(other, list):
            size = min(max(len(one), len(other)), _PLACES)
            stack += [(f"{path}[{n}]", _item(one, n), _item(other, n)) for n in range(size)][::-1]
        else:
            unlike = isinstance(one, bool) is not isinstance(other, bool) or one != other
        yield (path, one, other) if unlike else None


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
