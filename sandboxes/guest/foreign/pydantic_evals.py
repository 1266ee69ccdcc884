"""Calls pydantic-evals' evaluators."""

from __future__ import annotations

import contextlib

from .frame import TYPE_CHECKING, invalid, lacking, made_or_class, refuse, with_attributes
from .vendor import FactoryCache, by_name, case_words, open_script, plain, row_arguments, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MEASURED = ("duration", "metrics", "attributes")
"""What pydantic-evals has of the task that it ran."""

_NO_SPANS = "a row has no spans, as no task is run; judge its output, or columns, by ctx.metadata"


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words."""
    module = open_script(source)
    found, is_class = made_or_class(module, entry)
    evaluator = FactoryCache(found if is_class else lambda: found)
    from pydantic_evals.evaluators._run_evaluator import _EVALUATOR_OUTPUT_ADAPTER
    from pydantic_evals.evaluators.context import EvaluatorContext
    from pydantic_evals.otel._errors import SpanTreeRecordingError

    kind, adapter = found if is_class else type(found), type(_EVALUATOR_OUTPUT_ADAPTER)
    given_type, output_type, metadata_type = types_of(kind, vars(module), adapter)
    asked = asked_types(source, vars(module), adapter)

    def typed(row: dict[str, Any], word: str, name: str, declared: Any) -> Any:
        return typed_value(row.get(word), declared or asked.get(name), name)

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
        called = evaluator(row_arguments(row), case_words(row, inputs="input", expected_output="reference"))
        metadata = row.get("metadata") or {}
        context: Any = Context(
            name=None,
            inputs=typed(row, "input", "inputs", given_type),
            metadata=typed(row, "metadata", "metadata", metadata_type),
            expected_output=typed(row, "reference", "expected_output", output_type),
            output=typed(row, "output", "output", output_type),
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
    """Return what makes inputs, output and metadata of the types that an evaluator declares for them; None for none."""
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


class AskedTypes:
    """The script's own classes of which it asks by `isinstance` whether a value is one."""

    def __init__(self, kinds: list[type], adapter: Callable[[Any], Any], strict: bool) -> None:
        self.kinds, self.strict = kinds, strict
        self._adapters: list[Any] = []
        for kind in kinds:
            with contextlib.suppress(Exception):  # pydantic cannot make one
                self._adapters.append(adapter(kind))

    def validate_python(self, value: Any) -> Any:
        """Return the first of these that the value has the fields of; else the value as it is."""
        for adapter in self._adapters:
            with contextlib.suppress(Exception):
                return adapter.validate_python(value)
        return value


def asked_types(source: str, names: dict[str, Any], adapter: Callable[[Any], Any]) -> dict[str, AskedTypes]:
    """
    Return, by attribute of the context, the script's classes it is asked for: `isinstance(ctx.output, Answer)`.

    An output and what is expected have one type in pydantic-evals, so each is made what the other is asked for, too.
    """
    import ast

    tree = ast.parse(source)
    found: dict[str, list[Any]] = {}
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Attribute(value=ast.Name(), attr=name)):
                aliases[alias] = name
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[subject, ast.Tuple(elts=kinds)]):
                pass
            case ast.Call(func=ast.Name(id="isinstance"), args=[subject, kind]):
                kinds = [kind]
            case ast.Compare(
                left=ast.Call(func=ast.Name(id="type"), args=[subject]), ops=[ast.Is() | ast.Eq()], comparators=[kind]
            ):
                kinds = [kind]
            case ast.Match(subject=subject, cases=cases):
                kinds = [one.pattern.cls for one in cases if isinstance(one.pattern, ast.MatchClass)]
            case _:
                continue
        name = getattr(subject, "attr", None) or aliases.get(getattr(subject, "id", ""), "")
        found.setdefault(name, []).extend(names.get(one.id, dict) for one in kinds if isinstance(one, ast.Name))
    own = {name: [one for one in kinds if is_own(one, names)] for name, kinds in found.items()}
    result = {name: AskedTypes(kinds, adapter, kinds == found[name]) for name, kinds in own.items() if kinds}
    both = [*dict.fromkeys([*own.get("output", ()), *own.get("expected_output", ())])]
    for name in ("output", "expected_output") if both else ():
        result[name] = AskedTypes(both, adapter, name in result and result[name].strict)
    return result


def is_own(kind: Any, names: dict[str, Any]) -> bool:
    """Say whether it is a class that the script defines."""
    return isinstance(kind, type) and kind.__module__ == names.get("__name__")


def typed_value(value: Any, adapter: Any, name: str = "output") -> Any:
    """Return a row's object as the task would have: of the declared type, else with its keys as attributes."""
    if not isinstance(value, dict | list):
        return value
    if adapter is not None:
        with contextlib.suppress(Exception):  # such as a row without one of its fields
            if (found := adapter.validate_python(value)) is not value and not isinstance(found, dict):
                return found
    if isinstance(adapter, AskedTypes) and adapter.strict and isinstance(value, dict):
        kinds = " or ".join(one.__name__ for one in adapter.kinds)
        fields = "; ".join(f"{one.__name__} has {', '.join(fields_of(one))}" for one in adapter.kinds if fields_of(one))
        raise TypeError(
            f"the script asks by isinstance whether ctx.{name} is {kinds}, and the row has an object of "
            f"{', '.join(map(str, value))}, which is none{'; ' if fields else ''}{fields}"
        )
    return with_attributes(value)


def fields_of(kind: Any) -> list[str]:
    """Return the fields that make an instance of a data class or a model."""
    return [*(getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None) or ())]


def result(value: Any) -> Any:
    """Return pydantic-evals' assertions, scores and labels in evalcell's words."""
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
