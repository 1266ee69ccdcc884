"""Calls Opik's metrics."""

from __future__ import annotations

from .frame import TYPE_CHECKING, finish_result, invalid, made_or_class, words
from .vendor import FactoryCache, by_name, open_script, result_dict

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST = 100
"""Sets of columns for which the choice is remembered; most datasets have one."""


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words, and columns by other names."""
    quiet = {"OPIK_TRACK_DISABLE": "true", "OPIK_SENTRY_ENABLE": "false", "OPIK_USER_ANALYTICS_ENABLE": "false"}
    kind, is_class = made_or_class(open_script(source, **quiet), entry)
    import opik
    from opik.evaluation.metrics import arguments_helpers, arguments_validator, base_metric

    # Making one starts a thread that counts metrics, which forks do not have; each would start it anew, in 50 ms.
    counted = hasattr(base_metric, "_track_metric_creation")
    if counted:
        base_metric._track_metric_creation = lambda kind: None
    metric = FactoryCache(kind if is_class else lambda: kind, at_once=counted)
    if hasattr(opik, "is_tracing_active"):
        opik.is_tracing_active()  # it is remembered: else each batch reads Opik's settings anew

    chosen = MetricArguments(
        lambda **asked: arguments_helpers.raise_if_score_arguments_are_missing(**asked, scoring_key_mapping={}),
        arguments_helpers.select_score_arguments,
    )

    def call(**row: Any) -> Any:
        called = metric({})
        columns = {**(row.get("metadata") or {}), **row}
        checks = isinstance(called, arguments_validator.ScoreArgumentsValidator)
        if checks:
            called.validate_score_arguments(score_kwargs=columns, key_mapping={})
        positional, keywords = chosen(called, columns, checks)
        return finish_result(called.score(*positional, **keywords), result)

    return call


class MetricArguments:
    """
    The arguments of a metric's `score` out of a row's columns, as Opik chooses them.

    Opik reads the signature twice for each row, and chooses by the columns' names alone. So it is asked once for each
    set of names, with objects that stand for the values; to ask for each row takes longer than most metrics do.
    """

    def __init__(self, refuse_missing: Callable[..., None], select: Callable[..., Any]) -> None:
        self._refuse_missing = refuse_missing
        self._select = select
        self._of: Any = None
        self._known: dict[tuple[str, ...], tuple[list[str], dict[str, str]]] = {}

    def __call__(self, metric: Any, columns: dict[str, Any], checked: bool) -> tuple[list[Any], dict[str, Any]]:
        """By position, and by name. Raises what Opik does if one is missing, unless the metric has `checked` that."""
        if self._of != metric.score:
            self._of, self._known = metric.score, {}
        names = tuple(columns)
        if (found := self._known.get(names)) is None:
            asked = {"score_function": metric.score, "score_name": metric.name}
            if not checked:
                self._refuse_missing(**asked, kwargs=columns)
            if (found := self._chosen(asked, names)) is None:
                positional, keywords = self._select(**asked, kwargs=columns)
                return positional, keywords
            if len(self._known) < _MOST:
                self._known[names] = found
        return [columns[name] for name in found[0]], {name: columns[column] for name, column in found[1].items()}

    def _chosen(self, asked: dict[str, Any], names: tuple[str, ...]) -> tuple[list[str], dict[str, str]] | None:
        """The columns by position, and by the parameter's name; None if it makes values of its own."""
        stand_ins = {name: object() for name in names}
        column_of = {id(one): name for name, one in stand_ins.items()}
        positional, keywords = self._select(**asked, kwargs=stand_ins)
        if not all(id(one) in column_of for one in (*positional, *keywords.values())):
            return None
        return [column_of[id(one)] for one in positional], {name: column_of[id(one)] for name, one in keywords.items()}


def result(value: Any) -> Any:
    """Return Opik's results in evalcell's words."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        if not hasattr(one, "scoring_failed"):
            return invalid(f"score returned {words(value)}: return a ScoreResult, or a list of them")
        if one.scoring_failed:
            raise RuntimeError(one.reason or "scoring failed")
        score = float(one.value) if isinstance(one.value, bool) else one.value
        found.append((str(one.name), result_dict(one.category_name, score, one.reason)))
    return by_name(found) if found else None
