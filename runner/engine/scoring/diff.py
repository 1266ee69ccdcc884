"""Compare two results, or a result and the expected one, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice, starmap
from typing import Any, NamedTuple

from runner.core.text import printable, shown_json
from runner.core.types import Result, Score
from runner.engine.scoring.look_alikes import tell_apart
from sandboxes.record import Record

TOLERANCE = 1e-9
"""The allowed difference of two scores. Adding up a sum in another order gives less."""

TEXT_CHARACTERS = 2000
"""Characters of a text that differs."""
_BEFORE = 40  # of them before the place where it differs


class FieldDifference(Record):
    """One field that differs. A long text is cut around the first difference."""

    field: str
    """outcome, kind, message, label, score or explanation; `NAME.score` and so on for a named output."""
    expected: Any = None
    got: Any = None


def fields(result: Result) -> dict[str, Any]:
    """Return the fields that must be equal in two runs. Error messages are not: they depend on the language."""
    found: dict[str, Any] = {"outcome": result.outcome, "kind": result.error.kind if result.error else None}
    if not result.outputs:
        return found | score_fields(result)
    for name, score in result.outputs.items():
        found |= {qualified_name(name, field): value for field, value in score_fields(score).items()}
    return found


def score_fields(score: Result | Score) -> dict[str, Any]:
    """Return the label, score and explanation, by name."""
    return {"label": score.label, "score": score.score, "explanation": score.explanation}


def qualified_name(output: str, field: str) -> str:
    """Return the name of an output's field; the empty name is that of the only output."""
    return f"{output}.{field}" if output else field


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Return true if two values of one field are equal; numbers may differ by `tolerance`."""
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) <= tolerance
    return bool(a == b)


def unlike(results: Sequence[Result], tolerance: float) -> dict[str, tuple[Any, ...]]:
    """
    Return the fields in which they differ, with the value of each.

    If the outcomes differ, nothing else is compared.
    """
    every = [fields(result) for result in results]
    names = list(dict.fromkeys(name for each in every for name in each))
    found = {}
    for name in names:
        values = tuple(each.get(name) for each in every)
        if not all(same(values[0], value, tolerance) for value in values[1:]):
            found[name] = values
    return {"outcome": found["outcome"]} if "outcome" in found else found


def difference(field: str, expected: Any, got: Any) -> FieldDifference:
    """Return two values that differ, bounded in size."""
    expected, got = windows((expected, got), TEXT_CHARACTERS)
    return FieldDifference(field=field, expected=expected, got=got)


def windows(values: Sequence[Any], limit: int) -> list[Any]:
    """Return the values, with texts cut to about `limit` characters around their first difference."""
    texts = [text for text in values if isinstance(text, str)]
    if max(map(len, texts), default=0) <= limit:
        return list(values)
    alike = _alike(min(texts), max(texts)) if len(texts) > 1 else 0
    start = max(0, alike - min(_BEFORE, limit // 2))
    return [_cut(value, start, limit) if isinstance(value, str) else value for value in values]


def _alike(a: str, b: str) -> int:
    """The length of the common prefix. That of a set's smallest and largest text is common to all its texts."""
    shorter = min(len(a), len(b))
    return next((n for n in range(shorter) if a[n] != b[n]), shorter)


def _cut(text: str, start: int, limit: int) -> str:
    end = start + limit
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


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
    Return the first differences of two objects or lists, also as JSON text; none for anything else.

    Nor of two texts that are lists: a script that takes them for lists gets their characters, and that is to be seen.
    """
    return tuple(starmap(_difference, islice(filter(None, _places(output, reference)), MOST)))


def count_differences(output: Any, reference: Any, most: int) -> JsonDifferences:
    """Return the same with as many places as are asked for, and with how many there are beyond."""
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
