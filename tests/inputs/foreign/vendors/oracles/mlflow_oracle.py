"""MLflow's own way with a row: `Scorer.run` and `standardize_scorer_value`, as its harness calls them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lines import Row, Said, abstained, failed, main, scored
from mlflow.genai.evaluation.utils import standardize_scorer_value
from mlflow.genai.scorers.base import Scorer


def judge(found: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    scorer = found if isinstance(found, Scorer) else found(**given)
    for row in rows:
        try:
            value = scorer.run(
                inputs=as_dict(row.get("input"), "input"),
                outputs=row.get("output"),
                expectations=as_dict(row.get("reference"), "expected_response"),
            )
            feedbacks = standardize_scorer_value(scorer.name, value)
        except Exception as error:
            yield failed(error)
            continue
        yield of_feedbacks(feedbacks, isinstance(value, list))


def as_dict(value: Any, name: str) -> Any:
    return value if isinstance(value, dict) else {name: value}


def of_feedbacks(feedbacks: list[Any], several: bool) -> Said:
    if not feedbacks:
        return abstained()
    outputs = {}
    for feedback in feedbacks:
        if feedback.error is not None:
            return failed(feedback.error)
        value = feedback.value
        if isinstance(value, bool):
            said: tuple[str | None, Any] = (str(value), float(value))
        elif isinstance(value, int | float):
            said = None, float(value)
        elif value is None or isinstance(value, str):
            said = value, None
        else:
            return failed(f"a value of the type {type(value).__name__}")
        outputs[feedback.name if several else ""] = (*said, feedback.rationale)
    return scored(outputs)


if __name__ == "__main__":
    main(judge)
