"""What each report of a run tells, as words and numbers, before any markup: one source for pages and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from runner.core.text import printable, rows_of
from runner.engine.scoring.gates import figure, gate_words, missing_rows
from runner.engine.scoring.groups import too_many_words
from runner.engine.scoring.histogram import Histogram
from runner.engine.scoring.look_alikes import tell_apart
from runner.engine.scoring.summary import (
    EarlyStop,
    GateResult,
    GroupStats,
    JudgeUsage,
    ModelUsage,
    Stats,
    Summary,
)

ERRORS = 8
"""Kinds of errors that are told."""
OUTPUTS = 20
"""Named outputs that are told."""

_NAME = 60
_MODELS = 10

Verdict = Literal["done", "failed", "no verdict"]


def verdict(summary: Summary) -> Verdict:
    """Return the verdict of a finished run. A failed gate takes precedence over one that could not be judged."""
    gates = {result.verdict for result in summary.gates}
    if not summary.judged:
        return "no verdict"
    return "failed" if "failed" in gates else "no verdict" if "unjudged" in gates else "done"


def nothing_scored(summary: Summary) -> str:
    """Return why a run scored nothing, in words."""
    if not summary.rows:
        return "nothing was scored: the dataset has no rows"
    if (error := summary.aggregate_error) is not None:
        return f"nothing was scored; {error.kind} in aggregate: {error.message}"
    if not summary.errors:
        return f"nothing was scored: the script abstained on all of {rows_of(summary.rows)}"
    first = summary.errors[0]
    row = f"as in row {first.example}"
    return f"nothing was scored; {first.kind} in {rows_of(first.count)}, {row}: {first.message}"


def stop_words(stop: EarlyStop) -> str:
    """Return when a run was sure, by what rule and at what risk, and what was saved."""
    risk = "arithmetic cannot be wrong"
    if stop.alpha is not None and not (stop.sure and {*stop.rules} == {"arithmetic"}):
        among = f", over the {stop.tests} gates together (Holm)" if stop.tests > 1 else ""
        looks = "five looks were taken" if "five looks" in stop.rules else "every row was looked at"
        risk = f"wrong in {stop.alpha:.0%} of all cases at most{among}; valid although {looks}"
    if not stop.sure:
        return f"not sure before the last of {rows_of(stop.rows)}; {risk}"
    saved = f"{rows_of(stop.rows - stop.scored)} saved"
    saved += f" ({stop.scored - stop.row:,} more were running)" if stop.scored > stop.row else ""
    saved += f", and about {stop.judge_calls_saved:,} calls of judges" if stop.judge_calls_saved is not None else ""
    return f"sure after row {stop.row:,} of {stop.rows:,}, by {' and '.join(stop.rules)}: {saved}; {risk}"


class OverviewRow(NamedTuple):
    """One output of one of several runs, in short."""

    evaluator: str
    rows: int
    scored: int
    """Those with a score for this output."""
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    failed: int
    """Rows that failed or were lost."""
    gate: str | None
    """The verdict of the run's gates; None without any."""

    def words(self) -> list[str]:
        """Return the cells of a table, under `OVERVIEW`."""
        low, high = self.ci_low, self.ci_high
        interval = "" if low is None or high is None else f"{figure(low)} to {figure(high)}"
        mean = "" if self.mean is None else figure(self.mean)
        return [self.evaluator, f"{self.scored:,}", mean, interval, f"{self.failed:,}", self.gate or ""]


OVERVIEW = ("evaluator", "n", "mean", "95% interval", "failed", "gate")


def overview(summaries: Mapping[str, Summary]) -> list[OverviewRow]:
    """Return several runs side by side, by their names."""
    found = []
    for run, summary in summaries.items():
        gates = {result.verdict for result in summary.gates}
        gate = "failed" if "failed" in gates else "not judged" if "unjudged" in gates else "passed" if gates else None
        for name, stats in outputs(summary).items():
            figures_ = (stats.count, stats.mean, stats.ci_low, stats.ci_high, summary.failed + summary.lost, gate)
            found.append(OverviewRow(f"{run}.{name}" if name else run, summary.rows, *figures_))
    return found


GROUPS = ("n", "mean", "95% interval", "failed")
"""The figures of a group."""


def group_words(group: GroupStats) -> list[str]:
    """Return the cells of a table of groups, under `GROUPS`."""
    mean = "" if group.mean is None else figure(group.mean)
    return [f"{group.rows:,}", mean, interval_words(group), f"{group.failed + group.lost:,}"]


def outcome_counts(summary: Summary) -> dict[str, int]:
    """Return the rows by outcome."""
    return {
        "scored": summary.scored,
        "abstained": summary.abstained,
        "failed": summary.failed,
        "lost": summary.lost,
    }


def outcome_words(summary: Summary) -> str:
    """Return the rows, the time and the outcomes that there are, in words."""
    counts = outcome_counts(summary)
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "scored")
    speed = "" if summary.seconds is None else f" in {summary.seconds:,.1f} s"
    if summary.scored == summary.rows > 0:
        words = "all scored"
    return f"{summary.rows:,} rows{speed}: {words}{'; ' * bool(summary.extracted)}{extracted_words(summary)}"


def extracted_words(summary: Summary) -> str:
    """Return how many rows had their JSON in a fence or in prose; empty for none."""
    return f"JSON taken out of a fence or prose in {rows_of(summary.extracted)}" if summary.extracted else ""


