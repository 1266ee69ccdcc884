# /// script
# [tool.evalcell.outputs]
# s0 = {kind = "freeform"}
# s1 = {kind = "freeform"}
# s2 = {kind = "freeform"}
# s3 = {kind = "freeform"}
# s4 = {kind = "freeform"}
# s5 = {kind = "freeform"}
# s6 = {kind = "freeform"}
# s7 = {kind = "freeform"}
# ///
"""Calls an evaluator of Langfuse's page, and tells its scores as JSON, in parts that results can hold."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

SOURCE, FOREIGN = "", ""
PART = 60_000
NAMES = {"data_type": "dataType", "config_id": "configId"}

foreign: Any = sys.modules.setdefault("evalcell_part", ModuleType("evalcell_part"))
exec(compile(FOREIGN, "<evalcell>", "exec", dont_inherit=True), vars(foreign))
module = foreign.load_page(SOURCE)


def snake(name: str) -> str:
    """Turn `toolCalls` into `tool_calls`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def record(value: dict[str, Any]) -> Any:
    """Make of an object one with the names in Python."""
    return foreign.Record({snake(name): part for name, part in value.items()})


def context(payload: Any) -> Any:
    """Make of the payload what the evaluator is given."""
    observation = record(payload.get("observation") or {})
    calls = observation.get("tool_calls") or []
    observation["tool_calls"] = [foreign.ToolCall(one) for one in calls if isinstance(one, dict)]
    experiment = payload.get("experiment")
    own = record(experiment) if isinstance(experiment, dict) else None
    return foreign.EvaluationContext(observation=observation, experiment=own)


def read_scores(value: Any) -> dict[str, Any]:
    """Read the scores as Langfuse's dialect does, or say why they are none."""
    try:
        value = foreign.jsonable(value)
    except RecursionError:
        return {"invalid": "the scores are nested too deeply"}
    scores = value.get("scores") if isinstance(value, dict) else None
    if not isinstance(scores, list) or not scores:
        return {"invalid": "return EvaluationResult(scores=[Score(name, value)]) with one score at least"}
    found = []
    for score in scores:
        name = score.get("name") if isinstance(score, dict) else None
        if not isinstance(name, str) or not name:
            return {"invalid": "a score is a Score or a dict, and has a name"}
        one = {NAMES.get(part, part): given for part, given in score.items() if given is not None}
        if "invalid" in (read := foreign.score_result(name, score)):
            return {"invalid": read["invalid"]}
        if one.get("dataType") == "BOOLEAN":
            one["value"] = int(foreign.truth(one["value"]))
        if isinstance(one["value"], float) and one["value"] - one["value"] != 0:
            return {"invalid": f"the score {name} has a value that is no finite number"}
        found.append(one)
    return {"scores": found}


async def evaluate(output: Any) -> dict[str, Any]:
    """Call the evaluator on the payload."""
    entry = vars(module).get("evaluate")
    if callable(entry):
        value = entry(context(output))
        if hasattr(type(value), "__await__"):
            value = await value
        found = read_scores(value)
    else:
        found = {"unloaded": "the script defines no function named evaluate"}
    text = json.dumps(found, default=str)
    return {f"s{n}": {"label": "part", "explanation": "|" + text[n * PART : (n + 1) * PART]} for n in range(8)}
