"""Rows with what `evaluate` was given, side by side, as wide as the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from runner.cli.views.render import outcome, passed_style
from runner.core.text import printable, rows_of
from runner.core.types import Direction, Evaluator, JudgeExchange
from runner.engine.scoring.gates import figure
from runner.engine.scoring.shown_rows import ShownRow, ShownRows, assumed_direction
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.column_suggestions import is_lower_better
from runner.inputs.evaluators.header import COMMENTS

LINES = 6
"""Lines of a text that are shown."""
EXCHANGES = 3
"""Exchanges with judges that are shown of a row."""
EXCHANGE_LINES = 3
DIFFERENCES = 4
"""Places of JSON that are shown."""
_SAME = "the same error"
_GOOD = frozenset(
    (
        "true",
        "yes",
        "y",
        "pass",
        "passed",
        "correct",
        "right",
        "good",
        "ok",
        "valid",
        "relevant",
        "equal",
        "safe",
        "clean",
    )
)
_BAD = frozenset(
    ("false", "no", "n", "fail", "failed", "incorrect", "wrong", "bad", "invalid", "irrelevant", "unequal")
)


def rows_view(rows: ShownRows, width: int) -> RenderableType:
    """Return the rows under their title."""
    parts: list[RenderableType] = []
    for before, row in zip((None, *rows.rows), rows.rows, strict=False):
        same = before is not None and row.kind is not None and row.remark == before.remark
        parts += _row(row.model_copy(update={"remark": _SAME}) if same else row, width)
    return Group(Text(rows.title, style="bold"), *parts, Text(""))


def not_shown(rows: ShownRows, summary: Summary) -> Text:
    """Return how many rows without a score are not among those that are shown, and the option that shows them."""
    counts = {"failed": summary.failed + summary.lost, "abstained": summary.abstained}
    for row in rows.rows:
        name = "failed" if row.outcome == "lost" else row.outcome
        counts[name] = counts.get(name, 0) - 1
    words = {"failed": "failed or were lost" if summary.failed else "were lost"} if summary.lost else {}
    lines = [
        f"not shown: {rows_of(counts[name])} that {words.get(name, name)} (--show {name})\n"
        for name in counts
        if counts[name] > 0
    ]
    return Text("".join(lines), style="dim")


def names_hint(evaluator: Evaluator, summary: Summary) -> Text:
    """Return the lines by which a file of columns has the outputs that a script of another tool names itself."""
    mark = COMMENTS[evaluator.language]
    names = [
        f'{mark} {json.dumps(name, ensure_ascii=False)} = {{kind = "freeform"}}' for name in summary.outputs if name
    ]
    lines = [f"{mark} /// script", f"{mark} [tool.evalcell.outputs]", *names[:10], f"{mark} ///"]
    words = "The file has no columns for outputs that only the script names. Name them in its header:"
    return Text("\n".join([words, *(f"  {printable(each, 300)}" for each in lines)]), style="dim")


def direction_hint(evaluator: Evaluator, summary: Summary, assumed: Direction | None) -> Text:
    """Return the line that makes the worst rows known. `assumed` is what they are ranked by."""
    mark = COMMENTS[evaluator.language]
    name, config = next(iter(evaluator.outputs.items()), ("", None))
    table = f"outputs.{name}" if name else "output"
    lower = (assumed or assumed_direction(evaluator)) == "minimize"
    if summary.count:
        kind = "continuous" if config is None else config.kind
        line = f'{table} = {{kind = "{kind}", direction = "{"minimize" if lower else "maximize"}"}}'
        either = f', or "{"maximize" if lower else "minimize"}" where {"higher" if lower else "lower"} is better'
    else:
        own = list(summary.labels)[:4]
        pair = next((pair for pair in _TRUTHS if pair >= {*own}), None)  # one may be in no row
        labels = sorted(pair or own, key=lambda one: 2 - _rank(one) if lower else _rank(one))
        scores = [f"{json.dumps(one)} = {int(n == 0 and (lower or _rank(one) < 2))}" for n, one in enumerate(labels)]
        line = f'{table} = {{kind = "categorical", labels = {{{", ".join(scores)}}}}}'
        either = ", with 1 for the label that is good, and 0 for one that is bad" if lower or _rank(labels[0]) else ""
    better = f"{'Lower' if lower else 'Higher'} is assumed to be better; gates and verdicts need to know."
    why = better if summary.count else "Which labels are the worst is not known."
    where = "below [tool.evalcell] in its header" if config is not None else "in a header"
    words = f"{why} Say it in the script, {where}{either}:"
    lines = [f"{mark} {line}"]
    if config is None:
        lines = [f"{mark} /// script", f"{mark} [tool.evalcell]", *lines, f"{mark} ///"]
    return Text("\n".join([words, *(f"  {printable(each, 300)}" for each in lines), ""]), style="dim")


_TRUTHS = ({"True", "False"}, {"true", "false"})


def _rank(label: str) -> int:
    """0 for a label that says by its name that all is well, 2 for one that says the opposite, 1 for others."""
    word = label.strip().casefold()
    return 0 if word in _GOOD else 2 if word in _BAD or is_lower_better(word) else 1


def _row(row: ShownRow, width: int) -> Iterator[RenderableType]:
    head = Text.assemble("\n", (row.id, "bold"), "  ", outcome(row))
    if row.score is not None:
        head.append(f"  score {figure(row.score)}", style=passed_style(row))
    if row.label:
        head.append(f"  {row.label}")
    yield head
    if row.differences:
        some = [(d.path.removeprefix("$."), d.output, d.reference) for d in row.differences[:DIFFERENCES]]
        if len(row.differences) > DIFFERENCES:
            some.append(("…", "…", "…"))
        yield _side_by_side(row, some, width)
    elif row.arguments:
        yield _side_by_side(row, [("", *row.arguments.values())], width)
    if row.remark:
        yield Padding(Text(row.remark, style="dim"), (0, 0, 0, 2))
    for one in row.exchanges[:EXCHANGES]:
        yield Padding(_exchange(one, width), (0, 0, 0, 2))
    if (more := len(row.exchanges) - EXCHANGES) > 0:
        yield Padding(Text(f"and {more} more; the results file has them (-o)", style="dim"), (0, 0, 0, 2))


def _exchange(one: JudgeExchange, width: int) -> RenderableType:
    """What a judge was asked and answered, each in a few lines of which both ends are shown."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    room = max(40, width - 16) * EXCHANGE_LINES
    for word, value in (("asked", one.asked), ("answered", one.answered)):
        half = room // 2 - 2
        text_ = value if len(value) <= room else f"{value[:half]} … {value[-half:]}"
        grid.add_row(Text(word, style="dim"), Text(text_))
    return grid


def _side_by_side(row: ShownRow, lines: Sequence[tuple[str, ...]], width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    places = any(line[0] for line in lines)
    if places:
        grid.add_column(max_width=width // 3, overflow="fold")
    for _ in row.arguments:
        grid.add_column(ratio=1, overflow="fold")
    grid.add_row(*([""] if places else []), *(Text(name, style="dim") for name in row.arguments))
    room = max(20, (width - 4 - (width // 3 if places else 0)) // max(1, len(row.arguments)) - 2) * LINES
    for place, *values in lines:
        cells = [Text(value if len(value) <= room else f"{value[: room - 1]}…") for value in values]
        grid.add_row(*([Text(_in_lines(place, width // 3), style="dim")] if places else []), *cells)
    return Padding(grid, (0, 0, 0, 2))


def _in_lines(path: str, width: int) -> str:
    """A path, broken before a part of it where it has no room."""
    lines = [""]
    for part in re.findall(r"\.?(?:[^.\[]|\[[^\]]*\])+|.", path):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
