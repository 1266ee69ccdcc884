"""
GitLab's code quality report: rows that failed and gates that did not pass, as findings.

Its format is the part of Code Climate's that GitLab reads: description, check_name, fingerprint, severity, location.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from runner.core.text import printable, whole
from runner.engine.scoring.gates import gate_words
from runner.engine.scoring.overview import nothing_scored
from runner.results.reports import comparison
from runner.results.reports.content import Part, RunContent, name_of

_TEXT = 1000


def code_quality(contents: Sequence[Part]) -> str:
    """Return the report of these runs and comparisons: a JSON array."""
    found = [finding for content in contents for finding in _of(content)]
    return json.dumps(list({finding["fingerprint"]: finding for finding in found}.values()), indent=1) + "\n"


def _of(content: Part) -> Iterator[dict[str, Any]]:
    if isinstance(content, RunContent):
        yield from _findings(content)
    elif content.verdict not in ("better", "no worse"):
        found = comparison.verdict(content)
        words = f"{found}: {comparison.sentence(content)}"
        yield _place(name_of(content), content.new.name, "comparison", words, "critical", "comparison", None)


def _findings(content: RunContent) -> Iterator[dict[str, Any]]:
    summary = content.summary
    if content.state != "finished":
        yield _finding(content, "run", content.error or f"the run was {content.state}", "blocker")
    elif not summary.judged:
        yield _finding(content, "run", nothing_scored(summary), "blocker")
    for gate in summary.gates:
        if gate.verdict != "passed":
            yield _finding(content, f"gate {gate.gate}", gate_words(gate), "critical")
    for row in content.failed:
        words = f"row {row.id}: {row.outcome}: {row.message}"
        yield _finding(content, f"row {row.id}", words, "major", row.kind, row.line)


def _finding(
    content: RunContent, what: str, words: str, severity: str, kind: str = "gate", line: int | None = None
) -> dict[str, Any]:
    return _place(content.name, content.source, what, words, severity, kind, line)


def _place(name: str, source: str, what: str, words: str, severity: str, kind: str, line: int | None) -> dict[str, Any]:
    # The same finding has the same fingerprint in each run: so GitLab tells what is new.
    key = "\0".join((name, source, what, kind))
    return {
        "description": printable(f"{name}: {words}", _TEXT),
        "check_name": f"evalcell/{kind}",
        "fingerprint": blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest(),
        "severity": severity,
        # GitLab leaves out a finding without a place.
        "location": {"path": printable(whole(source or name)), "lines": {"begin": line or 1}},
    }
