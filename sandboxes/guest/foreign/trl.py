"""Calls reward functions as TRL does: with lists, a value for each row."""

from __future__ import annotations

import contextlib
import json

from .frame import TYPE_CHECKING, abstention, below, find_function, invalid, load, parameters, words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

_WORDS = ("output", "input", "metadata")
_TRAINER = ("trainer_state", "log_extra", "log_metric")
"""What a trainer gives beside the rows; there is none."""


def wrap(source: str, entry: str, chats: list[str]) -> Callable[..., Any]:
    """Return the function that takes the words of several rows; `chats` are those that it reads as messages."""
    function = find_function(load(source), entry)
    called = f"{entry}()" if isinstance(function, type) else entry
    function = function() if isinstance(function, type) else function
    own, accepts_any = parameters(function)
    wanted = set(own)

    def columns_of(rows: list[dict[str, Any]], settings: dict[str, Any]) -> dict[str, Any]:
        columns = [_columns(row) for row in rows]
        names = {name: None for one in columns for name in one}
        found: dict[str, Any] = {
            name: [one.get(name) for one in columns] for name in names if accepts_any or name in wanted
        }
        if "completion_ids" in wanted:
            found["completion_ids"] = [None] * len(rows)
        found |= {name: None for name in _TRAINER if name in wanted}
        prompts, completions = [row.get("input") for row in rows], [row.get("output") for row in rows]
        if "prompts" in chats:
            prompts = [_chat(one, "user") for one in prompts]
        if "completions" in chats:
            completions = [_chat(one, "assistant") for one in completions]
        return {**found, **settings, "prompts": prompts, "completions": completions}

    def call(rows: list[dict[str, Any]]) -> Any:
        settings = [below(row, "set.") for row in rows]  # what is set for all rows, and is no column
        if any(one != settings[0] for one in settings):
            return {"alone": True}  # as worked examples may have it
        try:
            value = function(**columns_of(rows, settings[0]))
            return awaited(value, len(rows)) if hasattr(type(value), "__await__") else rewards(value, len(rows))
        except Exception:
            if len(rows) == 1:
                raise
        return {"alone": True}

    def rewards(value: Any, count: int) -> dict[str, Any]:
        return _rewards(value, count, _of_one(called, own))

    async def awaited(value: Awaitable[Any], count: int) -> Any:
        try:
            return rewards(await value, count)
        except Exception:
            if count == 1:
                raise
        return {"alone": True}

    return call


def _chat(value: Any, role: str) -> Any:
    """A text as the messages that it is in TRL's conversational data, or is the JSON of."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(value)
            if isinstance(found, list) and found and all(isinstance(one, dict) and "content" in one for one in found):
                return found
    return [{"role": role, "content": value}]


def _of_one(called: str, own: dict[str, bool]) -> str:
    """The line to add where a function scores one completion."""
    names = {"completions": "output", "prompts": "input", "completion_ids": "None"}
    names |= dict.fromkeys(_TRAINER, "None")
    given = {one: names.get(one, one) for one, optional in own.items() if not optional}
    arguments = ", ".join(f"{one}={value}" for one, value in given.items())
    columns = ", ".join(dict.fromkeys(one for one in given.values() if one != "None"))
    return f"def evaluate({columns}): return {called}({arguments})"


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    """The row's own columns, as a trainer's dataset has them."""
    metadata = row.get("metadata") or {}
    found = below(row, "column.") | metadata
    if metadata:
        found.setdefault("metadata", metadata)
    return found | {name: row[name] for name in row if name not in _WORDS and not name.startswith(("column.", "set."))}


def _rewards(value: Any, count: int, line: str) -> dict[str, Any]:
    """A result for each row."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "__iter__") and not isinstance(value, list | tuple | str | bytes | dict):
        value = list(value)
    if not isinstance(value, list | tuple):
        text = f"the reward function returned {words(value)}: return a list of numbers"
        if isinstance(value, bool | int | float):
            text += f"; if it scores one completion, add `{line}` to the script, and run that"
        return {"rows": [invalid(text)] * count}
    if len(value) != count:
        text = f"the reward function returned {len(value)} rewards for {count} rows: return one for each"
        return {"rows": [invalid(text)] * count}
    return {"rows": [_reward(one) for one in value]}


def _reward(value: Any) -> dict[str, Any]:
    if value is None or value != value:  # a trainer counts what is not a number as None
        return abstention(f"the reward function returned {value}: it does not apply")
    if isinstance(value, bool | int | float):
        return {"score": float(value)}
    if hasattr(value, "item"):
        return _reward(value.item())
    return invalid(f"the reward function returned the reward {words(value)}: return a number or None")
