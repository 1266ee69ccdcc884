"""Calls evaluators of Phoenix's `create_evaluator`."""

from __future__ import annotations

from .frame import TYPE_CHECKING
from .vendor import by_name, opened, said, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes a row's words, and columns by other names."""
    evaluator: Any = getattr(opened(source), entry)
    import inspect

    def call(**row: Any) -> Any:
        return result(evaluator.evaluate(columns(row)))

    async def call_async(**row: Any) -> Any:
        return result(await evaluator.async_evaluate(columns(row)))

    return waiting(call_async) if inspect.iscoroutinefunction(getattr(evaluator, "_fn", None)) else call


def columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row's columns, of which Phoenix takes what the function's parameters name and require."""
    return {**(row.get("metadata") or {}), **row}


def result(scores: list[Any]) -> Any:
    """Phoenix's scores in evalcell's words."""
    found = [(str(score.name), said(score.label, score.score, score.explanation)) for score in scores]
    return by_name(found) if found else None
