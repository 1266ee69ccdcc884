"""Calls an Opik metric that a rule brings as Opik's own Python backend does, and tells its scores as JSON."""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import traceback
from types import ModuleType
from typing import Any

os.environ |= {"OPIK_TRACK_DISABLE": "true", "OPIK_SENTRY_ENABLE": "false", "OPIK_USER_ANALYTICS_ENABLE": "false"}
os.environ.setdefault("HOME", tempfile.gettempdir())  # a sandbox has none, and packages ask for it

import opik.evaluation.metrics as metrics
from opik.evaluation.metrics import base_metric, score_result

if hasattr(base_metric, "_track_metric_creation"):  # it starts a thread that counts metrics
    base_metric._track_metric_creation = lambda kind: None

LONGEST = 20_000
CAUSES = 5
"""Of an exception, as many as are told."""
NO_METRIC = (
    "Field 'code' in the request doesn't contain a subclass implementation of 'opik.evaluation.metrics.BaseMetric'"
)
NO_SCORE = "The provided 'code' field didn't return any 'opik.evaluation.metrics.ScoreResult'"
NO_USE = "The provided 'code' field didn't return any usable 'opik.evaluation.metrics.ScoreResult'"


def trace() -> str:
    """Return what is handled and its causes, and the frames without our own: Opik shows the first 500 characters."""
    _, error, frames = sys.exc_info()
    causes = ["".join(traceback.format_exception_only(one)).rstrip() for one in causes_of(error)]
    if len(causes) > CAUSES:
        causes[CAUSES - 2 : -1] = [f"... {len(causes) - CAUSES + 1} more"]
    text = "\ncaused by: ".join(causes)
    told = "".join(traceback.format_tb(frames and frames.tb_next)).rstrip()
    return f"{text}\n{told}"[:LONGEST].rstrip()


def causes_of(error: BaseException | None) -> list[BaseException]:
    """Return the exception, the members of a group, and what it came from, each once."""
    causes: list[BaseException] = []
    waiting = [error]
    while waiting and len(causes) < 100:
        one = waiting.pop(0)
        if one is None or any(one is known for known in causes):
            continue
        causes.append(one)
        waiting += getattr(one, "exceptions", ())
        waiting.append(one.__cause__ if one.__cause__ is not None or one.__suppress_context__ else one.__context__)
    return causes


def metric_of(module: ModuleType) -> Any:
    """Return the first metric by name that the code itself defines."""
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if issubclass(kind, metrics.BaseMetric) and kind.__module__ == module.__name__:
            return kind
    return None


def keywords(metric: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with None for each required parameter that was not logged; Opik logs spans where a rule asks."""
    try:
        parameters = inspect.signature(metric.score).parameters.values()
    except (TypeError, ValueError):
        return data
    required = [
        one.name
        for one in parameters
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and one.name != "spans"
    ]
    return {**dict.fromkeys(required), **data}


def score_dict(score: Any) -> dict[str, Any]:
    """Return a score as Opik's backend reads it; what is no number is told as a score that failed."""
    value, reason = score.value, score.reason
    value = int(value) if isinstance(value, bool) else value
    if value is not None and (not isinstance(value, int | float) or value - value != 0):
        why = f"the metric returned {value!r:.200}, which is no finite number"
        return {"name": str(score.name), "value": None, "reason": why, "scoring_failed": True}
    reason = None if reason is None else str(reason)
    return {"name": str(score.name), "value": value, "reason": reason, "scoring_failed": bool(score.scoring_failed)}


def rule_result(code: str, data: Any, kind: str | None) -> dict[str, Any]:
    """Return the scores, or the error."""
    module = ModuleType("evaluator")
    try:
        exec(compile(code, "<string>", "exec", dont_inherit=True), vars(module))
    except Exception:
        return {"error": f"Field 'code' contains invalid Python code: {trace()}"}
    metric = metric_of(module)
    if metric is None:
        return {"error": NO_METRIC}
    try:
        made = metric()
        if kind != "trace_thread" or isinstance(data, dict):
            found = made.score(**keywords(made, data))
        else:
            found = made.score(data)
    except Exception:
        return {"error": f"The provided 'code' and 'data' fields can't be evaluated: {trace()}"}
    each = found if isinstance(found, list) else [found]
    scores = [score_dict(one) for one in each if isinstance(one, score_result.ScoreResult)]
    if any(score["value"] is not None and not score["scoring_failed"] for score in scores):
        return {"scores": scores}
    why = next((score["reason"] for score in scores if score["reason"]), None)
    return {"error": (f"{NO_USE}: {why}" if why else NO_USE) if scores else NO_SCORE}


def evaluate(code: str, data: Any, kind: str | None) -> str:
    """Call the metric on the data."""
    return json.dumps(rule_result(code, data, kind))
