"""Calls evaluators of Phoenix's `create_evaluator`."""

from __future__ import annotations

from .frame import TYPE_CHECKING
from .phoenix_experiments import row_of, stand_in
from .vendor import by_name, open_script, result_dict, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str, experiment: dict[str, str] | None = None) -> Callable[..., Any]:
    """
    Return the function that takes a row's words, and columns by other names.

    `experiment`: it is one of Phoenix's experiments; by a row's word, the only key that it reads of it.
    """
    import inspect

    if experiment is not None:
        stand_in()
    evaluator: Any = getattr(open_script(source), entry)
    if experiment is not None and not type(evaluator).__module__.startswith("phoenix.evals"):
        return _of_experiment(evaluator() if isinstance(evaluator, type) else evaluator, experiment)

    def call(**row: Any) -> Any:
        return result(evaluator.evaluate(columns(row)))

    async def call_async(**row: Any) -> Any:
        return result(await evaluator.async_evaluate(columns(row)))

    return waiting(call_async) if inspect.iscoroutinefunction(getattr(evaluator, "_fn", None)) else call


def _of_experiment(evaluator: Any, keys: dict[str, str]) -> Callable[..., Any]:
    import inspect

    def call(**row: Any) -> Any:
        return experiment_result(evaluator.evaluate(**row_of(row, keys)))

    async def call_async(**row: Any) -> Any:
        return experiment_result(await evaluator.async_evaluate(**row_of(row, keys)))

    function = getattr(evaluator, "_fn", evaluator if callable(evaluator) else None)
    own = [kind for kind in type(evaluator).__mro__ if not kind.__module__.startswith(("phoenix.", "evalcell"))]
    alone = any("async_evaluate" in vars(kind) for kind in own) and not any("evaluate" in vars(kind) for kind in own)
    awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(evaluator).__call__)
    return waiting(call_async) if alone or awaited else call


def experiment_result(value: Any) -> Any:
    """Return what an experiment says, in evalcell's words."""
    some = value if isinstance(value, list | tuple) else [value]
    found = []
    for one in some:
        parts = one if isinstance(one, dict) else vars(one)
        label, score, explanation = (parts.get(name) for name in ("label", "score", "explanation"))
        found.append(
            (
                str(parts.get("name")),
                result_dict(label, float(score) if isinstance(score, bool) else score, explanation),
            )
        )
    return by_name(found) if found else {"score": None, "explanation": "the evaluator gave no result"}


def columns(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's columns, of which Phoenix takes what the function's parameters name and require."""
    return {**(row.get("metadata") or {}), **row}


def result(scores: list[Any]) -> Any:
    """Return Phoenix's scores in evalcell's words."""
    found = [(str(score.name), result_dict(score.label, score.score, score.explanation)) for score in scores]
    return by_name(found) if found else None
