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
    from opik.evaluation.metrics import arguments_helpers, arguments_validator, base_metric

    # Making one starts a thread that counts metrics, which forks do not have; each would start it anew, in 50 ms.
    counted = hasattr(base_metric, "_track_metric_creation")
    if counted:
        base_metric._track_metric_creation = lambda kind: None
    metric = Kept(kind, at_once=counted)

    def call(**row: Any) -> Any:
        called = metric({})
        columns = {**(row.get("metadata") or {}), **row}
        arguments_validator.validate_score_arguments(metric=called, kwargs=columns, scoring_key_mapping={})
        positional, keywords = arguments_helpers.select_score_arguments(
            score_function=called.score, kwargs=columns, score_name=called.name
        )
        return finished(called.score(*positional, **keywords), result)

    return call


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
