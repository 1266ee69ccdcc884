"""One result on a page: its verdict, and output and reference side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from runner.reports.html.rows import beside, compared
from runner.results.json_diff import json_differences
from runner.results.summary import Stats, passes
from runner.server.web.render import fragment, value
from runner.store.types import RunInfo

_OWN = frozenset(
    ("number", "id", "repeat", "cached", "evaluator", "version", "sandbox", "given", "outcome", "label", "score")
) | {"explanation", "error", "stdout", "truncated", "duration_ms", "outputs"}
_CUT = 1500


def card(run: RunInfo, row: Mapping[str, Any], *, whole: bool = False) -> Markup:
    """The row; `whole` with everything that is known of it."""
    columns = _columns(row)
    names = [name for name in ("output", "reference", *columns) if name in columns]
    pair = list(dict.fromkeys(names))[:2]
    values = [columns[name] for name in pair]
    differences = json_differences(*values) if len(values) == 2 else ()
    more = {name: given for name, given in columns.items() if name not in pair} if whole else {}
    if row.get("stdout"):
        more["printed"] = row["stdout"]
    if whole:
        more |= {name: row[name] for name in ("outputs", "sandbox", "version", "duration_ms") if row.get(name)}
    return fragment(
        "result_row.html",
        run=run,
        level="h2" if whole else "h3",
        row=row,
        verdict=_verdict(run.summary, row),
        names=pair,
        differences=differences,
        sides=_sides(pair, values, whole=whole),
        more=more,
    )


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the result carries of the dataset: a column of its own, or in a table a column each."""
    carried = row.get("row")
    return dict(carried) if isinstance(carried, dict) else {n: given for n, given in row.items() if n not in _OWN}


def _verdict(stats: Stats | None, row: Mapping[str, Any]) -> str:
    score = row.get("score")
    passed = passes(score, stats) if score is not None and stats is not None else None
    return str(row["outcome"]) if passed is None else "passed" if passed else "missed"


def _sides(names: list[str], values: list[Any], *, whole: bool) -> Markup:
    if not names:
        return Markup("")
    cut = 50 * _CUT if whole else _CUT
    texts = [value(given) for given in values]
    shown = compared(texts[0], texts[1], cut) if len(texts) == 2 else [fragment_text(text, cut) for text in texts]
    return Markup(beside(names, shown))


def fragment_text(text: str, cut: int) -> str:
    """A text as HTML, cut."""
    return str(Markup.escape(text if len(text) <= cut else text[: cut - 1] + "…"))
