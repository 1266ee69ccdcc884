"""pydantic-evals' own `Dataset.evaluate`, over a task that replays the output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lines import Row, Said, abstained, failed, main, scored
from pydantic_evals import Case, Dataset


def judge(kind: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    cases: list[Any] = [
        Case(
            name=str(number),
            inputs=(number, row.get("input")),
            expected_output=row.get("reference"),
            metadata=row.get("metadata"),
        )
        for number, row in enumerate(rows)
    ]
    evaluator = kind(**given)
    watched = type(kind.__name__, (kind,), {"evaluate": unpacked(kind.evaluate)})
    evaluator.__class__ = watched  # the row's number stands beside its input, so that the task knows its output

    async def replay(inputs: Any) -> Any:
        return rows[inputs[0]].get("output")

    dataset: Any = Dataset(name="rows", cases=cases, evaluators=[evaluator])
    report = dataset.evaluate_sync(replay, progress=False)
    by_name = {case.name: case for case in report.cases}
    for number in range(len(rows)):
        yield of_case(by_name[str(number)])


def unpacked(evaluate: Any) -> Any:
    def called(self: Any, ctx: Any) -> Any:
        ctx.inputs = ctx.inputs[1]
        return evaluate(self, ctx)

    return called


def of_case(case: Any) -> Said:
    if case.evaluator_failures:
        return failed(case.evaluator_failures[0].error_message)
    found = {**case.assertions, **case.scores, **case.labels}
    if not found:
        return abstained()
    outputs = {name: (*said(each.value), each.reason) for name, each in found.items()}
    # a single value has the evaluator's name
    if len(outputs) == 1 and next(iter(found.values())).source.name in outputs:
        outputs = {"": next(iter(outputs.values()))}
    return scored(outputs)


def said(value: Any) -> tuple[str | None, Any]:
    if isinstance(value, bool):
        return ("pass" if value else "fail"), float(value)
    return (value, None) if isinstance(value, str) else (None, float(value))


if __name__ == "__main__":
    main(judge)
