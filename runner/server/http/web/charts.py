"""Figures of a run that filter its rows: bars that are links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from runner.engine.scoring import overview
from runner.engine.scoring.summary import Summary
from runner.results.reports.html.figures import BarGroup, histogram, meters
from runner.server.http.web.render import link

_LABELS = 20


def charts(summary: Summary, path: str, query: Mapping[str, Any]) -> Markup:
    """
    Return the first output's scores, and rows by label, outcome and error.

    Each bar leads to its rows, or back to all.
    """

    def to(**bounds: str) -> tuple[str, bool]:
        chosen = all(query.get(name) == bound for name, bound in bounds.items())
        changed: Mapping[str, Any] = dict.fromkeys(bounds) if chosen else bounds
        return f"{link(path, query, first=None, **changed)}#results", chosen

    stats = next(iter(overview.outputs(summary).values()))
    known = list(stats.labels)[:_LABELS]
    # What looks alike is told apart in what is shown, and not in the address.
    names = zip(overview.labels(stats, _LABELS), overview.shown_labels(stats, _LABELS), strict=True)
    labels = [BarGroup(words, count, to(label=name) if name in known else None) for (name, count), (words, _) in names]
    counts = overview.outcome_counts(summary).items()
    outcomes = [BarGroup(name, count, to(outcome=name)) for name, count in counts if count]
    errors = [BarGroup(one.kind, one.count, to(error=one.kind), one.message) for one in summary.errors]
    return Markup(
        histogram(stats, lambda low, high: to(low=repr(low), high=repr(high)))
        + meters("Labels", labels)
        + meters("Outcomes", outcomes)
        + meters("Errors", errors)
    )
