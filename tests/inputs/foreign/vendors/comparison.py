"""One script over the same rows: in its vendor's own runner, and in evalcell."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import runner
from runner.core.types import InputMapping, Result
from runner.inputs.evaluators.foreign.types import DATA, INLINE
from runner.inputs.evaluators.load import parse_evaluator

HERE = Path(__file__).parent
ROWS = 200
Row = dict[str, Any]
Words = dict[str, Any]
"""`outcome`, and `outputs`: by name, a list of label, score and explanation."""


def real_rows(kind: str) -> list[Row]:
    """The first rows of a real dataset: `text`, or `json`, whose outputs are objects."""
    name = {"text": "text_gsm8k", "json": "json_tau_airline"}[kind]
    with (HERE.parents[4] / "shared" / "datasets" / f"{name}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line, _ in zip(file, range(ROWS), strict=False)]


def shape_rows(script: Path) -> list[Row]:
    """A row for each key of a script's `SHAPES`: its input is the key."""
    return [
        {"id": name, "input": name, "output": "an output", "reference": "a reference", "metadata": {}}
        for name in _shapes(script)
    ]


def _shapes(script: Path) -> list[Any]:
    text = script.read_text("utf-8")
    if script.suffix != ".py":
        return re.findall(r'^  "(.+?)": ', text, re.MULTILINE)
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="SHAPES")], value=ast.Dict(keys=keys)):
                return [key.value for key in keys if isinstance(key, ast.Constant)]
    raise ValueError(f"{script} has no SHAPES")


def ours(script: Path, entry: str, rows: Sequence[Row], given: Mapping[str, Any], **options: Any) -> list[Words]:
    """What evalcell makes of the rows."""
    evaluator: Any = f"{script}:{entry}"
    if entry in (INLINE, DATA):
        language: Any = "typescript" if script.suffix == ".js" else "python"
        dialect = "promptfoo" if entry == INLINE else "openai"
        text = script.read_text("utf-8").rstrip()
        evaluator = parse_evaluator(text, "code", language=language, dialect=dialect, entry=entry)
    return results(evaluator, rows, given, **options)


def results(
    evaluator: Any,
    rows: Sequence[Row],
    given: Mapping[str, Any],
    mapped: Mapping[str, str] | None = None,
    **options: Any,
) -> list[Words]:
    """What evalcell makes of the rows, with what was read before, or a path."""
    mapping = InputMapping(literals=dict(given), paths=dict(mapped or {}))
    report = runner.evaluate(evaluator, list(rows), mapping=mapping, **options)
    return [words(result) for result in report.results]


def words(result: Result) -> Words:
    if result.outcome not in ("scored", "abstained"):
        return {"outcome": result.outcome, "outputs": {}, "why": result.error and result.error.message}
    named = {name: [one.label, one.score, one.explanation] for name, one in result.outputs.items()}
    own = {"": [result.label, result.score, result.explanation]}
    return {"outcome": result.outcome, "outputs": named or own}


def differences(theirs: Sequence[Words], found: Sequence[Words], rows: Sequence[Row]) -> list[str]:
    """The rows that differ, in words. What an abstained or failed row says of itself may differ."""
    assert len(theirs) == len(found) == len(rows), (len(theirs), len(found), len(rows))
    return [
        f"{row['id']}: theirs {one}, ours {other}"
        for row, one, other in zip(rows, theirs, found, strict=True)
        if not _same(one, other)
    ]


def _same(one: Words, other: Words) -> bool:
    if one["outcome"] != other["outcome"]:
        return False
    if one["outcome"] != "scored":
        return True
    here, there = _unnamed(one["outputs"]), _unnamed(other["outputs"])
    return here.keys() == there.keys() and all(_equal(here[name], there[name]) for name in here)


def _unnamed(outputs: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    """The name of a single output says nothing."""
    return {"": next(iter(outputs.values()))} if len(outputs) == 1 else outputs


def _equal(one: list[Any], other: list[Any]) -> bool:
    (label, score, why), (label_, score_, why_) = one, other
    same = score == score_ or (None not in (score, score_) and math.isclose(score, score_, rel_tol=1e-15))
    if label is label_ is score is score_ is None:
        return True
    return label == label_ and same and (why or None) == (why_ or None)
