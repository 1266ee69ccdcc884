"""Calls pydantic-evals' evaluators."""

from __future__ import annotations

import contextlib

from .frame import TYPE_CHECKING, invalid, lacking, made_or_class, refuse, with_attributes
from .vendor import FactoryCache, by_name, open_script, plain, row_arguments, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MEASURED = ("duration", "metrics", "attributes")
"""What pydantic-evals has of the task that it ran."""

_NO_SPANS = "a row has no spans, as no task is run; judge its output, or columns, by ctx.metadata"


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """The function that takes a row's words."""
    module = open_script(source)
    found, is_class = made_or_class(module, entry)
    evaluator = FactoryCache(found if is_class else lambda: found)
    from pydantic_evals.evaluators._run_evaluator import _EVALUATOR_OUTPUT_ADAPTER
    from pydantic_evals.evaluators.context import EvaluatorContext
    from pydantic_evals.otel._errors import SpanTreeRecordingError

    kind, adapter = found if is_class else type(found), type(_EVALUATOR_OUTPUT_ADAPTER)
    given_type, output_type, metadata_type = types_of(kind, vars(module), adapter)

    class Context(EvaluatorContext):  # type: ignore[misc]
        """Has of the task's run what the row's columns have, and refuses the rest."""

        def __getattribute__(self, name: str) -> Any:
            if name == "span_tree":
                refuse(SpanTreeRecordingError(_NO_SPANS))
            if name in _MEASURED and name not in vars(self)["_measured"]:
                refuse(lacking(name))
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            return f"EvaluatorContext({vars(self)})"

    async def call(**row: Any) -> Any:
        called = evaluator(row_arguments(row))
        metadata = row.get("metadata") or {}
        context: Any = Context(
            name=None,
            inputs=typed_value(row.get("input"), given_type),
            metadata=typed_value(row.get("metadata"), metadata_type),
            expected_output=typed_value(row.get("reference"), output_type),
            output=typed_value(row.get("output"), output_type),
            duration=metadata.get("duration"),
            _span_tree=SpanTreeRecordingError(_NO_SPANS),
            attributes=metadata.get("attributes"),
            metrics=metadata.get("metrics"),
        )
        vars(context)["_measured"] = metadata.keys()
        value = await called.evaluate_async(context)
        try:
            return result(_EVALUATOR_OUTPUT_ADAPTER.validate_python(value))
        except ValueError:
            return invalid(f"evaluate returned {value!r:.200}: return a bool, a number, text, or a dict of these")

    return waiting(call)


def types_of(kind: type, names: dict[str, Any], adapter: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """What makes inputs, output and metadata of the types that an evaluator declares for them; None for none."""
    import typing

    def maker(declared: Any) -> Any:
        with contextlib.suppress(Exception):  # pydantic knows no such type
            return None if isinstance(declared, typing.TypeVar) else adapter(declared)

    declared: list[Any] = [*getattr(kind, "__orig_bases__", ())]
    with contextlib.suppress(Exception):  # what is imported for types alone is not there
        declared[:0] = typing.get_type_hints(kind.evaluate, names).values()  # type: ignore[attr-defined]
    for one in declared:
        if getattr(typing.get_origin(one), "__name__", "") in ("EvaluatorContext", "Evaluator"):
            return (*map(maker, typing.get_args(one)), None, None, None)[:3]
    return None, None, None


def typed_value(value: Any, adapter: Any) -> Any:
    """A row's object as what the task would have returned: of the declared type, else with its keys as attributes."""
    if not isinstance(value, dict | list):
        return value
    if adapter is not None:
        with contextlib.suppress(Exception):  # such as a row without one of its fields
            if not isinstance(found := adapter.validate_python(value), dict):
                return found
    return with_attributes(value)


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
