"""Ragas' own `evaluate` for metrics over samples, and the `score` of its other metrics."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterable
from typing import Any

os.environ.update(RAGAS_DO_NOT_TRACK="true")

from lines import Row, Said, failed, main, scored, text
from ragas import EvaluationDataset, evaluate
from ragas.metrics.base import SingleTurnMetric


def judge(found: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    metric = found(**given) if isinstance(found, type) else found
    columns = [columns_of(row) for row in rows]
    if isinstance(metric, SingleTurnMetric):
        samples = [{name: one[name] for name in ("user_input", "response", "reference")} for one in columns]
        done = evaluate(EvaluationDataset.from_list(samples), [metric], raise_exceptions=False, show_progress=False)
        for score in done.scores:
            (value,) = score.values()
            yield failed("not a number") if math.isnan(value) else scored({"": (None, float(value), None)})
        return
    own = inspect.signature(getattr(metric, "_func", None) or metric.ascore).parameters
    for one in columns:
        try:
            result = metric.score(**{name: one[name] for name in one if name in own})
        except Exception as error:
            yield failed(error)
            continue
        yield of_result(result.value, result.reason)


def columns_of(row: Row) -> Row:
    words = {"user_input": row.get("input"), "response": row.get("output"), "reference": row.get("reference")}
    return {
        **row.get("metadata", {}),
        **{name: None if value is None else text(value) for name, value in words.items()},
    }


def of_result(value: Any, reason: str | None) -> Said:
    if value is None:
        return failed(reason)
    if isinstance(value, list):
        return scored({str(at): (one, None, reason) for at, one in enumerate(value)})
    if isinstance(value, str):
        return scored({"": (value, None, reason)})
    return scored({"": (str(value) if isinstance(value, bool) else None, float(value), reason)})


if __name__ == "__main__":
    main(judge)
