"""Replies of a bounded size: an agent's memory is small, and what is in a row may be anything."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from sandboxes.record import Record

MOST = 24_000
"""Characters of a reply, as JSON."""

_TEXTS = (4000, 2000, 1000, 500, 250, 120, 60)
"""Characters of one text: as many as let the whole fit."""
_ITEMS = (100, 100, 100, 60, 40, 30, 20, 10)
_DEPTH = 12


def as_reply(model: BaseModel | Record | dict[str, Any]) -> dict[str, Any]:
    """
    Return a model or an object as JSON values.

    Long texts and lists are cut, and say so, until it is short enough.
    """
    plain = model.model_dump(mode="json", exclude_none=True) if isinstance(model, BaseModel | Record) else model
    for text, items in zip((*_TEXTS, 24), _ITEMS, strict=True):
        made: dict[str, Any] = _cut(plain, text, items, _DEPTH)
        if len(json.dumps(made, ensure_ascii=False, default=str)) <= MOST:
            return made
    return {"cut": "the reply is too large to show even in part; ask for fewer rows", "keys": sorted(plain)[:50]}


def _cut(value: Any, text: int, items: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text else f"{value[:text]}… ({len(value):,} characters)"
    if isinstance(value, dict | list | tuple) and not depth:
        return "… (nested deeper)"
    if isinstance(value, dict):
        few = {_cut(str(key), 200, 0, 0): _cut(one, text, items, depth - 1) for key, one in list(value.items())[:items]}
        return few if len(value) <= items else few | {"…": f"{len(value) - items:,} more"}
    if isinstance(value, list | tuple):
        some = [_cut(one, text, items, depth - 1) for one in value[:items]]
        return some if len(value) <= items else [*some, f"… ({len(value) - items:,} more)"]
    return value
