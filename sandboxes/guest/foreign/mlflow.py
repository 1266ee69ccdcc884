"""Calls MLflow's scorers."""

from __future__ import annotations

import contextlib

from .frame import TYPE_CHECKING, PlainValue, as_object, finish_result, invalid, refuse, words
from .vendor import FactoryCache, by_name, case_words, open_script, plain, row_arguments

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class NoObject(PlainValue):
    """The same, where the script reads no key that is seen: it must not be compared, nor gone through, as an object."""

    def _refuse(self, *_: object) -> Any:
        name, prefix, _keys = self._words
        refuse(
            TypeError(f"the row's {name} is no object, and MLflow gives one here; map a key of it, such as {prefix}KEY")
        )

    __eq__ = __ne__ = __iter__ = keys = values = items = copy = __str__ = _refuse


def object_of(value: Any, name: str, key: str, read: list[str]) -> dict[str, Any]:
    """Return a row's word as an object; what is none stands under the key, or under the only one that is read."""
    alone = read[0] if len(read) == 1 else key
    held: dict[str, Any] = as_object(value, alone, *read)
    if isinstance(value, dict | None) or held.get(alone) is not value:
        return held
    if len(read) > 1 and key not in read:
        raise TypeError(
            f"the row's {name} is no object, and the script reads {', '.join(read)} of it; map {name}.{read[0]}"
        )
    return (PlainValue if read else NoObject)(held, name, f"{name}.", frozenset((alone, *read)))


def wrap(source: str, entry: str, read: dict[str, list[str]]) -> Callable[..., Any]:
    """Return the function that takes a row's words. `read`: by a row's word, the keys that the script reads of it."""
    found: Any = getattr(open_script(source, MLFLOW_DISABLE_TELEMETRY="true"), entry)
    with contextlib.suppress(ImportError):  # the first row would import it, in each batch anew
        __import__("mlflow.evaluation")
    from mlflow.genai.evaluation.utils import standardize_scorer_value
    from mlflow.genai.scorers import base

    base._in_scorer_timeout.set(True)  # our own limit of time holds, which ends what it stops
    scorer = FactoryCache(found if isinstance(found, type) else lambda: found)

    def call(**row: Any) -> Any:
        called = scorer(row_arguments(row), case_words(row, inputs="input", outputs="output", expectations="reference"))
        value = called.run(
            inputs=object_of(row.get("input"), "input", "input", read["input"]),
            outputs=row.get("output"),
            expectations=object_of(row.get("reference"), "reference", "expected_response", read["reference"]),
        )
        return finish_result(value, lambda value: result(standardize_scorer_value(called.name, value), value))

    return call


def result(feedbacks: list[Any], value: Any) -> Any:
    """Return MLflow's feedbacks in evalcell's words."""
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
