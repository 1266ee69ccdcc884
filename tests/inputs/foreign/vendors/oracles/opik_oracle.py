"""Opik's own evaluator of metrics, which its `evaluate` calls for each item of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

os.environ.update(OPIK_TRACK_DISABLE="true", OPIK_SENTRY_ENABLE="false", OPIK_USER_ANALYTICS_ENABLE="false")

from lines import Row, Said, abstained, failed, main, scored
from opik.evaluation.engine.metrics_evaluator import MetricsEvaluator
from opik.evaluation.types import ErrorTolerance


def judge(kind: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    metric = kind(**given)
    engine = MetricsEvaluator([metric], {}, [], error_tolerance=ErrorTolerance.ALL_SCORING_ERRORS)
    for row in rows:
        item = {
            **row.get("metadata", {}),
            **{key: row[key] for key in row if key in ("input", "reference", "metadata")},
        }
        try:
            found, _ = engine.compute_regular_scores(item, {"output": row.get("output")})
        except Exception as error:
            yield failed(error)
            continue
        yield of_scores(found)


def of_scores(found: list[Any]) -> Said:
    if not found:
        return abstained()
    for one in found:
        if not hasattr(one, "scoring_failed"):
            return failed(f"no ScoreResult: {one!r}")  # Opik itself goes on with it, and breaks later
        if one.scoring_failed:
            return failed(one.reason)
    names = [one.name if len(found) > 1 else "" for one in found]
    return scored({name: (one.category_name, one.value, one.reason) for name, one in zip(names, found, strict=True)})


if __name__ == "__main__":
    main(judge)
