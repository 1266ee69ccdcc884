"""Pages of datasets."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from runner.server.v1.parts import Here
from runner.server.web import forms
from runner.server.web.render import page

router = APIRouter()
_ROWS = 20
_LISTED = 100


@router.get("/datasets/{name}")
async def shown(request: Request, service: Here, name: str, first: str = "1") -> Response:
    """A dataset's rows, some at a time."""
    dataset = await service.dataset(name)
    at = forms.whole_number(first, "the first row")
    found = await service.dataset_rows(name, at, _ROWS + 1)
    more = len(found.rows) > _ROWS
    return page(
        request,
        "dataset.html",
        dataset=dataset,
        found=found.model_copy(update={"rows": found.rows[:_ROWS]}),
        count=_ROWS,
        more=more,
        evaluators=(await service.evaluators(count=_LISTED)).items,
    )


@router.post("/datasets/{name}/delete")
async def delete(service: Here, name: str) -> Response:
    """Delete a dataset that no run uses."""
    await service.delete_dataset(name)
    return RedirectResponse("/", 303)
