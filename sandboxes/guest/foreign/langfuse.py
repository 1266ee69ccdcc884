"""Calls Langfuse's evaluators: those of its page, and those of its SDK."""

from __future__ import annotations

from dataclasses import dataclass, field

from .frame import (
    TYPE_CHECKING,
    Record,
    calling,
    defaults,
    invalid,
    load,
    named,
    parameters,
    score_of,
    several,
    stub,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_SHAPES = "return EvaluationResult(scores=[Score(name, value)])"
TYPES = ("NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT")
"""Of a score's value, as Langfuse has them."""
TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
"""What a score of the type BOOLEAN may be, in small letters."""
_KEYWORDS = ("input", "output", "expected_output", "metadata")


@dataclass
class Score:
    """Langfuse's score of one name."""

    name: str
    value: object
    data_type: str | None = None
    comment: str | None = None
    config_id: str | None = None
    metadata: dict[str, object] | None = None


@dataclass
class EvaluationResult:
    """Langfuse's result."""

    scores: list[object] = field(default_factory=list)


class EvaluationContext(Record):
    """What Langfuse gives to an evaluator of its page."""


class ToolCall(Record):
    """A tool's call in an observation."""


class Evaluation:
    """The result of Langfuse's SDK."""

    def __init__(
        self,
        *,
        name: str,
        value: Any,
        comment: Any = None,
        metadata: Any = None,
        data_type: Any = None,
        config_id: Any = None,
    ) -> None:
        """Keep the fields."""
        self.name, self.value, self.comment, self.metadata = name, value, comment, metadata
        self.data_type, self.config_id = data_type, config_id


def load_page(source: str) -> ModuleType:
    """A script of the page as a module, with the classes that the page gives it. Raises what it raises."""
    return load(source, **{one.__name__: one for one in (EvaluationContext, EvaluationResult, Score, ToolCall)})


def wrap(source: str, entry: str, page: bool, real: bool) -> Callable[..., Any]:
    """The function that takes a row's words. `page`: it was written for the page. `real`: the package is there."""
    if page:
        function = named(load_page(source), entry)
        own: dict[str, bool] = {}
    else:
        if not real:
            stub("langfuse", Evaluation=Evaluation)
            stub("langfuse.experiment", Evaluation=Evaluation)
        function = named(load(source), entry)
        own, _ = parameters(function)

    def given(row: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        metadata = row.get("metadata")
        if page:
            return (context_of(row, metadata),), {}
        values = {"input": row.get("input"), "output": row.get("output"), "expected_output": row.get("reference")}
        return (), {**values, "metadata": metadata, **defaults(row, own, _KEYWORDS)}

    return calling(function, given, _of_page if page else _of_sdk)


def context_of(row: dict[str, Any], metadata: Any) -> EvaluationContext:
    """A row as the context of the page."""
    calls = (metadata or {}).get("tool_calls") or []
    tools = [ToolCall(one) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    observation = Record(input=row.get("input"), output=row.get("output"), metadata=metadata, tool_calls=tools)
    experiment = None
    if "reference" in row:
        experiment = Record(item_expected_output=row["reference"], item_metadata=metadata)
    return EvaluationContext(observation=observation, experiment=experiment)


def _of_page(value: Any) -> Any:
    scores = value.get("scores") if isinstance(value, dict) else getattr(value, "scores", None)
    if not isinstance(scores, list | tuple) or not scores:
        return invalid(f"the evaluator returned {words(value)}, which has no scores: {_SHAPES}")
    found: dict[str, Any] = {}
    for one in scores:
        about = one if isinstance(one, dict) else {name: getattr(one, name, None) for name in Score.__annotations__}
        name, kind = about.get("name"), about.get("data_type", about.get("dataType"))
        if not isinstance(name, str) or not name:
            return invalid(f"the evaluator returned the score {words(one)}, which has no name: {_SHAPES}")
        found[name] = _score(name, about.get("value"), kind, about.get("comment"))
    return several(found, "")


def _score(name: str, value: Any, kind: Any, comment: Any) -> dict[str, Any]:
    if kind is not None and kind not in TYPES:
        return invalid(f"the score {name} has the data type {words(kind)}: known are {', '.join(TYPES)}")
    text = None if comment is None else str(comment)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "BOOLEAN":
        truth = TRUTHS.get(str(value).lower())
        if truth is None:
            return invalid(f"the score {name} is BOOLEAN, and its value {words(value)} is neither true nor false")
        return score_of(truth, text) or {}
    if kind == "NUMERIC" and not number:
        return invalid(f"the score {name} is NUMERIC, and its value {words(value)} is no number")
    if kind in ("CATEGORICAL", "TEXT") and not isinstance(value, str):
        return invalid(f"the score {name} is {kind}, and its value {words(value)} is no text")
    if kind == "TEXT":
        return {"explanation": value if text is None else f"{value}\n{text}"}
    if value is None or isinstance(value, bool):
        return invalid(f"the score {name} has the value {words(value)}: give it the data type BOOLEAN, or a number")
    return score_of(value, text) or {"label": str(value), "explanation": text}


def _of_sdk(value: Any) -> Any:
    found: dict[str, Any] = {}
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            unknown = [name for name in one if name not in Score.__annotations__]
            if unknown or "name" not in one or "value" not in one:
                return invalid(f"the evaluator returned {words(one)}: return a dict with name, value and comment")
            one = Evaluation(**one)
        if type(one).__name__ != "Evaluation":
            continue
        result = score_of(one.value, one.comment)
        found[str(one.name)] = result or invalid(f"the evaluation {one.name} has the value {words(one.value)}")
    return several(found, f"the evaluator returned {words(value)}, which Langfuse leaves out: return an Evaluation")