def usage_words(usage: JudgeUsage | ModelUsage) -> str:
    """Say what judges were asked: calls, tokens, US dollars."""
    told = [f"{usage.calls:,} {'call' if usage.calls == 1 else 'calls'}"]
    told += [f"{usage.replayed:,} of them replayed"] if usage.replayed else []
    told += [f"{usage.tokens:,} tokens"] if usage.tokens else []
    told += [f"{_dollars(usage.usd)} US dollars"] if usage.usd else []
    return ", ".join(told)


def _dollars(usd: float) -> str:
    return f"{usd:,.2f}" if usd >= 0.01 else f"{usd:.2g}"


def judge_lines(summary: Summary) -> Iterator[str]:
    """Yield what the judges of a run were asked, in all and by model; nothing where there are none."""
    usage = summary.judges
    if usage is None:
        return
    told = [usage_words(usage)]
    told += [f"{usage.refused:,} refused by the budget"] if usage.refused else []
    told += [f"{usage.failed:,} without an answer"] if usage.failed else []
    only = next(iter(usage.models), "") if len(usage.models) == 1 else ""
    yield ", ".join(told) + (f" ({only})" if only else "")
    if not only:
        for name, one in list(usage.models.items())[:_MODELS]:
            yield f"{name}: {usage_words(one)}"


def errors(summary: Summary) -> Iterator[str]:
    """Yield what is wrong with rows: that none was scored, how many have no score, and each kind of error."""
    if not summary.judged:
        yield "nothing was scored" if summary.errors else nothing_scored(summary)
    if summary.by_column is not None and not summary.by and summary.rows:
        yield too_many_words(summary.by_column)
    if summary.failed or summary.lost:
        yield f"{missing_rows(summary)}: in neither the mean nor any other score"
    for error in summary.errors[:ERRORS]:
        yield f"{error.kind} {error.count:,}, as in row {printable(error.example, _NAME)}: {error.message}"
    if summary.aggregate_error is not None and summary.judged:
        yield f"aggregate: {summary.aggregate_error.kind}: {summary.aggregate_error.message}"


def problems(summary: Summary) -> Iterator[str]:
    """Yield what is wrong: rows, then gates that did not pass."""
    yield from errors(summary)
    yield from (gate_words(gate) for gate in summary.gates if gate.verdict != "passed")


def gate_remark(gate: GateResult) -> str:
    """Return what there is to say of a gate beside its verdict and value; else nothing."""
    named = f"{'required' if gate.required else 'gate'} {gate.gate!r}"
    return gate_words(gate).removeprefix(named).lstrip(": ") if gate.calls_for_words else ""


def outputs(summary: Summary) -> Mapping[str, Stats]:
    """Return the first outputs' statistics by name; a single output has the empty name."""
    return dict(list((summary.outputs or {"": summary}).items())[:OUTPUTS])


def numbers(stats: Stats) -> dict[str, float]:
    """Return mean, median, min and max, as far as there are any."""
    named = {"mean": stats.mean, "median": stats.median, "min": stats.min, "max": stats.max}
    return {name: value for name, value in named.items() if value is not None}


def figures(stats: Stats) -> dict[str, str]:
    """Return the same, as people read them."""
    return {name: figure(value) for name, value in numbers(stats).items()}


def interval_words(stats: Stats) -> str:
    """Return the 95 % interval on the mean; empty without one."""
    return "" if stats.ci_low is None or stats.ci_high is None else f"{figure(stats.ci_low)} to {figure(stats.ci_high)}"


def aggregates(summary: Summary) -> dict[str, str]:
    """Return the figures of the script's `aggregate`, over `summary.aggregate_rows` rows."""
    return {name: "undefined" if value is None else figure(value) for name, value in summary.aggregates.items()}


def pass_words(stats: Stats) -> tuple[str, str] | None:
    """Return the share that passed, and the number and the threshold; None without a threshold."""
    if stats.passed is None or stats.pass_rate is None or stats.threshold is None:
        return None
    return f"{stats.pass_rate:.1%}", f"{stats.passed:,}, threshold {figure(stats.threshold)}"


def repeat_words(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield pass@k and pass^k, for each k, by their names; nothing where nobody knows what passes."""
    for name, field in (("pass@k", "pass_at"), ("pass^k", "pass_all")):
        told = []
        for one in summary.repeat_passes:
            low, high = getattr(one, f"{field}_ci_low"), getattr(one, f"{field}_ci_high")
            between = "" if low is None else f" ({figure(low)} to {figure(high)})"
            told.append(f"k={one.k}: {figure(getattr(one, field))}{between}")
        if told:
            yield name, ", ".join(told)


class Bar(NamedTuple):
    """One bar of a histogram."""

    height: int
    words: str


def bars(histogram: Histogram | None, height: int) -> list[Bar]:
    """Return the bars, the longest of this height; none where all scores are the same."""
    if histogram is None or len(histogram.counts) < 2:
        return []
    most = max(1, *histogram.counts)
    return [
        # One row among very many is still seen.
        Bar(0 if not count else max(2, round(height * count / most)), f"{figure(low)} to {figure(high)}: {count:,}")
        for count, low, high in zip(histogram.counts, histogram.edges, histogram.edges[1:], strict=False)
    ]


def labels(stats: Stats, most: int) -> list[tuple[str, int]]:
    """Return the most frequent labels with their counts, and the rest as `others`."""
    if not stats.labels:
        return []
    every = list(stats.labels.items())
    others = stats.other_labels + sum(count for _, count in every[most:])
    return [*every[:most], *([("others", others)] if others else [])]


def shown_labels(stats: Stats, most: int) -> list[tuple[str, int]]:
    """Return the same, with those that look alike in quotes, and what tells them apart escaped."""
    found = labels(stats, most)
    return list(zip(tell_apart([label for label, _ in found]), (count for _, count in found), strict=True))
