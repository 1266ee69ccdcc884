"""Braintrust's own `run_evaluator`, which its `Eval` calls; its task replays the output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from braintrust import EvalCase, framework
from braintrust.framework import EvalResult, Evaluator, run_evaluator
from braintrust.logger import BraintrustState
from lines import Row, Said, abstained, failed, main, run, scored

framework._lazy_load = True  # as `braintrust eval` loads a file: an `Eval` in it does not log in


def judge(found: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    scorer = found(**given) if isinstance(found, type) else found
    cases = [
        EvalCase(input=row.get("input"), expected=row.get("reference"), metadata={**row["metadata"], "place": place})
        for place, row in enumerate(rows)
    ]

    def replay(input: Any, hooks: Any) -> Any:
        return rows[hooks.metadata.pop("place")].get("output")

    evaluator: Any = Evaluator("rows", "rows", data=cases, task=replay, scores=[scorer], experiment_name=None,
                               metadata=None, max_concurrency=1)  # fmt: skip
    done = run(run_evaluator(None, evaluator, None, [], state=BraintrustState(), enable_cache=False))
    for one in done.results:
        yield of_result(one)


def of_result(found: EvalResult[Any, Any]) -> Said:
    if found.error is not None:
        return failed(found.error)
    if errors := (found.metadata or {}).get("scorer_errors"):
        return failed(errors)  # in the tool it is a line in the metadata, and no score
    if all(score is None for score in found.scores.values()):
        return abstained()
    several = len(found.scores) > 1
    return scored({name if several else "": (None, score, None) for name, score in found.scores.items()})


if __name__ == "__main__":
    main(judge)
