"""Calls Weave's scorers."""

from __future__ import annotations

from .frame import TYPE_CHECKING, invalid, words
from .vendor import FactoryCache, by_name, case_words, open_script, plain, row_arguments, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words, and columns by other names."""
    found: Any = getattr(open_script(source, WEAVE_DISABLED="true", WANDB_MODE="offline"), entry)
    from weave.flow.scorer import Scorer, apply_scorer_async

    made = isinstance(found, type)
    scorer = FactoryCache(found if made else lambda: found)
    fields = set(found.model_fields) - set(Scorer.model_fields) | {"column_map"} if made else set()

    async def call(**row: Any) -> Any:
        settings = {name: value for name, value in row_arguments(row).items() if name in fields}
        columns = {**(row.get("metadata") or {}), **{name: row[name] for name in row if name not in settings}}
        done = await apply_scorer_async(scorer(settings, case_words(row)), columns, row.get("output"))
        return result(done.result)

    return waiting(call)


def result(value: Any) -> Any:
    """Return a scorer's value in evalcell's words: what a dict has, by its path."""
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    if value is None or value == {}:
        return None
    found: list[tuple[str, dict[str, Any]]] = []
    wrong = leaves(value, "", found)
    if wrong is not None:
        value, name = wrong
        what = f"{name!r} of what the scorer returned is" if name else "the scorer returned"
        return invalid(f"{what} {words(value)}: return a number, a bool, text, or a dict of these")
    return by_name(found, one=not isinstance(value, dict))


def leaves(value: Any, name: str, found: list[tuple[str, dict[str, Any]]]) -> tuple[Any, str] | None:
    """
    Collect the results inside a value by their path; what is none is returned, with its path.

    A list within a dict is left out, as in Weave's summary.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            if wrong := leaves(each, f"{name}.{key}" if name else str(key), found):
                return wrong
        return None
    one = plain(value)
    if one is not None:
        found.append((name, one))
    elif value is not None and not (name and isinstance(value, list)):
        return value, name
    return None
