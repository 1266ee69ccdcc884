"""Calls reward functions as verl does: a row's values by their names, of a dict its score, of a tuple the first."""

from __future__ import annotations

from .frame import TYPE_CHECKING, calling, find_function, invalid, load, words

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's values."""
    return calling(find_function(load(source), entry), lambda row: ((), row), result)


def result(value: Any) -> dict[str, Any]:
    """Return what verl makes of a returned value: of its own functions' tuples it takes the first."""
    others = ""
    if isinstance(value, dict):
        if "score" not in value:
            return invalid(f"the reward function returned {words(value)}: a dict needs the key score")
        others = words({name: value[name] for name in value if name != "score"}, 4000) if len(value) > 1 else ""
        value = value["score"]
    elif isinstance(value, tuple | list) and len(value) > 1 and isinstance(value[0], bool | int | float):
        value, others = value[0], words(list(value[1:]), 4000)
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, bool | int | float):
        return invalid(f"the reward function returned {words(value)}: return a number, or a dict with a score")
    return {"score": float(value), "explanation": others or None}
