"""Calls deepeval's metrics."""

from __future__ import annotations

import re
from copy import copy

from .frame import TYPE_CHECKING, made_or_class, parameters
from .vendor import (
    case_words,
    making,
    open_script,
    required_arguments,
    result_dict,
    row_arguments,
    text,
    text_or_none,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words."""
    module = open_script(source, DEEPEVAL_TELEMETRY_OPT_OUT="YES", DEEPEVAL_UPDATE_WARNING_OPT_IN="NO")
    found, is_class = made_or_class(module, entry)
    kind: Any = found if is_class else type(found)
    from deepeval.evaluate.utils import create_metric_data
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    fields = set(LLMTestCase.model_fields) - {"input", "actual_output", "expected_output", "metadata"}
    words = set(re.findall(r"\w+", source))
    own, accepts_any = parameters(kind)
    needs = required_arguments(kind) if is_class else []

    class Case(LLMTestCase):  # type: ignore[misc]
        """Has the row's columns too, as people set them on their cases."""

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and name in (self.__dict__.get("metadata") or {}):
                return self.__dict__["metadata"][name]
            return super().__getattr__(name)

    Case.__name__ = Case.__qualname__ = LLMTestCase.__name__

    def tools_of(value: Any) -> Any:
        from deepeval.test_case import ToolCall

        if not isinstance(value, list):
            return value
        named_alone = [{"name": one} if isinstance(one, str) else one for one in value]
        return [ToolCall(**one) if isinstance(one, dict) else one for one in named_alone]

    def prepared(row: dict[str, Any]) -> tuple[Any, Any]:
        reference, metadata = row.get("reference"), row.get("metadata") or {}
        columns = {name: metadata[name] for name in metadata if name in fields and name in words} | row
        case = Case(
            input=text_or_none(row, "input") or "",
            actual_output=text_or_none(row, "output"),
            expected_output=None if reference is None else text(reference),
            metadata=row.get("metadata"),
            **{name: tools_of(one) if "tools" in name else one for name, one in columns.items() if name in fields},
        )
        settings = {name: value for name, value in row_arguments(row).items() if name not in fields}
        for name in [one for one in settings if one in words and one not in own and not accepts_any]:
            object.__setattr__(case, name, settings.pop(name))
        case_of = case_words(row, actual_output="output", expected_output="reference") | columns if needs else {}
        settings = {name: case_of[name] for name in needs if name in case_of} | settings
        return making(kind, settings) if is_class else copy(found), case  # a metric keeps a row's result in itself

    def call(**row: Any) -> Any:
        metric, case = prepared(row)
        try:
            metric.measure(case, _show_indicator=False, _in_component=False)
        except TypeError:  # as deepeval does, for metrics that take no more than the case
            metric.measure(case)
        return result(create_metric_data(metric))

    async def call_async(**row: Any) -> Any:
        metric, case = prepared(row)
        try:
            await metric.a_measure(case, _show_indicator=False, _in_component=False)
        except TypeError:
            await metric.a_measure(case)
        return result(create_metric_data(metric))

    return call if kind.a_measure is BaseMetric.a_measure else waiting(call_async)


def result(data: Any) -> Any:
    """Return what deepeval reports of a metric; `measure` may return anything."""
    if data.error is not None:
        raise RuntimeError(data.error)
    label = None if data.success is None else "pass" if data.success else "fail"
    return result_dict(label, data.score, data.reason)
