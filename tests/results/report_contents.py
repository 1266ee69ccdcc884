"""Runs as reports show them, made of results without running a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.core.types import Case, Continuous, Evaluator, OutputConfig, Parameter, Result, ResultError
from runner.engine.scoring.failure_limits import parse_most
from runner.engine.scoring.gates import judge, parse_gate
from runner.engine.scoring.shown_rows import Worst
from runner.engine.scoring.tally import Tally
from runner.results.reports.content import ReportRows, RunContent
from sandboxes.base import Call

EVIL = (
    "</details></table></code></pre>--> <script>alert(1)</script> <img src=x onerror=alert(1)> | **b** _i_ `c` [l](u)"
    " ![i](u) @team #1 GH-1 http://a.example www.a.example a@b.example $(id) \"'&amp; \u202e\u2066\x00\x1b[2J\ud800"
)
"""Marks of Markdown and HTML, mentions, links, a bidirectional mark, NUL, an escape and half of a surrogate pair."""

ABOUT: dict[str, Any] = {"evaluator": "same", "version": "0123456789ab", "sandbox": "fake/1"}
CONFIG = Continuous(lower_bound=0, upper_bound=1, threshold=0.5)


def evaluator(name: str = "same", config: OutputConfig = CONFIG) -> Evaluator:
    parameters = (Parameter(name="output"), Parameter(name="reference"))
    return Evaluator(name=name, source="", parameters=parameters, outputs={"": config}, version="0123456789ab")


def scored(number: int, score: float = 1.0, *, id: str | None = None, **more: Any) -> Result:
    named = f"r{number}" if id is None else id
    return Result(id=named, number=number, outcome="scored", score=score, **ABOUT, **more)


def failed(number: int, message: str = "ValueError: no", *, id: str | None = None, lost: bool = False) -> Result:
    named = f"r{number}" if id is None else id
    error = ResultError(kind="lost" if lost else "raised", message=message)
    return Result(id=named, number=number, outcome="lost" if lost else "failed", error=error, **ABOUT)


def content(
    results: Sequence[Result],
    *,
    require: Sequence[str] = (),
    max_failed: str | None = None,
    given: Any = None,
    shown: int = 50,
    name: str = "same",
    **more: Any,
) -> RunContent:
    """A run with these results, from `data.jsonl` with one row a line; `given` are the arguments of each row."""
    script = evaluator(name)
    tally, worst, rows = (
        Tally(script.outputs),
        Worst(script, shown),
        ReportRows(script.outputs, failed=True, listed=True),
    )
    cases = [Case(number=r.number, id=r.id, where=f"data.jsonl:{r.number}") for r in results]
    for result, _ in zip(results, rows.located(cases), strict=True):
        arguments = {"output": "a", "reference": "b"} if given is None else given
        worst.watch(result, Call(id=result.number, arguments=arguments))
        for each in (tally, worst, rows):
            each.add(result)
    gates = [parse_gate(text, script.outputs, required=True) for text in require]
    summary = judge(tally.summary(1.5), gates, parse_most(max_failed) if max_failed else None)
    fields: dict[str, Any] = {"source": "data.jsonl"} | more
    return RunContent(name=name, summary=summary, shown=worst.rows(), failed=rows.failed, listed=rows.listed, **fields)
