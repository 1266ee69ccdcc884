"""The page that compares two runs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from runner.reports.html.comparison import comparison_html
from runner.server.v1.parts import Here
from runner.server.web.render import page
from runner.service.errors import problem_or_raise
from runner.store.types import RunInfo

router = APIRouter()
_LISTED = 200


def name(run: RunInfo) -> str:
    """What people know a run by."""
    return run.title or run.evaluator + (f"@{run.number}" if run.number else "")


@router.get("/compare")
async def compare(request: Request, service: Here, base: str = "", new: str = "") -> Response:
    """The verdict in words with its interval, and the rows that got worse."""
    made, detail = Markup(""), ""
    if base and new:
        try:
            found = await service.compare(base, new)
            # It escapes everything of a script or a row itself, as the reports do.
            sides = [await service.run(side) for side in (base, new)]
            made = Markup(comparison_html(found, " and ".join(map(name, sides)), 1))
        except Exception as error:
            detail = problem_or_raise(error).detail
    runs = (await service.runs(count=_LISTED)).items
    ended = [run for run in runs if run.state not in ("queued", "running")]
    return page(
        request,
        "compare.html",
        base=base,
        new=new,
        runs=ended,
        ids=[run.id for run in ended],
        made=made,
        detail=detail,
    )
