"""Calls MLflow's scorers."""

from __future__ import annotations

import contextlib

from .frame import TYPE_CHECKING, finished, invalid, words
from .vendor import Kept, by_name, given, opened, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes a row's words."""
    found: Any = getattr(opened(source, MLFLOW_DISABLE_TELEMETRY="true"), entry)
    with contextlib.suppress(ImportError):  # the first row would import it, in each batch anew
        __import__("mlflow.evaluation")
    from mlflow.genai.evaluation.utils import standardize_scorer_value
    from mlflow.genai.scorers import base

    base._in_scorer_timeout.set(True)  # our own limit of time holds, which ends what it stops
    scorer = Kept(found if isinstance(found, type) else lambda: found)

    def call(**row: Any) -> Any:
        called = scorer(given(row))
        inputs, expectations = row.get("input"), row.get("reference")
        value = called.run(
            inputs=inputs if isinstance(inputs, dict) else {"input": inputs},
            outputs=row.get("output"),
            expectations=expectations if isinstance(expectations, dict) else {"expected_response": expectations},
        )
        return finished(value, lambda value: result(standardize_scorer_value(called.name, value), value))

    return call


def result(feedbacks: list[Any], value: Any) -> Any:
    """MLflow's feedbacks in evalcell's words."""
    if not feedbacks:
        return None
    found = []
    for feedback in feedbacks:
        if feedback.error is not None:
            raise RuntimeError(f"{feedback.error.error_code}: {feedback.error.error_message}")
        why = feedback.rationale
        one = {"score": None, "explanation": why} if feedback.value is None else plain(feedback.value, why)
        if one is None:
            return invalid(f"the scorer's value is {words(feedback.value)}: return a number, a bool or text")
        found.append((feedback.name, one))
    return by_name(found, one=not isinstance(value, list))
