"""The page that compares two runs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from runner.core.errors import InputError
from runner.core.text import printable
from runner.results.compare.runs import FLIPS, FlipPage
from runner.results.compare.types import Flip, Flips
from runner.results.reports.html.comparison import both_sides, comparison_html
from runner.results.store.types import GOING, MOST_DEEP
from runner.server.http.route import PageRoute
from runner.server.http.v1.parts import Here, while_there
from runner.server.http.web import forms
from runner.server.http.web.render import page
from runner.server.service.errors import problem_or_raise

router = APIRouter(route_class=PageRoute)
_LISTED = 200
_ROWS = 10
_WORDS: dict[Flip, str] = {
    "outcome": "another outcome",
    "worse": "worse",
    "label": "another label alone",
    "changed": "another score",
    "better": "better",
}


@router.get("/compare")
async def compare(
    request: Request, service: Here, base: str = "", new: str = "", flip: str = "", first: str = "1"
) -> Response:
    """Return the verdict in words with its interval, and the rows that flipped."""
    made, detail = Markup(""), ""
    found: dict[str, Any] = {"flips": None, "kinds": (), "first": 1}
    if base and new:
        try:
            at = forms.whole_number(first or "1", "the first row", high=MOST_DEEP)
            comparison, flips = await while_there(
                request, service.flips, base, new, FlipPage(_kind(flip), at - 1, _ROWS)
            )
            # It escapes everything of a script or a row itself, as the reports do. Its worst rows are among the flips.
            sides = [await service.run(side) for side in (base, new)]
            shown = comparison.model_copy(update={"worst": ()})
            made = Markup(comparison_html(shown, f"{sides[1].name}, compared with {sides[0].name}", 1))
            found = {"flips": flips, "kinds": _kinds(flips), "first": at}
        except Exception as error:
            detail = problem_or_raise(error).detail
    runs = (await service.runs(count=_LISTED)).items
    ended = [run for run in runs if run.state not in GOING]
    return page(
        request,
        "compare.html",
        base=base,
        new=new,
        flip=flip,
        runs=ended,
        ids=[run.id for run in ended],
        made=made,
        detail=detail,
        both_sides=lambda row: Markup(both_sides(row)),
        rows=_ROWS,
        **found,
    )


def _kind(flip: str) -> Flip | None:
    known = next((one for one in FLIPS if one == flip), None)
    if flip and known is None:
        raise InputError(f"there are no rows of the kind {printable(flip, 40)!r}; open the comparison anew")
    return known


def _kinds(flips: Flips) -> list[tuple[Flip, str, int]]:
    """The kinds that there are, each with its words and how many rows."""
    return [(kind, _WORDS[kind], flips.counts[kind]) for kind in FLIPS if kind in flips.counts]
