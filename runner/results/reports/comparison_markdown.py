"""A comparison as Markdown: the verdict and its figures, and the rows that got worse in a fold."""

from __future__ import annotations

from runner.engine.scoring.gates import figure
from runner.engine.scoring.shown_rows import safe_apart
from runner.results.compare.types import ChangedRow, Comparison, Difference
from runner.results.reports import comparison
from runner.results.reports.content import name_of
from runner.results.reports.markup import ICONS, code, markdown, pair
from runner.results.reports.room import END, Room

_NAME = 80
_LINE = 400
_CELL = 600
_DIFFERENCE = 100
_LABELS = 20


def comparison_markdown(model: Comparison, room: Room) -> None:
    """Add the comparison, as far as there is room."""
    found = comparison.verdict(model)
    icon = ICONS[comparison.CHIPS.get(found, "no verdict")]
    room.add(f"\n### {icon} {markdown(name_of(model), _NAME)}: {found}\n\n")
    room.add(f"{markdown(comparison.sentence(model), _LINE)}\n\n")
    room.add(f"base {markdown(model.base.name, _NAME)}, new {markdown(model.new.name, _NAME)}\n\n")
    room.add("| figure | |\n|---|---|\n", END)
    room.lines((f"| {_named(name)} | {value} |\n" for name, value in comparison.facts(model) if value), room.half)
    if lines := comparison.lines(model):
        room.add("\n", END)
        room.lines((f"- {markdown(line, _LINE)}\n" for line in lines), room.half)
    for title, parts in comparison.tables(model):
        head = f"\n| {markdown(title, _NAME)} | {' | '.join(comparison.COLUMNS)} | |\n{'|---' * 7}|\n"
        if room.add(head, room.half):
            room.lines(map(_part, safe_apart(list(parts)), parts.values()), room.half)
    if model.labels and room.add("\n| label before | label now | rows |\n|---|---|---|\n", room.half):
        some = comparison.labels(model, _LABELS)
        room.lines((f"| {markdown(a, _NAME)} | {markdown(b, _NAME)} | {rows:,} |\n" for a, b, rows in some), room.half)
    if model.worst and room.add(
        f"\n<details><summary>Rows that got worse ({len(model.worst)})</summary>\n<table>\n", 2 * END
    ):
        room.lines(map(_row, model.worst), END)
        room.add("</table>\n</details>\n")


def _named(name: str) -> str:
    """The name as it is, if it is made of letters; that of a script's figure may be anything."""
    return name if all(part.isalnum() or part in "% /." for part in name) else markdown(name, _NAME)


def _part(name: str, part: Difference) -> str:
    return f"| {markdown(name, _NAME)} | {' | '.join(comparison.cells(part))} | {comparison.verdict(part)} |\n"


def _row(row: ChangedRow) -> str:
    change = f"{figure(row.base_score)} → {figure(row.new_score)}"
    lines = [f'<tr><td colspan="2"><b>row {code(row.id, _NAME)} · score {change}</b></td></tr>']
    if row.base_label or row.new_label:
        lines.append(pair(row.base_label, row.new_label, _NAME))
    if row.differences:
        for one in row.differences:
            lines.append(f'<tr><td colspan="2">{code(one.path, _NAME)}</td></tr>')
            lines.append(pair(one.reference, one.output, _DIFFERENCE))
    elif row.base_text or row.new_text:
        lines.append("<tr><td>base</td><td>new</td></tr>")
        lines.append(pair(row.base_text, row.new_text, _CELL))
    if row.reference:
        lines.append(f'<tr><td colspan="2">reference {code(row.reference, _CELL)}</td></tr>')
    if row.base_remark or row.new_remark:
        lines.append(pair(row.base_remark, row.new_remark, _CELL // 2))
    return "\n".join(lines) + "\n"
