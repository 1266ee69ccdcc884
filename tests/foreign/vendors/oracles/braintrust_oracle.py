"""Braintrust's own `Eval`, which sends nothing, over a task that replays the output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from braintrust import EvalAsync, EvalCase
from braintrust.framework import EvalResult
from lines import Row, Said, abstained, failed, main, run, scored


def judge(found: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    scorer = found(**given) if isinstance(found, type) else found
    for row in rows:
        case: Any = EvalCase(input=row.get("input"), expected=row.get("reference"), metadata=row.get("metadata"))
        output = row.get("output")

        def replay(input: Any, hooks: Any = None, output: Any = output) -> Any:
            return output

        done = run(EvalAsync("rows", data=[case], task=replay, scores=[scorer], no_send_logs=True))
        yield of_result(done.results[0])


def of_result(found: EvalResult[Any, Any, Any]) -> Said:
    if found.error is not None:
        return failed(found.error)
    if not found.scores:
        return abstained()
    if all(score is None for score in found.scores.values()):
        return abstained()
    several = len(found.scores) > 1
    return scored({name if several else "": (None, score, None) for name, score in found.scores.items()})


if __name__ == "__main__":
    main(judge)
