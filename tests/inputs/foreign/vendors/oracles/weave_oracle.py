"""Weave's own `Evaluation.predict_and_score`, over a model that replays the output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

os.environ.update(WEAVE_DISABLED="true", WANDB_MODE="offline", WEAVE_PRINT_CALL_LINK="false")

import weave
from lines import Row, Said, abstained, failed, main, run, scored


def judge(found: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    scorer = found(**given) if isinstance(found, type) else found

    @weave.op
    def replay(output: Any) -> Any:
        return output

    evaluation = weave.Evaluation(dataset=[{"output": ""}], scorers=[scorer])
    for row in rows:
        columns = {key: row[key] for key in ("input", "output", "reference", "metadata") if key in row}
        try:
            said = run(evaluation.predict_and_score(replay, {**row.get("metadata", {}), **columns}))
        except Exception as error:
            yield failed(error)
            continue
        (value,) = said["scores"].values()
        yield of_value(value)


def of_value(value: Any) -> Said:
    if value is None or value == {}:
        return abstained()
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    outputs: dict[str, tuple[str | None, Any, str | None]] = {}
    if not leaves(value, "", outputs):
        return failed(f"a value of the type {type(value).__name__}")
    return scored(outputs)


def leaves(value: Any, name: str, outputs: dict[str, tuple[str | None, Any, str | None]]) -> bool:
    """Numbers, booleans and texts of a result, by their path. Its summary has those of numbers and booleans too."""
    if isinstance(value, bool):
        outputs[name] = (str(value), float(value), None)
    elif isinstance(value, int | float):
        outputs[name] = (None, float(value), None)
    elif isinstance(value, str):
        outputs[name] = (value, None, None)
    elif isinstance(value, dict):
        return all(leaves(each, f"{name}.{key}" if name else str(key), outputs) for key, each in value.items())
    else:
        return value is None and bool(name)
    return True


if __name__ == "__main__":
    main(judge)
