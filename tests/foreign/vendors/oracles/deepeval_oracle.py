"""deepeval's own `evaluate`, as it runs by default."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="YES", DEEPEVAL_UPDATE_WARNING_OPT_IN="NO")

from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.evaluate.execute import a_execute_test_cases, execute_test_cases
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase
from lines import Row, Said, failed, main, run, scored, text, verdict


def judge(kind: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    metric = kind(**given)
    awaited = kind.a_measure is not BaseMetric.a_measure
    for row in rows:
        try:
            case = LLMTestCase(
                input=text(row.get("input")),
                actual_output=text(row.get("output")),
                expected_output=None if row.get("reference") is None else text(row["reference"]),
                metadata=row.get("metadata"),
            )
            yield of_results(results(metric, case, awaited))
        except Exception as error:
            yield failed(error)


def results(metric: Any, case: Any, awaited: bool) -> Any:
    errors, cache = ErrorConfig(ignore_errors=True), CacheConfig(write_cache=False)
    display = DisplayConfig(show_indicator=False, print_results=False)
    if awaited:
        step = a_execute_test_cases([case], [metric], errors, display, cache, AsyncConfig(), identifier="x")
        return run(step)
    return execute_test_cases([case], [metric], errors, display, cache, identifier="x")


def of_results(found: Any) -> Said:
    (data,) = (found[0] if isinstance(found, tuple) else found)[0].metrics_data
    if data.error is not None:
        return failed(data.error)
    label = None if data.success is None else verdict(data.success)
    return scored({"": (label, data.score, data.reason)})


if __name__ == "__main__":
    main(judge)
