"""Tables and lines that the command line prints. All text in them is data, never markup."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from runner.core.text import rows_of
from runner.engine.scoring import overview
from runner.engine.scoring.gates import figure, gate_words, missing_rows
from runner.engine.scoring.groups import too_many_words
from runner.engine.scoring.overview import aggregates, figures
from runner.engine.scoring.shown_rows import ShownRow, safe
from runner.engine.scoring.summary import GateResult, Stats, Summary

LINE = 400
"""Characters of what is said on one line."""
ERROR = 1000
"""Characters of an error that is shown in full: its end is the next step."""

_OUTCOME_STYLES = {"failed": "red", "lost": "red", "abstained": "yellow"}
_DIRECTIONS = {"minimize": "lower is better", "maximize": "higher is better"}


class Terminal(Console):
    """A console that takes no markup."""

    def __init__(self, file: IO[str]) -> None:
        width = None if file.isatty() or "COLUMNS" in os.environ else 80
        super().__init__(file=file, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)

    def say(self, words: Text) -> None:
        """Print a message on one line, however long: a wrapped message is hard to search for or to copy."""
        self.print(words, soft_wrap=True)


def out() -> Terminal:
    """Return the console of standard output, for results."""
    return Terminal(sys.stdout)


def err() -> Terminal:
    """Return the console of standard error, for everything else."""
    return Terminal(sys.stderr)


def text(words: str, style: str = "", limit: int = LINE) -> Text:
    """Return data, safe to print, cut after `limit` characters."""
    return Text(safe(words, limit), style=style)


def table(*headers: str) -> Table:
    """Return an empty table that reads well in 80 columns."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for header in headers:
        made.add_column(header, overflow="fold")
    return made


def facts(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Return a table of names and values, one pair a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), value)
    return grid


def block(head: Text, rows: Iterable[tuple[str, str, Text]]) -> RenderableType:
    """Return a head, and below it fields, each with names and what stands there."""
    grid = Table.grid(padding=(0, 2))
    for width in (24, 28):
        grid.add_column(no_wrap=True, max_width=width, overflow="ellipsis")
    grid.add_column(overflow="fold")
    for field, name, value in rows:
        grid.add_row(text(field), text(name), value)
    return Group(head, Padding(grid, (0, 0, 1, 2), expand=False))


