"""A report as plain text, for a test that fails."""

from __future__ import annotations

from collections.abc import Iterator

from runner.api import Report
from runner.results.summary import Summary


def report_text(report: Report) -> str:
    """The summary and the worst rows, safe to print."""
    summary = report.summary
    worst = report.shown
    first = 'the first rows (direction = "maximize" in the script\'s output config shows the worst):'
    lines = [*_summary(summary), "the worst rows:" if worst.ranked else first]
    for row in worst.rows:
        score = "" if row.score is None else f"{row.score:.6g}"
        outcome = f"{row.outcome}: {row.kind}" if row.kind and row.kind != "lost" else row.outcome
        words = (outcome, score, row.label, row.remark)
        lines.append("  " + "  ".join([row.id, *(word for word in words if word)]))
        lines += [f"    {name}: {text}" for name, text in row.arguments.items()]
    return "\n".join(lines)


def _summary(summary: Summary) -> Iterator[str]:
    counts = ("scored", "abstained", "failed", "lost")
    outcomes = ", ".join(f"{getattr(summary, name):,} {name}" for name in counts if getattr(summary, name))
    yield f"{summary.evaluator} in {summary.sandbox}: {summary.rows:,} rows, {outcomes or 'none scored'}"
    if summary.mean is not None:
        yield f"mean {summary.mean:.6g}, median {summary.median:.6g}, min {summary.min:.6g}, max {summary.max:.6g}"
    for gate in summary.gates:
        if gate.verdict != "passed":
            yield f"gate {gate.gate}: {gate.verdict}: {gate.reason}"
