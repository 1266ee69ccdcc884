"""Figures of a run that filter its rows: bars that are links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nextafter
from typing import Any

from runner.core.text import rows_of
from runner.engine.scoring import overview
from runner.engine.scoring.gates import figure
from runner.engine.scoring.summary import Summary
from runner.server.http.web.render import link

_HEIGHT = 100
_LABELS = 20


@dataclass(frozen=True)
class ScoreBar:
    """One bar of the histogram."""

    low: float
    high: float
    count: int
    height: int
    words: str
    address: str
    chosen: bool


@dataclass(frozen=True)
class Group:
    """Rows that have something in common."""

    name: str
    count: int
    width: float
    address: str
    chosen: bool
    more: str = ""


def score_bars(summary: Summary, path: str, query: Mapping[str, Any]) -> list[ScoreBar]:
    """The histogram of the first output; each bar leads to its rows, and the chosen one back to all."""
    stats = next(iter(overview.outputs(summary).values()))
    drawn = overview.bars(stats.histogram, _HEIGHT)
    if stats.histogram is None or not drawn:
        return []
    edges, counts = stats.histogram.edges, stats.histogram.counts
    made = []
    for at, bar in enumerate(drawn):
        low, high = edges[at], edges[at + 1]
        # A score on an edge belongs to the bar above it, of the last bar to itself.
        most = high if at == len(drawn) - 1 else nextafter(high, low)
        chosen = (query.get("low"), query.get("high")) == (repr(low), repr(most))
        address = link(path, query, first=None, low=None if chosen else repr(low), high=None if chosen else repr(most))
        words = f"{figure(low)} to {figure(high)}: {rows_of(counts[at])}"
        made.append(ScoreBar(low, high, counts[at], bar.height, words, f"{address}#results", chosen))
    return made


def first_threshold(summary: Summary) -> float | None:
    """That of the output whose histogram is shown."""
    return next(iter(overview.outputs(summary).values())).threshold


def threshold_at(bars: list[ScoreBar], threshold: float | None) -> float | None:
    """Where the threshold stands in the histogram, of which each bar is 10 wide; None if it is not in it."""
    if not bars or threshold is None or not bars[0].low <= threshold <= bars[-1].high:
        return None
    low, high = bars[0].low, bars[-1].high
    return round(10 * len(bars) * (threshold / 2 - low / 2) / (high / 2 - low / 2), 2)


def labels(summary: Summary, path: str, query: Mapping[str, Any]) -> list[Group]:
    """Rows by label."""
    stats = next(iter(overview.outputs(summary).values()))
    every = overview.labels(stats, _LABELS)
    known = dict(list(stats.labels.items())[:_LABELS])
    most = max((count for _, count in every), default=1)
    found = [
        _group("label", name, count, most, path, query)
        if name in known
        else Group(name, count, 100 * count / most, "", False)
        for name, count in every
    ]
    names = (name for name, _ in overview.shown_labels(stats, _LABELS))
    return [replace(group, name=name) for group, name in zip(found, names, strict=True)]


def outcomes(summary: Summary, path: str, query: Mapping[str, Any]) -> list[Group]:
    """Rows by outcome."""
    counts = {name: count for name, count in overview.outcome_counts(summary).items() if count}
    most = max(counts.values(), default=1)
    return [_group("outcome", name, count, most, path, query) for name, count in counts.items()]


def errors(summary: Summary, path: str, query: Mapping[str, Any]) -> list[Group]:
    """Rows by kind of error, each with the first one's message."""
    most = max((error.count for error in summary.errors), default=1)
    return [
        replace(_group("error", error.kind, error.count, most, path, query), more=error.message)
        for error in summary.errors
    ]


def _group(field: str, name: str, count: int, most: int, path: str, query: Mapping[str, Any]) -> Group:
    chosen = query.get(field) == name
    address = link(path, query, **{"first": None, field: None if chosen else name})
    return Group(name, count, round(100 * count / most, 1), f"{address}#results", chosen)
