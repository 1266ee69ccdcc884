"""Calls Opik's metrics."""

from __future__ import annotations

from .frame import TYPE_CHECKING, finished, invalid, named, words
from .vendor import Kept, by_name, opened, said

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes a row's words, and columns by other names."""
    quiet = {"OPIK_TRACK_DISABLE": "true", "OPIK_SENTRY_ENABLE": "false", "OPIK_USER_ANALYTICS_ENABLE": "false"}
    kind = named(opened(source, **quiet), entry)
    import opik
    from opik.evaluation.metrics import arguments_helpers, arguments_validator, base_metric

    # Making one starts a thread that counts metrics, which forks do not have; each would start it anew, in 50 ms.
    counted = hasattr(base_metric, "_track_metric_creation")
    if counted:
        base_metric._track_metric_creation = lambda kind: None
    metric = Kept(kind, at_once=counted)
    if hasattr(opik, "is_tracing_active"):
        opik.is_tracing_active()  # it is remembered: else each batch reads Opik's settings anew

    signed = Signed()

    def call(**row: Any) -> Any:
        called = metric({})
        columns = {**(row.get("metadata") or {}), **row}
        asked = {"score_function": signed(called.score), "kwargs": columns, "score_name": called.name}
        if isinstance(called, arguments_validator.ScoreArgumentsValidator):
            called.validate_score_arguments(score_kwargs=columns, key_mapping={})
        else:
            arguments_helpers.raise_if_score_arguments_are_missing(**asked, scoring_key_mapping={})
        positional, keywords = arguments_helpers.select_score_arguments(**asked)
        return finished(called.score(*positional, **keywords), result)

    return call


class Signed:
    """
    Stands for a function where only its signature is asked for, which it has at hand.

    Opik asks twice for each row, and to find it takes longer than most metrics do.
    """

    def __init__(self) -> None:
        self._of: Any = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Itself with the function's signature; the function where it has none."""
        if self._of != function:
            import inspect

            try:
                self.__signature__ = inspect.signature(function)
            except (ValueError, TypeError):
                return function
            self._of = function
        return self


def result(value: Any) -> Any:
    """Opik's results in evalcell's words."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        if not hasattr(one, "scoring_failed"):
            return invalid(f"score returned {words(value)}: return a ScoreResult, or a list of them")
        if one.scoring_failed:
            raise RuntimeError(one.reason or "scoring failed")
        score = float(one.value) if isinstance(one.value, bool) else one.value
        found.append((str(one.name), said(one.category_name, score, one.reason)))
    return by_name(found) if found else None
