"""Calls pydantic-evals' evaluators."""

from __future__ import annotations

from .frame import TYPE_CHECKING, invalid, lacking, made_or_class, refuse
from .vendor import Kept, by_name, given, opened, plain, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MEASURED = ("duration", "metrics", "attributes")
"""What pydantic-evals has of the task that it ran."""

_NO_SPANS = "a row has no spans, as no task is run; judge its output, or columns, by ctx.metadata"


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes a row's words."""
    found, is_class = made_or_class(opened(source), entry)
    evaluator = Kept(found if is_class else lambda: found)
    from pydantic_evals.evaluators._run_evaluator import _EVALUATOR_OUTPUT_ADAPTER
    from pydantic_evals.evaluators.context import EvaluatorContext
    from pydantic_evals.otel._errors import SpanTreeRecordingError

    class Context(EvaluatorContext):  # type: ignore[misc]
        """Has of the task's run what the row's columns have, and refuses the rest."""

        def __getattribute__(self, name: str) -> Any:
            if name == "span_tree":
                refuse(SpanTreeRecordingError(_NO_SPANS))
            if name in _MEASURED and name not in (self.metadata or {}):
                refuse(lacking(name))
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            return f"EvaluatorContext({vars(self)})"

    async def call(**row: Any) -> Any:
        called = evaluator(given(row))
        metadata = row.get("metadata") or {}
        context: Any = Context(
            name=None,
            inputs=row.get("input"),
            metadata=row.get("metadata"),
            expected_output=row.get("reference"),
            output=row.get("output"),
            duration=metadata.get("duration"),
            _span_tree=SpanTreeRecordingError(_NO_SPANS),
            attributes=metadata.get("attributes"),
            metrics=metadata.get("metrics"),
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
