"""Calls Langfuse's evaluators: those of its page, and those of its SDK."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from .frame import (
    TYPE_CHECKING,
    Record,
    calling,
    defaults,
    figures,
    find_function,
    finish_result,
    invalid,
    load,
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
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_TEXT = 500
_KEYWORDS = ("input", "output", "expected_output", "metadata")


@dataclass
class Score:
    """Langfuse's score of one name."""

    value: object
    name: str
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
    """Return a script of the page as a module, with the classes that the page gives it. Raises what it raises."""
    return load(source, **{one.__name__: one for one in (EvaluationContext, EvaluationResult, Score, ToolCall)})


def wrap(source: str, entry: str, page: bool, summary: bool) -> Callable[..., Any]:
    """
    Return the function that takes a row's words. `page`: it was written for the page.

    `summary`: it judges all rows together, and the function takes their results, as `aggregate` does.
    """
    if page:
        function = find_function(load_page(source), entry)
        own: dict[str, bool] = {}
        takes_any = False
    else:
        stub("langfuse", Evaluation=Evaluation)
        stub("langfuse.experiment", Evaluation=Evaluation)
        function = find_function(load(source), entry)
        own, takes_any = parameters(function)

    def given(row: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if page:
            return (context_of(row),), {}
        values = {"input": row.get("input"), "output": row.get("output"), "expected_output": row.get("reference")}
        return (), {**values, "metadata": row.get("metadata"), **defaults(row, row if takes_any else own, _KEYWORDS)}

    def summed(results: list[dict[str, Any]], **settings: Any) -> Any:
        rows = [(one.get("id"), {**settings, **one["arguments"]}) for one in results]
        items = [_item_result(id, row) for id, row in rows]
        value = function(item_results=items, **defaults(settings, own, ("item_results",)))
        return finish_result(value, lambda found: figures(_of_sdk(found), entry))

    return summed if summary else calling(function, given, _of_page if page else _of_sdk)


def _item_result(id: Any, row: dict[str, Any]) -> Record:
    """A row as what Langfuse gives of an item to the evaluators of a run."""
    item = Record(id=id, input=row.get("input"), expected_output=row.get("reference"), metadata=row.get("metadata"))
    return Record(item=item, output=row.get("output"), evaluations=[], trace_id=None, dataset_run_id=None)


def context_of(row: dict[str, Any]) -> EvaluationContext:
    """Return a row as the context of the page."""
    metadata = row.get("metadata")
    calls = (metadata or {}).get("tool_calls") or []
    tools = [ToolCall(one) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    observation = Record(input=row.get("input"), output=row.get("output"), metadata=metadata, tool_calls=tools)
    experiment = None
    if "reference" in row:
        experiment = Record(item_expected_output=row["reference"], item_metadata=metadata)
    return EvaluationContext(observation=observation, experiment=experiment)


def _of_page(value: Any) -> Any:
    value = jsonable(value)
    scores = value.get("scores") if isinstance(value, dict) else None
    if not isinstance(scores, list) or not scores:
        return invalid(f"the evaluator returned {words(value)}, which has no scores: {_SHAPES}")
    found: dict[str, Any] = {}
    for one in scores:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name:
            return invalid(f"the evaluator returned the score {words(one)}, which has no name: {_SHAPES}")
        found[name] = score_result(name, one)
    return several(found, "")


def jsonable(value: Any) -> Any:
    """
    Return what Langfuse's page reads of a result: data classes are their fields, and what JSON cannot hold is its text.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(type(value), "__dataclass_fields__"):
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return {name: jsonable(each) for name, each in fields.items() if each is not None}
    if isinstance(value, list):
        return [jsonable(one) for one in value]
    if isinstance(value, dict):
        return {key: jsonable(one) for key, one in value.items()}
    try:
        json.dumps(value)
    except TypeError:
        return str(value)
    return value


def truth(value: Any) -> bool | None:
    """Return what a value of the type BOOLEAN means; None if Langfuse refuses it."""
    if isinstance(value, str):
        return _TRUTHS.get(value.strip().lower())
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def score_result(name: str, about: dict[str, Any]) -> dict[str, Any]:
    """Return a score in evalcell's words, or why it is `invalid`, by the rules of Langfuse's worker."""
    value, text, metadata = about.get("value"), about.get("comment"), about.get("metadata", {})
    kind = about["dataType"] if "dataType" in about else about.get("data_type")
    if ("dataType" in about or kind is not None) and kind not in TYPES:
        return invalid(f"the score {name} has the data type {words(kind)}: known are {', '.join(TYPES)}")
    if text is not None and not isinstance(text, str):
        return invalid(f"the score {name} has the comment {words(text)}: it must be text")
    if not isinstance(metadata, dict):
        return invalid(f"the score {name} has the metadata {words(metadata)}: return a dict")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "BOOLEAN":
        said = truth(value)
        if said is None:
            return invalid(f"the score {name} is BOOLEAN, and its value {words(value)} is neither true nor false")
        return score_of(said, text) or {}
    if kind == "NUMERIC" and not number:
        return invalid(f"the score {name} is NUMERIC, and its value {words(value)} is no number")
    if kind in ("CATEGORICAL", "TEXT") and not isinstance(value, str):
        return invalid(f"the score {name} is {kind}, and its value {words(value)} is no text")
    if kind == "TEXT" and not 0 < len(str(value).encode("utf-16-le", "surrogatepass")) <= 2 * _TEXT:
        return invalid(f"the score {name} is TEXT, and has not 1 to {_TEXT} characters")
    if not number and not isinstance(value, str):
        return invalid(f"the score {name} has the value {words(value)}: give it the data type BOOLEAN, or a number")
    return score_of(value, text) or {}


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
