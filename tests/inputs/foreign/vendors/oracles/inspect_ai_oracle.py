"""Inspect's own `eval`, over a solver that replays what the model had said."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import value_to_float
from inspect_ai.solver import solver
from lines import Row, Said, abstained, failed, main, scored, text


@solver
def replay() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        state.output = ModelOutput.from_content("mockllm/model", state.metadata["_output"])
        state.messages.append(state.output.message)
        state.metadata = state.metadata["_own"]
        return state

    return solve


def judge(factory: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    os.chdir(tempfile.mkdtemp())
    samples = [sample(row, number) for number, row in enumerate(rows)]
    task = Task(dataset=samples, solver=replay(), scorer=[factory(**given)])
    log = run_eval(task, model="mockllm/model", display="none", fail_on_error=False, log_dir="logs")[0]
    assert log.samples is not None, log.error
    by_id = {found.id: found for found in log.samples}
    for number in range(len(rows)):
        found = by_id[number]
        if found.error is not None:
            yield failed(found.error.message)
        elif not found.scores:
            yield abstained()
        else:
            (score,) = found.scores.values()
            yield of_score(score)


def sample(row: Row, number: int) -> Sample:
    target = row.get("reference")
    if target is None:
        target = ""
    elif not (isinstance(target, list) and all(isinstance(one, str) for one in target)):
        target = text(target)
    metadata = {"_output": text("" if row.get("output") is None else row["output"]), "_own": row.get("metadata") or {}}
    return Sample(
        id=number, input=text("" if row.get("input") is None else row["input"]), target=target, metadata=metadata
    )


def of_score(score: Any) -> Said:
    value, explanation = score.value, score.explanation
    if isinstance(value, dict):
        outputs = {name: (*said(each), explanation) for name, each in value.items()}
    elif isinstance(value, list):
        outputs = {str(at): (*said(each), explanation) for at, each in enumerate(value)}
    else:
        outputs = {"": (*said(value), explanation)}
    if len(outputs) == 1 and all(score != score for _, score, _ in outputs.values()):
        return abstained()
    return scored(outputs)


def said(value: Any) -> tuple[str | None, Any]:
    """The label and the number, which is Inspect's own where the value is one of its words or a number."""
    if value is None:
        return None, None
    if isinstance(value, bool):
        return str(value), float(value)
    if isinstance(value, int | float):
        return None, float(value)
    number = value_to_float()(value)
    known = number != 0.0 or value in ("I", "N") or value.lower() in ("no", "false") or _is_zero(value)
    return value, number if known else None


def _is_zero(value: str) -> bool:
    try:
        return float(value) == 0.0
    except ValueError:
        return False


if __name__ == "__main__":
    main(judge)
