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
    found: dict[str, Said] = {}
    cases = []
    for number, row in enumerate(rows):
        try:
            case = LLMTestCase(
                name=str(number),
                input=text("" if row.get("input") is None else row["input"]),
                actual_output=None if row.get("output") is None else text(row["output"]),
                expected_output=None if row.get("reference") is None else text(row["reference"]),
                metadata=row.get("metadata"),
            )
            cases.append(case)
        except Exception as error:
            found[str(number)] = failed(error)
    found |= judged(kind(**given), cases, kind.a_measure is not BaseMetric.a_measure)
    return (found[str(number)] for number in range(len(rows)))


def judged(metric: Any, cases: list[Any], awaited: bool) -> dict[str, Said]:
    """By the case's name. Some errors of a metric end deepeval's whole call: then each case is judged alone."""
    try:
        return {result.name: of_result(result) for result in results(metric, cases, awaited)}
    except Exception as error:
        if len(cases) == 1:
            return {cases[0].name: failed(error)}
        return {name: said for case in cases for name, said in judged(metric, [case], awaited).items()}


def results(metric: Any, cases: list[Any], awaited: bool) -> Any:
    errors, cache = ErrorConfig(ignore_errors=True), CacheConfig(write_cache=False)
    display = DisplayConfig(show_indicator=False, print_results=False)
    if awaited:
        step = a_execute_test_cases(cases, [metric], errors, display, cache, AsyncConfig(), identifier="x")
        return run(step)
    found = execute_test_cases(cases, [metric], errors, display, cache, identifier="x")
    return found[0] if isinstance(found, tuple) else found


def of_result(found: Any) -> Said:
    (data,) = found.metrics_data
    if data.error is not None:
        return failed(data.error)
    label = None if data.success is None else verdict(data.success)
    return scored({"": (label, data.score, data.reason)})


if __name__ == "__main__":
    main(judge)
