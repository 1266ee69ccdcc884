"""langsmith's own `run_evaluator`."""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Iterable
from typing import Any

os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")

from langsmith.evaluation import run_evaluator
from langsmith.schemas import Example, Run
from lines import Row, Said, abstained, failed, main, run, scored

NOW = datetime.datetime.now(datetime.UTC)


def judge(function: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    evaluator = run_evaluator(function)
    for row in rows:
        inputs, metadata = as_dict(row.get("input"), "input"), row.get("metadata") or {}
        example = Example(
            id=uuid.uuid4(), inputs=inputs, outputs=as_dict(row.get("reference"), "output"), metadata=metadata
        )
        ended = Run(
            id=uuid.uuid4(),
            name="task",
            start_time=NOW,
            run_type="chain",
            inputs=inputs,
            outputs=as_dict(row.get("output"), "output"),
            trace_id=uuid.uuid4(),
        )
        try:
            found = evaluator.evaluate_run(ended, example)
        except NotImplementedError:
            found = run(evaluator.aevaluate_run(ended, example))
        except Exception as error:
            yield failed(error)
            continue
        yield of_results(found["results"] if isinstance(found, dict) else [found], isinstance(found, dict))


def as_dict(value: Any, name: str) -> Any:
    return value if isinstance(value, dict) else {name: value}


def of_results(found: list[Any], several: bool) -> Said:
    if not found:
        return abstained()
    outputs = {}
    for one in found:
        value, score = one.value, one.score
        label = str(score) if isinstance(score, bool) else value if isinstance(value, str) else None
        number = None if score is None else float(score)
        outputs[str(one.key) if several else ""] = (label, number, one.comment)
    return scored(outputs)


if __name__ == "__main__":
    main(judge)
