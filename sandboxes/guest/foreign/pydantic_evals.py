"""Calls pydantic-evals' evaluators."""

from __future__ import annotations

from .frame import TYPE_CHECKING, invalid, made_or_class
from .vendor import Kept, by_name, given, opened, plain, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes a row's words."""
    found, is_class = made_or_class(opened(source), entry)
    evaluator = Kept(found if is_class else lambda: found)
    from pydantic_evals.evaluators._run_evaluator import _EVALUATOR_OUTPUT_ADAPTER
    from pydantic_evals.evaluators.context import EvaluatorContext
    from pydantic_evals.otel._errors import SpanTreeRecordingError

    spans = SpanTreeRecordingError("a row has no spans")

    async def call(**row: Any) -> Any:
        called = evaluator(given(row))
        context: Any = EvaluatorContext(
            name=None,
            inputs=row.get("input"),
            metadata=row.get("metadata"),
            expected_output=row.get("reference"),
            output=row.get("output"),
            duration=0.0,
            _span_tree=spans,
            attributes={},
            metrics={},
        )
        value = await called.evaluate_async(context)
        try:
            return result(_EVALUATOR_OUTPUT_ADAPTER.validate_python(value))
        except ValueError:
            return invalid(f"evaluate returned {value!r:.200}: return a bool, a number, text, or a dict of these")

    return waiting(call)


def result(value: Any) -> Any:
    """pydantic-evals' assertions, scores and labels in evalcell's words."""
    if not hasattr(value, "items"):
        return one(value)
    return by_name([(str(name), one(each)) for name, each in value.items()], one=False) if value else None


def one(value: Any) -> dict[str, Any]:
    reason = None
    if hasattr(value, "reason"):
        value, reason = value.value, value.reason
    if isinstance(value, bool):
        return {"label": "pass" if value else "fail", "score": 1.0 if value else 0.0, "explanation": reason}
    return plain(value, reason) or {}
