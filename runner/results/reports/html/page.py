"""The whole page: one file with its styles and its script, which the browser lets do nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from runner.core.text import rows_of
from runner.core.version import installed_version
from runner.engine.scoring import overview
from runner.results.reports import comparison
from runner.results.reports.content import SHOWN_ROWS, Part, RunContent, distinct, with_comparisons
from runner.results.reports.html import figures, rows
from runner.results.reports.html.comparison import comparison_html
from runner.results.reports.markup import html

LIMIT = 1_000_000
"""Bytes of a page."""

_FIXED = 30_000  # bytes of what is around the runs: styles, script, head
_SHARE = 0.55  # of what is left beside the figures, for the rows in full
_NAME = 80


def html_report(parts: Sequence[Part]) -> str:
    """Return the report of these runs and comparisons."""
    contents = with_comparisons(parts)
    room = (LIMIT - _FIXED) // max(1, len(contents))
    every = distinct(contents)
    runs = "".join(_section(content, every[at], at + 1, room) for at, content in enumerate(contents))
    names = [html(name, _NAME) for name in every]
    title = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    main = f"{_overview(contents, every)}{runs}"
    return page_of(title, main, _nav(contents, names), heading=f"Evaluation: {title}", script=_asset("page.js"))


def page_of(title: str, main: str, nav: str = "", *, heading: str = "", script: str = "") -> str:
    """
    Return a whole page, which loads nothing.

    Args:
        title: Its name, as HTML.
        main: What it shows, as HTML.
        nav: Links within it, as HTML.
        heading: Its first line, as HTML, if that is not the title.
        script: All that it may run.
    """
    style = _asset("page.css")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    made = f"evalcell {installed_version() or ''}".strip()
    run = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f'<link rel="icon" href="data:,"><title>{title} · evalcell</title>\n<style>{style}</style></head>\n<body>'
        f'<a class="skip" href="#run-1">Skip to the results</a>\n<header>'
        f"<h1>{heading or title}</h1>{nav}</header>\n"
        f"<main>{main}</main>\n<footer><p>Made by {html(made, 60)}.</p></footer>\n"
        f"{run}</body></html>\n"
    )


def _nav(contents: Sequence[Part], names: Sequence[str]) -> str:
    if len(contents) < 2:
        return ""
    links = "".join(
        f'<li><a href="#run-{number}">{names[number - 1]} {_chip(content)}</a></li>'
        for number, content in enumerate(contents, 1)
    )
    return f'<nav aria-label="Runs"><ul>{links}</ul></nav>'


def _overview(contents: Sequence[Part], names: Sequence[str]) -> str:
    """The runs side by side, if there are several."""
    runs = {name: one.summary for name, one in zip(names, contents, strict=True) if isinstance(one, RunContent)}
    if len(runs) < 2:
        return ""
    head = "".join(f'<th scope="col">{word}</th>' for word in overview.OVERVIEW)
    lines = []
    for row in overview.overview(runs):
        name, *words, gate = row.words()
        cells = "".join(f'<td class="number">{html(word, _NAME)}</td>' for word in words)
        lines.append(
            f'<tr><th scope="row">{html(name, _NAME)}</th>{cells}<td>{figures.chip(gate) if gate else ""}</td></tr>'
        )
    return (
        '<section class="overview" aria-labelledby="overview"><h2 id="overview">Overview</h2>'
        '<div class="scroll" role="region" tabindex="0" aria-label="All runs"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></section>"
    )


def _chip(content: Part) -> str:
    if isinstance(content, RunContent):
        return figures.chip(content.verdict.words, content.verdict.verdict)
    found = comparison.verdict(content)
    return figures.chip(found, comparison.CHIPS.get(found))


def _section(content: Part, name: str, number: int, room: int) -> str:
    if isinstance(content, RunContent):
        return _run(content, name, number, room)
    return comparison_html(content, name, number)


def _run(content: RunContent, name: str, number: int, room: int) -> str:
    summary = content.summary
    parts = [
        figures.head(content, name, number),
        figures.problems(content),
        figures.gates(summary),
        figures.statistics(summary),
        figures.groups(summary),
        figures.outcomes(summary),
        figures.judges(summary),
    ]
    room -= sum(len(part.encode()) for part in parts) + 4_000
    cards, full = rows.in_full(content.shown.rows[: SHOWN_ROWS[".html"]], int(room * _SHARE))
    table, listed = rows.every(content, number, room - len(cards.encode()))
    if content.listed or cards:
        parts.append(rows.search(rows.verdicts(content), number))
    if cards:
        parts.append(f"<h3>{html(content.shown.title, _NAME)} ({full})</h3>\n{cards}")
        parts.append('<p class="more" hidden><button type="button">Show more</button></p>')
    if content.listed:
        parts.append(table)
        if listed < summary.rows:
            parts.append(f'<p class="dim">The first {listed:,} of {rows_of(summary.rows)} are listed.</p>')
    return f'<section class="run" id="run-{number}" aria-labelledby="title-{number}">{"".join(parts)}</section>'


@cache
def _asset(name: str) -> str:
    return files("runner.results.reports.html").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
