"""Scripts in the shapes that tools publish, each with its source, and what it makes of a few rows."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from runner.core.types import Evaluator, InputMapping, Result
from runner.engine.local import score
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import SandboxConfig
from sandboxes.registry import create

ROWS: list[dict[str, Any]] = [
    {"input": {"question": "2 + 2"}, "output": "4", "reference": "4", "topic": "math"},
    {"input": {"question": "capital of France"}, "output": "paris", "reference": "Paris", "topic": "world"},
]
OBJECTS: list[dict[str, Any]] = [
    {"input": {"q": "2 + 2"}, "output": {"answer": "4"}, "reference": {"answer": "4"}},
    {"input": {"q": "3 + 3"}, "output": {"answer": "7"}, "reference": {"answer": "6"}},
]


class Published(NamedTuple):
    """One script, and its results: a label and a score for each row, or the names and scores of several outputs."""

    source: str
    """Where this shape is published."""
    text: str
    results: list[Any]
    rows: list[dict[str, Any]] = ROWS
    entry: str | None = None
    dialect: str | None = None
    language: Any = "python"
    mapping: InputMapping = InputMapping()


def read(one: Published, dialect: str | None = None) -> Evaluator:
    return parse_evaluator(
        one.text, "published", language=one.language, dialect=one.dialect or dialect, entry=one.entry
    )


def scored(every: list[tuple[Evaluator, Published]], backend: str = "wasm") -> list[list[Result]]:
    """The results of all of them, in one sandbox."""

    async def run() -> list[list[Result]]:
        language: Any = "typescript" if backend == "deno" else "python"
        async with create(SandboxConfig(backend=backend, jobs=1, language=language)) as opened:
            return [
                [r async for r in score(evaluator, cases_from_rows(one.rows), opened, mapping=one.mapping)]
                for evaluator, one in every
            ]

    return asyncio.run(run())


def short(result: Result) -> Any:
    """What a result says, as `Published.results` has it."""
    if result.error is not None:
        return result.error.kind
    if len(result.outputs) > 1:
        return {name: (one.label, one.score) for name, one in result.outputs.items()}
    return "abstained" if result.outcome == "abstained" else (result.label, result.score)


def check(dialect: str, every: list[Published], backend: str = "wasm") -> None:
    """Each is seen to be of the dialect, unless it names its own, and gives what it should."""
    read_all = [(read(one), one) for one in every]
    assert {evaluator.dialect for evaluator, _ in read_all} == {dialect}
    for (_, one), results in zip(read_all, scored(read_all, backend), strict=True):
        told = [f"{result.error.message}" for result in results if result.error]
        assert [short(result) for result in results] == one.results, (one.text, told)
