"""Calls reward functions as TRL does: with lists, a value for each row."""

from __future__ import annotations

from .frame import TYPE_CHECKING, abstained, invalid, is_async, load, named, parameters, words

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_TRAINER = ("trainer_state", "log_extra", "log_metric")
"""What a trainer gives beside the rows; there is none."""


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes the words of several rows."""
    function = named(load(source), entry)
    own, accepts_any = parameters(function)
    wanted = set(own)

    def given(rows: list[dict[str, Any]]) -> dict[str, Any]:
        columns = [_columns(row) for row in rows]
        names = {name: None for one in columns for name in one}
        found: dict[str, Any] = {
            name: [one.get(name) for one in columns] for name in names if accepts_any or name in wanted
        }
        if "completion_ids" in wanted:
            found["completion_ids"] = [None] * len(rows)
        found |= {name: None for name in _TRAINER if name in wanted}
        set_for_all = {name: rows[0][name] for name in rows[0] if name in wanted and name not in columns[0]}
        prompts, completions = [row.get("input") for row in rows], [row.get("output") for row in rows]
        return {**found, **set_for_all, "prompts": prompts, "completions": completions}

    def call(rows: list[dict[str, Any]]) -> Any:
        try:
            return _rewards(function(**given(rows)), len(rows))
        except Exception:
            if len(rows) == 1:
                raise
        return {"alone": True}

    async def call_async(rows: list[dict[str, Any]]) -> Any:
        try:
            return _rewards(await function(**given(rows)), len(rows))
        except Exception:
            if len(rows) == 1:
                raise
        return {"alone": True}

    return call_async if is_async(function) else call


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    """The row's own columns, as a trainer's dataset has them."""
    found = dict(row.get("metadata") or {})
    if "reference" in row:
        found["reference"] = row["reference"]
    return found


def _rewards(value: Any, count: int) -> dict[str, Any]:
    """A result for each row."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "__iter__") and not isinstance(value, list | tuple | str | bytes | dict):
        value = list(value)
    if not isinstance(value, list | tuple):
        return {"rows": [invalid(f"the reward function returned {words(value)}: return a list of numbers")] * count}
    if len(value) != count:
        text = f"the reward function returned {len(value)} rewards for {count} rows: return one for each"
        return {"rows": [invalid(text)] * count}
    return {"rows": [_reward(one) for one in value]}


def _reward(value: Any) -> dict[str, Any]:
    if value is None or value != value:  # a trainer counts what is not a number as None
        return abstained(f"the reward function returned {value}: it does not apply")
    if isinstance(value, bool | int | float):
        return {"score": float(value)}
    if hasattr(value, "item"):
        return _reward(value.item())
    return invalid(f"the reward function returned the reward {words(value)}: return a number or None")
