"""Phoenix's own `Evaluator.evaluate`, and `async_evaluate` of a coroutine."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from lines import Row, Said, abstained, failed, main, run, scored


def judge(evaluator: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    awaited = inspect.iscoroutinefunction(getattr(evaluator, "_fn", None))
    for row in rows:
        try:
            eval_input = {key: row[key] for key in ("input", "output", "reference", "metadata") if key in row}
            eval_input = {**row.get("metadata", {}), **eval_input, **given}
            found = run(evaluator.async_evaluate(eval_input)) if awaited else evaluator.evaluate(eval_input)
        except Exception as error:
            yield failed(error)
            continue
        yield of_scores(found)


def of_scores(found: list[Any]) -> Said:
    if not found or all(one.score is None and one.label is None and one.explanation is None for one in found):
        return abstained()
    names = [one.name if len(found) > 1 else "" for one in found]
    outputs = {name: (one.label, one.score, one.explanation) for name, one in zip(names, found, strict=True)}
    if any(isinstance(score, str) or not isinstance(label, str | None) for label, score, _ in outputs.values()):
        return failed("a score that is text, or a label that is none")
    return scored(outputs)


if __name__ == "__main__":
    main(judge)