def rows_table(entries: Sequence[ShownRow]) -> Table:
    """Return a table of single results: outcome, score, label, and explanation or error."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    made.add_column("row", max_width=22, no_wrap=True, overflow="ellipsis")
    made.add_column("outcome", no_wrap=True)
    made.add_column("score", justify="right", no_wrap=True)
    if any(e.label for e in entries):
        made.add_column("label", max_width=16, no_wrap=True, overflow="ellipsis")
    made.add_column("explanation or error", overflow="fold")
    for e in entries:
        cells = [
            Text(e.id),
            outcome(e),
            Text("" if e.score is None else figure(e.score), style=passed_style(e)),
        ]
        if any(other.label for other in entries):
            cells.append(Text(e.label))
        made.add_row(*cells, Text(e.remark))
    return made


def summary_view(summary: Summary) -> RenderableType:
    """Return all figures, each with the number of rows behind it."""
    from runner.cli.views.charts import charts, outcome_bar  # not for a run that is to be quiet

    rows: list[tuple[str, RenderableType]] = []
    if summary.evaluator:
        rows.append(("evaluator", text(f"{summary.evaluator}, version {summary.version}")))
        rows.append(("sandbox", text(summary.sandbox)))
    rows.append(("rows", _outcomes(summary)))
    if summary.rows:
        rows.append(("", outcome_bar(summary)))
    if summary.unstable is not None and summary.unstable_rate is not None:
        words = f"{summary.repeat:,} of each row; {summary.unstable:,} of {rows_of(summary.rows)} did not repeat"
        style = "yellow" if summary.unstable else "green"
        rows.append(("repeats", text(f"{words} ({summary.unstable_rate:.1%})", style)))
        rows += [(name, Text(words)) for name, words in overview.repeat_words(summary)]
    if summary.cached is not None:
        of = summary.rows * summary.repeat
        rows.append(("cached", text(f"{summary.cached:,} of {of:,} scores are of earlier runs")))
    if summary.extracted:
        rows.append(("json", text(overview.extracted_words(summary))))
    if summary.by_column is not None and not summary.by and summary.rows:
        rows.append(("by column", text(too_many_words(summary.by_column), "yellow")))
    if summary.failed or summary.lost:
        rows.append(("left out", text(f"{missing_rows(summary)}: in neither the mean nor any other score", "red")))
    for name, stats in (summary.outputs or {"": summary}).items():
        prefix = f"{safe(name, 20)} " if name else ""
        rows += _stats(prefix, stats)
        rows += [(f"{prefix}{word}".rstrip(), chart) for word, chart in charts(stats)]
    rows += _aggregates(summary)
    for number, error in enumerate(summary.errors):
        words = f"{error.kind} {error.count:,}, as in row {safe(error.example, 40)}: {error.message}"
        rows.append(("errors" if not number else "", text(words, "red", ERROR)))
    if summary.stop is not None:
        rows.append(("stopped" if summary.stop.sure else "stop", text(overview.stop_words(summary.stop), "green")))
        if summary.stop.ci_low is not None and summary.stop.ci_high is not None:
            ends = f"{figure(summary.stop.ci_low)} to {figure(summary.stop.ci_high)}"
            rows.append(("", text(f"mean of all {rows_of(summary.stop.rows)}: {ends} (95% interval)")))
    for number, words in enumerate(overview.judge_lines(summary)):
        rows.append(("judges" if not number else "", text(words)))
    if summary.seconds is not None and summary.rows_per_second is not None:
        # None are new where a run that had ended was resumed.
        rate = f", {summary.rows_per_second:,.0f} rows/s" if summary.rows_per_second else ""
        rows.append(("time", Text(f"{summary.seconds:,.1f} s{rate}")))
    return Group(facts(rows), groups_view(summary)) if summary.by else facts(rows)


def overview_view(summaries: Mapping[str, Summary]) -> RenderableType:
    """Return a table of several runs, one line each."""
    made = table(*overview.OVERVIEW)
    for column in made.columns[1:5]:
        column.justify = "right"
    styles = {"failed": "bold red", "not judged": "yellow", "passed": "green"}
    for row in overview.overview(summaries):
        name, *figures_, gate = row.words()
        made.add_row(text(name), *map(Text, figures_), Text(gate, style=styles.get(gate, "")))
    return made


def groups_view(summary: Summary) -> RenderableType:
    """Return a table of the groups, the worst first; empty without any."""
    from runner.cli.views.charts import small_histogram

    if not summary.by:
        return Text()
    made = table(safe(summary.by_column or "", 40), *overview.GROUPS, "scores")
    for column in made.columns[1:5]:
        column.justify = "right"
    for name, group in summary.by.items():
        *cells, failed = overview.group_words(group)
        style = "red" if group.failed + group.lost else ""
        made.add_row(text(name, limit=40), *map(Text, cells), Text(failed, style), small_histogram(group.histogram))
    return made


def gate_line(result: GateResult, of: str = "") -> Text:
    """Return the line about a gate. `of` begins it: one of several evaluators."""
    step = "; fix them, or allow some with --max-failed 5%" if result.missing_rows else ""
    style = {"failed": "bold red", "unjudged": "yellow", "passed": "green"}[result.verdict]
    return text(f"{of}{gate_words(result)}{step}", style)


def _outcomes(summary: Summary) -> Text:
    line = Text(f"{summary.rows:,}: {summary.scored:,} scored")
    for name, count in (("abstained", summary.abstained), ("failed", summary.failed), ("lost", summary.lost)):
        line.append(", ")
        line.append(f"{count:,} {name}", style=_OUTCOME_STYLES[name] if count else "")
    return line


def _stats(prefix: str, stats: Stats) -> list[tuple[str, RenderableType]]:
    rows: list[tuple[str, RenderableType]] = []
    words = ", ".join(f"{name} {value}" for name, value in figures(stats).items())
    if not words:
        rows.append((f"{prefix}score", Text("no row has one")))
    else:
        better = f"; {_DIRECTIONS[stats.direction]}" if stats.direction in _DIRECTIONS else ""
        rows.append((f"{prefix}score", Text(f"{words} (of {stats.count:,}{better})")))
    if stats.passed is not None and stats.pass_rate is not None and stats.threshold is not None:
        style = "green" if stats.passed == stats.count else "red"
        share = f"{stats.passed:,} of {stats.count:,} ({stats.pass_rate:.1%})"
        words = f"{share}, threshold {figure(stats.threshold)}"
        rows.append((f"{prefix}passed", Text(words, style=style)))
    return rows


def _aggregates(summary: Summary) -> list[tuple[str, RenderableType]]:
    """The figures of the whole dataset, one a line, and why there are none, or one is missing."""
    rows: list[tuple[str, RenderableType]] = []
    if (error := summary.aggregate_error) is not None:
        rows.append(("aggregate", text(f"{error.kind}: {error.message}", "red", ERROR)))
    for name, value in aggregates(summary).items():
        first = len(rows) == (error is not None)
        of = f" (of {rows_of(summary.aggregate_rows or 0)})" if first else ""
        rows.append(("aggregate" if not rows else "", text(f"{name} {value}{of}")))
    return rows


def outcome(row: ShownRow) -> Text:
    """Say whether the row passed, or its outcome."""
    style = passed_style(row) if row.passed is not None else _OUTCOME_STYLES.get(row.outcome, "")
    return Text(row.verdict, style=style)


def passed_style(row: ShownRow) -> str:
    """Return the style of a row's score."""
    return "" if row.passed is None else "green" if row.passed else "red"
