"""Langfuse's own `_run_evaluator`, which its `run_experiment` calls for each item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langfuse.experiment import _run_evaluator
from lines import Row, Said, abstained, failed, main, run, scored


def judge(function: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    for row in rows:
        try:
            found = run(
                _run_evaluator(
                    function,
                    _raise_on_error=True,  # without it an exception leaves a line in the log, and no score
                    input=row.get("input"),
                    output=row.get("output"),
                    expected_output=row.get("reference"),
                    metadata=row.get("metadata"),
                )
            )
        except Exception as error:
            yield failed(error)
            continue
        yield of_evaluations(found)


def of_evaluations(found: list[Any]) -> Said:
    if not found:
        return abstained()
    outputs = {}
    for one in found:
        value = one.value
        if isinstance(value, bool):
            said: tuple[str | None, Any] = (str(value), float(value))
        else:
            said = (value, None) if isinstance(value, str) else (None, value)
        outputs[one.name if len(found) > 1 else ""] = (*said, one.comment)
    return scored(outputs)


if __name__ == "__main__":
    main(judge)
