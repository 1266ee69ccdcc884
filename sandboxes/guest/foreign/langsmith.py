"""Calls LangSmith's evaluators: those of its page, and those of its SDK."""

from __future__ import annotations

from .frame import (
    TYPE_CHECKING,
    PlainValue,
    Record,
    abstention,
    as_object,
    below,
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
    with_attributes,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SINGLE = {"run": "runs", "example": "examples"}
_LISTS = ("inputs", "outputs", "reference_outputs")
_SUPPORTED = ("run", "example", "inputs", "outputs", "reference_outputs", "attachments")
_FIELDS = (
    *("key", "score", "value", "metadata", "comment", "correction", "evaluator_info", "feedback_config"),
    *("source_run_id", "target_run_id", "extra"),
)
_OWN = ("inputs", "outputs", "metadata", "extra", "attachments")
_MEASURED = (
    *("child_runs", "start_time", "end_time", "latency", "events", "total_cost"),
    *("total_tokens", "prompt_tokens", "completion_tokens"),
)
"""What LangSmith has of the run that it traced."""
_SHAPES = "return a bool, a number, text, or a dict with key, score or value, and comment"


class EvaluationResult(Record):
    """LangSmith's result of one metric."""

    def __init__(self, **fields: Any) -> None:
        """Keep the fields. Raises TypeError for one that there is not, and without a key."""
        for name in fields:
            if name not in _FIELDS:
                raise TypeError(f"EvaluationResult has no field {name!r}")
        if not isinstance(fields.get("key"), str):
            raise TypeError("EvaluationResult needs a key, which is text")
        super().__init__({"score": None, "value": None, "comment": None, "metadata": None, **fields})


class EvaluationResults(dict[str, object]):
    """LangSmith's results of several metrics."""


class Run(Record):
    """LangSmith's run."""

    refused = _MEASURED


class Example(Record):
    """LangSmith's example."""


class RunEvaluator:
    """The base class of LangSmith's evaluators."""


def wrap(source: str, entry: str, page: bool, summary: bool, read: dict[str, list[str]]) -> Callable[..., Any]:
    """
    Return the function that takes a row's words. `page`: it was written for the page.

    `read`: by a row's word, the keys that the script reads of it. A value that is no object stands under the only one.
    `summary`: it judges all rows together, and the function takes their results, as `aggregate` does.
    """
    from uuid import NAMESPACE_OID, uuid5

    stub("langsmith")
    stub("langsmith.schemas", Run=Run, Example=Example)
    results = {"EvaluationResult": EvaluationResult, "EvaluationResults": EvaluationResults}
    stub("langsmith.evaluation", **results, run_evaluator=_same, RunEvaluator=RunEvaluator)
    stub("langsmith.evaluation.evaluator", **results, run_evaluator=_same, RunEvaluator=RunEvaluator)
    module = load(source)
    found: Any = getattr(module, entry, None)
    made = isinstance(found, type)
    if made or hasattr(found, "evaluate_run") or hasattr(found, "aevaluate_run"):
        one = found() if made else found
        own_kinds = (kind for kind in type(one).__mro__ if kind.__name__ != "RunEvaluator")
        alone = not any("evaluate_run" in vars(kind) for kind in own_kinds)
        function = one.aevaluate_run if alone else one.evaluate_run
    else:
        function = find_function(module, entry)
    own, _ = parameters(function)
    others = [name for name in own if name not in _SUPPORTED and not own[name]]
    by_place = bool(others) or list(own) == ["run", "example"] or page
    key = entry.rpartition(".")[2]

    def values_of(row: dict[str, Any]) -> dict[str, Any]:
        inputs = part_of(row, "input", "inputs.", "input", read.get("input"))
        outputs = part_of(row, "output", "outputs.", "output", read.get("output"))
        reference = part_of(row, "reference", "reference_outputs.", "output", read.get("reference"))
        metadata = row.get("metadata") or {}
        columns = {name: column_value(name, metadata[name]) for name in metadata if name not in _OWN}
        run = Run(columns, inputs=inputs, outputs=outputs, metadata=metadata, extra={"metadata": metadata})
        run.setdefault("error", None)
        example = Example(columns, inputs=inputs, outputs=reference, metadata=metadata, attachments={})
        for one in (run, example):  # LangSmith's own decorator reads it
            one.setdefault("id", uuid5(NAMESPACE_OID, repr(row)))
        return {
            **{"run": run, "example": example, "inputs": inputs, "outputs": outputs},
            **{"reference_outputs": reference, "attachments": {}},
        }

    def given(row: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values, more = values_of(row), defaults(row, own, _SUPPORTED)
        if by_place:
            return (values["run"], values["example"])[: max(1, min(2, len(own)))], more
        return (), {name: values[name] for name in values if name in own} | more

    def judged(value: Any) -> Any:
        return _of_page(value) if page else _of_sdk(value)

    def summed(results: list[dict[str, Any]], **settings: Any) -> Any:
        rows = [values_of({**settings, **one["arguments"]}) for one in results]
        lists = {_SINGLE.get(name, name): [row[name] for row in rows] for name in (*_SINGLE, *_LISTS)}
        more = defaults(settings, own, (*_SUPPORTED, *lists))
        return finish_result(function(**{name: lists[name] for name in lists if name in own}, **more), figured)

    def figured(value: Any) -> dict[str, Any]:
        name = value.get("key") if isinstance(value, dict) else getattr(value, "key", None)
        return figures(_of_sdk(value), name if isinstance(name, str) else key)

    return summed if summary else calling(function, given, judged)


def part_of(row: dict[str, Any], name: str, prefix: str, key: str, read: list[str] | None = None) -> Any:
    """
    Return a row's word as an object, with what was mapped into it: `outputs.answer`. `read`: the keys that are read of
    it.

    Raises TypeError for a value that is none, where several other keys are read.
    """
    value, keys = row.get(name), read or [key]
    inside, columns = below(row, prefix), below(row, f"else.{prefix}")
    alone = keys[0] if len(keys) == 1 else key
    held = as_object(value, alone, *keys)
    whole = isinstance(value, dict | None) or held.get(alone) is not value
    if name == "output" and not inside and (whole or key not in keys):
        columns = {}  # an output of its own is not mixed with columns that may be another's
    if value is None and name == "output" and name in row and not (inside or columns):
        return {alone: None}  # LangSmith has what a function that returned nothing gave under a key, too
    if whole or inside or columns:
        return {**columns, **held, **inside}
    if len(keys) > 1 and key not in keys:
        parts = " and ".join(f"{prefix}{one}" for one in keys)
        raise TypeError(f"the row's {name} is no object, and the script reads {', '.join(keys)} of it; map {parts}")
    return PlainValue(held, name, prefix, frozenset(keys))


def column_value(name: str, value: Any) -> Any:
    """Return a column as LangSmith has it: a time is no text, and a run in a run has attributes."""
    if name in ("start_time", "end_time") and isinstance(value, str):
        import contextlib
        from datetime import datetime

        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value)
    return with_attributes(value)


def _same(function: Any) -> Any:
    return function


def _of_page(value: Any) -> Any:
    """A dict from metric to value; one with a `key` is a single metric."""
    if isinstance(value, dict) and ("key" in value or "score" in value):
        return _single(value)
    if isinstance(value, dict) and value:
        return several({str(name): _metric(value[name]) for name in value}, "")
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return several({str(one.get("key", at)): _one(one) for at, one in enumerate(value)}, "")
    if isinstance(value, bool | int | float):
        return score_of(value)
    return invalid(f"perform_eval returned {words(value)}: return a dict with a value for each metric")


def _of_sdk(value: Any) -> Any:
    if isinstance(value, bool | int | float) or (isinstance(value, str) and value):
        return score_of(value)
    if not isinstance(value, dict | list) and _is_result(value):
        value = {name: getattr(value, name, None) for name in ("key", "score", "value", "comment", "metadata")}
    if isinstance(value, list) and value:
        if any(not isinstance(one, dict) or isinstance(one, EvaluationResult) for one in value):
            return invalid(f"the evaluator returned {words(value)}: a list must have dicts only")
        value = {"results": value}
    if isinstance(value, dict) and value:
        if "results" not in value:
            return _single(value)
        return _results(value["results"])
    return invalid(f"the evaluator returned {words(value)}: {_SHAPES}")


def _results(found: Any) -> Any:
    named_results: dict[str, Any] = {}
    for one in found if isinstance(found, list) else [found]:
        one = one if isinstance(one, dict) or not _is_result(one) else dict(vars(one))
        if not isinstance(one, dict) or not isinstance(one.get("key"), str):
            return invalid(f"the evaluator's results have {words(one)}: each needs a key")
        named_results[one["key"]] = _one(one)
    return several(named_results, "the evaluator gave no results")


def _single(value: dict[str, Any]) -> Any:
    if "key" in value and not isinstance(value["key"], str):
        return invalid(f"the evaluator returned the key {words(value['key'])}: it must be text")
    if not any(name in value for name in ("score", "value", "comment")):
        return invalid(f"the evaluator returned {words(value)}, which has no score and no value: {_SHAPES}")
    return _one(value)


def _one(value: dict[str, Any]) -> dict[str, Any]:
    """One metric's result."""
    for name in value:
        if name not in _FIELDS:
            return invalid(f"the evaluator returned the unknown key {words(name)}: {_SHAPES}")
    score, own, comment = value.get("score"), value.get("value"), value.get("comment")
    if comment is not None and not isinstance(comment, str):
        return invalid(f"the evaluator returned the comment {words(comment)}: it must be text")
    if score is not None:
        if not isinstance(score, bool | int | float):
            return invalid(f"the evaluator returned the score {words(score)}: it must be a number or a bool")
        found: dict[str, Any] = score_of(score, comment) or {}
        return found | {"label": own} if isinstance(own, str) else found
    if own is None:
        return abstention(comment or "the evaluator gave no score")
    return score_of(own, comment) or {"label": words(own), "explanation": comment}


def _metric(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return _one(value)
    return score_of(value) or invalid(f"perform_eval returned the metric {words(value)}: {_SHAPES}")


def _is_result(value: Any) -> bool:
    return type(value).__name__ == "EvaluationResult" and hasattr(value, "key")
