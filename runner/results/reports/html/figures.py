"""The figures of a run as HTML: the verdict, statistics, distributions, gates."""

from __future__ import annotations

from collections.abc import Iterable

from runner.core.text import rows_of
from runner.engine.scoring import overview
from runner.engine.scoring.gates import figure
from runner.engine.scoring.summary import GateResult, Stats, Summary
from runner.results.reports.content import RunContent
from runner.results.reports.markup import html

CHIPS = {
    **{"passed": "good", "missed": "bad", "failed": "bad", "lost": "lost", "abstained": "warn"},
    **{"done": "good", "no verdict": "warn", "not judged": "warn"},
}
"""The colour of a chip, by its word."""

_NAME = 80
_LINE = 400
_HEIGHT = 100
_LABELS = 12
_GATES = 60
_JUDGED = {"passed": "passed", "failed": "failed", "unjudged": "not judged"}


def chip(word: str, kind: str | None = None) -> str:
    """A word in its colour; `kind` is the word that the colour is for, if it is another."""
    return f'<span class="chip {CHIPS.get(kind or word, "")}">{html(word, _NAME)}</span>'


def head(content: RunContent, name: str, number: int) -> str:
    """The title of a run, with its verdict, and where it comes from."""
    summary = content.summary
    found, words = content.verdict
    about = [f"version {summary.version}" if summary.version else "", summary.sandbox, content.source]
    facts = " · ".join(html(fact, 300) for fact in [*about, *(f"{k} {v}" for k, v in content.details)] if fact)
    return (
        f'<div class="top"><h2 id="title-{number}">{html(name, _NAME)}</h2>{chip(words, found)}</div>'
        f'<p>{html(overview.outcome_words(summary), _LINE)}</p><p class="meta">{facts}</p>'
    )


def problems(content: RunContent) -> str:
    """What is wrong, if something is, and notes, which look like notes."""
    wrong = [content.error] if content.error else []
    wrong += overview.errors(content.summary)
    items = "".join(f"<li>{html(line, _LINE)}</li>" for line in wrong[:40])
    items += "".join(f'<li class="note">{html(line, _LINE)}</li>' for line in content.notes[:40])
    return f'<ul class="problems">{items}</ul>' if items else ""


def outcomes(summary: Summary) -> str:
    """The outcomes as one bar, and in words."""
    counts = overview.outcome_counts(summary)
    parts, at = [], 0.0
    for name, count in counts.items():
        width = 1000 * count / max(1, summary.rows)
        parts.append(f'<rect class="is-{name}" x="{at:.2f}" width="{width:.2f}" height="10"/>' if count else "")
        at += width
    legend = "".join(
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect class="is-{name}" width="1" height="1"/></svg>'
        f"{count:,} {name}</li>"
        for name, count in counts.items()
    )
    return (
        '<h3>Outcomes</h3><svg class="outcomes" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
        f'{"".join(parts)}</svg><ul class="legend">{legend}</ul>'
    )


def statistics(summary: Summary, *, charted: bool = False) -> str:
    """
    The figures of the script's `aggregate`, and those of each output with their distributions.

    `charted`: who calls draws the distributions of the first output.
    """
    every = overview.outputs(summary)
    found = overview.aggregates(summary)
    parts = []
    if found:
        title = f"All rows together ({rows_of(summary.aggregate_rows or 0)})"
        parts.append(f"<h3>{html(title, _NAME)}</h3>{tiles((name, value, '') for name, value in found.items())}")
    if not found or any(stats.count or stats.labels for stats in every.values()):
        parts += [_output(name, stats, charts=at > 0 or not charted) for at, (name, stats) in enumerate(every.items())]
    return "".join(parts)


def _output(name: str, stats: Stats, *, charts: bool) -> str:
    title = f"<h3>{html(name, _NAME)}</h3>" if name else ""
    shown = [(of, value, "") for of, value in overview.figures(stats).items()]
    if passed := overview.pass_words(stats):
        shown.insert(0, ("passed", *passed))
    if shown:
        shown.append(("rows with a score", f"{stats.count:,}", ""))
    figures = tiles(shown) if shown else '<p class="dim">No row has a score.</p>'
    drawn = _histogram(stats) + _labels(stats) if charts else ""
    return f"{title}{figures}{f'<div class={chr(34)}charts{chr(34)}>{drawn}</div>' if drawn else ''}"


