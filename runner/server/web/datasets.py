"""Pages of datasets."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from runner.server.route import PageRoute
from runner.server.v1.parts import Here, while_there
from runner.server.web import draft as drafts
from runner.server.web import forms
from runner.server.web.draft import EMPTY
from runner.server.web.render import page
from runner.service.errors import ServiceError

router = APIRouter(route_class=PageRoute)
_ROWS = 20
_LISTED = 100
_TRIED = 5
"""Evaluators that are tried on a dataset until one can score it."""


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


@router.get("/datasets/{name}/rows/{number}")
async def row(request: Request, service: Here, name: str, number: str) -> Response:
    """One row of a dataset, whole."""
    dataset = await service.dataset(name)
    found = await service.dataset_rows(name, forms.whole_number(number, "the row"), 2)
    if not found.rows:
        raise ServiceError("not-found", f"the dataset has no row {number}; open the dataset")
    return page(request, "dataset_row.html", dataset=dataset, row=found.rows[0], more=len(found.rows) > 1)


@router.get("/datasets/{name}/tried")
async def tried(request: Request, service: Here, name: str) -> Response:
    """The first rows, tried with the evaluator saved last that can score them: a part of the dataset's page."""
    await service.dataset(name)
    every = sorted((await service.evaluators(count=_LISTED)).items, key=lambda one: one.saved, reverse=True)
    likely, mapping = None, ""
    for info in every[:_TRIED]:
        version = await service.evaluator(info.name)
        draft = drafts.of_version(version, dataset=name)
        found = await while_there(request, drafts.tried, service, draft)
        if found["reply"] is not None and found["same"] is None:
            return page(request, "dataset_tried.html", version=version, dataset=name, **found)
        if not mapping and found["mapping"] and not set(found["mapping"].split()) & {"COLUMN", "VALUE"}:
            likely, mapping = version, found["mapping"]
    found = EMPTY | {"mapping": mapping}
    return page(request, "dataset_tried.html", version=None, likely=likely, dataset=name, **found)


@router.post("/datasets/{name}/delete")
async def delete(service: Here, name: str) -> Response:
    """Delete a dataset that no run uses."""
    await service.delete_dataset(name)
    return RedirectResponse("/", 303)
