"""Compare two results, or a result and the expected one, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.core.types import Result, Score
from sandboxes.record import Record

TOLERANCE = 1e-9
"""The allowed difference of two scores. Adding up a sum in another order gives less."""

KEPT = 2000
"""Characters of a text that differs."""
_BEFORE = 40  # of them before the place where it differs


class Difference(Record):
    """One field that differs. A long text is cut around the first difference."""

    field: str
    """outcome, kind, message, label, score or explanation; `NAME.score` and so on for a named output."""
    expected: Any = None
    got: Any = None


def fields(result: Result) -> dict[str, Any]:
    """The fields that must be equal in two runs. Error messages are not: they depend on the language."""
    found: dict[str, Any] = {"outcome": result.outcome, "kind": result.error.kind if result.error else None}
    if not result.outputs:
        return found | score_fields(result)
    for name, score in result.outputs.items():
        found |= {qualified(name, field): value for field, value in score_fields(score).items()}
    return found


def score_fields(score: Result | Score) -> dict[str, Any]:
    """The label, score and explanation, by name."""
    return {"label": score.label, "score": score.score, "explanation": score.explanation}


def qualified(output: str, field: str) -> str:
    """The name of an output's field; the empty name is that of the only output."""
    return f"{output}.{field}" if output else field


def same(a: Any, b: Any, tolerance: float) -> bool:
    """True if two values of one field are equal; numbers may differ by `tolerance`."""
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) <= tolerance
    return bool(a == b)


def unlike(results: Sequence[Result], tolerance: float) -> dict[str, tuple[Any, ...]]:
    """The fields in which they differ, with the value of each. If the outcomes differ, nothing else is compared."""
    every = [fields(result) for result in results]
    names = list(dict.fromkeys(name for each in every for name in each))
    found = {}
    for name in names:
        values = tuple(each.get(name) for each in every)
        if not all(same(values[0], value, tolerance) for value in values[1:]):
            found[name] = values
    return {"outcome": found["outcome"]} if "outcome" in found else found


def difference(field: str, expected: Any, got: Any) -> Difference:
    """Two values that differ, bounded in size."""
    expected, got = windows((expected, got), KEPT)
    return Difference(field=field, expected=expected, got=got)


def windows(values: Sequence[Any], limit: int) -> list[Any]:
    """The values, with texts cut to about `limit` characters around their first difference."""
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