def tiles(shown: Iterable[tuple[str, str, str]]) -> str:
    """Figures with their names, and what there is to say beside them."""
    made = "".join(
        f"<div><dt>{html(of, _NAME)}</dt><dd>{html(value, 40)}"
        f"{f'<small>{html(more, 60)}</small>' if more else ''}</dd></div>"
        for of, value, more in shown
    )
    return f'<dl class="figures">{made}</dl>'


def _histogram(stats: Stats) -> str:
    histogram, bars = stats.histogram, overview.bars(stats.histogram, _HEIGHT)
    if histogram is None or not bars:
        return ""
    low, high = histogram.edges[0], histogram.edges[-1]
    drawn = "".join(
        f'<rect class="bar" x="{10 * n + 0.5}" y="{_HEIGHT - bar.height}" width="9" height="{bar.height}">'
        f"<title>{html(bar.words, 80)}</title></rect>"
        for n, bar in enumerate(bars)
        if bar.height
    )
    width, line = 10 * len(bars), ""
    if stats.threshold is not None and low <= stats.threshold <= high:
        at = width * _share(stats.threshold, low, high)
        line = f'<line class="threshold" x1="{at:.2f}" x2="{at:.2f}" y1="0" y2="{_HEIGHT}"/>'
    title = f"Scores from {figure(low)} to {figure(high)} in {len(bars)} bins"
    rows = "".join(
        f'<tr><td>{figure(a)} to {figure(b)}</td><td class="number">{count:,}</td></tr>'
        for a, b, count in zip(histogram.edges, histogram.edges[1:], histogram.counts, strict=False)
        if count
    )
    return (
        f'<div><h3>Scores</h3><svg class="histogram" viewBox="0 0 {width} {_HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{html(title, 200)}">{drawn}{line}</svg>'
        f'<div class="scale"><span>{figure(low)}</span>{_threshold(stats)}<span>{figure(high)}</span></div>'
        f'<details><summary class="dim">The same as a table</summary><table><thead><tr><th scope="col">score</th>'
        f'<th scope="col" class="number">rows</th></tr></thead><tbody>{rows}</tbody></table></details></div>'
    )


def _threshold(stats: Stats) -> str:
    return "" if stats.threshold is None else f"<span>threshold {figure(stats.threshold)}</span>"


def _share(value: float, low: float, high: float) -> float:
    # The span itself may be beyond a float.
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _labels(stats: Stats) -> str:
    every = overview.shown_labels(stats, _LABELS)
    if not every:
        return ""
    most = max(count for _, count in every)
    rows = "".join(
        f'<tr><td>{html(label, _NAME)}</td><td class="meter"><svg viewBox="0 0 100 1" preserveAspectRatio="none" '
        f'aria-hidden="true"><rect class="bar" width="{100 * count / most:.1f}" height="1"/></svg></td>'
        f'<td class="number">{count:,}</td></tr>'
        for label, count in every
    )
    return (
        '<div><h3>Labels</h3><table><thead><tr><th scope="col">label</th><td></td>'
        f'<th scope="col" class="number">rows</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def gates(summary: Summary) -> str:
    """The gates, those first that did not pass."""
    if not summary.gates:
        return ""
    order = sorted(summary.gates, key=lambda gate: gate.verdict == "passed")
    rows = "".join(map(_gate, order[:_GATES]))
    more = f"<p>{len(order) - _GATES:,} more gates are not shown.</p>" if len(order) > _GATES else ""
    return (
        '<h3>Gates</h3><table class="gates"><thead><tr><th scope="col">gate</th><th scope="col">verdict</th>'
        f'<th scope="col" class="number">value</th></tr></thead><tbody>{rows}</tbody></table>{more}'
    )


def _gate(gate: GateResult) -> str:
    value = "" if gate.value is None else figure(gate.value)
    remark = overview.gate_remark(gate)
    words = f'<p class="meta">{html(remark, _LINE)}</p>' if remark else ""
    start = "required: " if gate.required else ""
    return (
        f'<tr><td>{start}<span class="value">{html(gate.gate, 200)}</span>{words}</td>'
        f'<td>{chip(_JUDGED[gate.verdict])}</td><td class="number">{value}</td></tr>'
    )
