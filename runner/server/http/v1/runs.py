"""/v1/runs and /v1/compare: runs, their results and their events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Header, Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from runner.core.types import Finite
from runner.engine.scoring.summary import Summary
from runner.results.compare.runs import MOST, FlipPage
from runner.results.compare.types import Comparison, Flip, Flips
from runner.results.store.types import (
    MOST_DEEP,
    OVER,
    Page,
    ResultSelection,
    RunInfo,
    RunSpec,
    RunState,
    Selection,
)
from runner.runs.verify import VERIFIED_ROWS, Verification
from runner.server.http.idempotency import Once
from runner.server.http.v1.parts import After, Count, Force, Here, RunId, StrictRoute, problems, while_there
from runner.server.service.downloads import MEDIA, Format
from runner.server.service.runs import BEAT
from runner.server.service.types import RunEvent
from sandboxes.base import Model

router = APIRouter(prefix="/v1", tags=["runs"], route_class=StrictRoute)
_LATER = 2000
"""Milliseconds after which a browser connects again."""
_REFUSED = ("not-found", "not-allowed", "evaluator", "dataset", "mapping", "columns", "unsupported-config", "input")


@router.get("/runs", responses=problems("input"))
async def runs(
    service: Here,
    after: After = None,
    count: Count = 50,
    evaluator: Annotated[str | None, Query(max_length=64)] = None,
    dataset: Annotated[str | None, Query(max_length=300)] = None,
    state: Annotated[list[RunState] | None, Query(max_length=6)] = None,
) -> Page[RunInfo]:
    """Return the runs, the newest first, then those of the folders that the server shows."""
    return await service.runs(after, count, evaluator=evaluator, dataset=dataset, states=tuple(state or ()))


@router.post(
    "/runs",
    status_code=202,
    responses=problems(*_REFUSED, "idempotency", "busy", "stopping", "sandbox-unavailable"),
)
async def start(body: Annotated[RunSpec, Body()], service: Here, response: Response, once: Once) -> RunInfo:
    """Queue a run of a whole dataset. What can be checked before is checked now."""

    async def work(_: AsyncIterator[bytes]) -> RunInfo:
        return await service.start_run(body)

    made = await once.get(RunInfo, work)
    response.headers["Location"] = f"/v1/runs/{made.id}"
    return made


@router.get("/runs/{id}", responses=problems("not-found"))
async def run(id: RunId, service: Here) -> RunInfo:
    """Return one run: how far it is, and its summary once it is over."""
    return await service.run(id)


@router.delete("/runs/{id}", status_code=204, responses=problems("not-found", "in-use", "read-only"))
async def delete(id: RunId, service: Here, force: Force = False) -> None:
    """Delete a run with its results. With `force` it is cancelled before."""
    await service.delete_run(id, force=force)


@router.post("/runs/{id}/cancel", responses=problems("not-found", "run-state", "read-only"))
async def cancel(id: RunId, service: Here) -> RunInfo:
    """Stop a run for good, with its script. What is stored stays."""
    return await service.cancel(id)


@router.post(
    "/runs/{id}/resume",
    status_code=202,
    responses=problems(*_REFUSED, "run-state", "read-only", "busy", "stopping"),
)
async def resume(id: RunId, service: Here) -> RunInfo:
    """Let a run that failed or was cancelled go on after its last stored row."""
    return await service.resume(id)


class VerifyRequest(Model):
    """Which rows are run again; the digest of the results chooses them."""

    sample: str = Field(default=VERIFIED_ROWS, max_length=20)
    """How many, or what share of them: `1%`."""


@router.post(
    "/runs/{id}/verify",
    responses=problems(
        *(*_REFUSED, "run-state", "read-only", "not-comparable", "busy", "stopping"),
        *("sandbox-lost", "sandbox-unavailable", "worker-lost"),
    ),
)
async def verify(id: RunId, body: VerifyRequest, request: Request, service: Here) -> Verification:
    """Run rows of a finished run again, and tell whether they give the same. A client that goes away stops it."""
    return await while_there(request, service.verify, id, body.sample)


@router.get("/runs/{id}/results", responses=problems("not-found", "dataset"))
async def results(
    id: RunId, request: Request, service: Here, selection: Annotated[Selection, Query()]
) -> ResultSelection:
    """List results by range: those that match all that is given, in this order. `first` counts from 0."""
    return await while_there(request, service.results, id, selection)


@router.get("/runs/{id}/groups", responses=problems("not-found", "input", "dataset"))
async def groups(
    id: RunId, request: Request, service: Here, by: Annotated[str, Query(min_length=1, max_length=200)]
) -> Summary:
    """Return the run's summary with figures `by` the values of a column that its results carry."""
    return await while_there(request, service.groups, id, by)


@router.get(
    "/runs/{id}/download",
    response_class=StreamingResponse,
    responses={
        **problems("not-found", "input", "dataset"),
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in MEDIA.values()}},
    },
)
async def download(id: RunId, request: Request, service: Here, format: Format = "jsonl") -> Response:
    """Return all results as one file."""
    made = await while_there(request, service.download, id, format)
    named = f"attachment; filename*=UTF-8''{quote(made.name)}"
    return StreamingResponse(made.parts, media_type=made.media, headers={"content-disposition": named})


@router.get(
    "/runs/{id}/events",
    response_class=StreamingResponse,
    responses={
        **problems("not-found"),
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        204: {"description": "The run is over, and the client has seen all of it"},
    },
)
async def events(
    id: RunId, request: Request, service: Here, last_event_id: Annotated[str | None, Header(max_length=20)] = None
) -> Response:
    """
    Return what happens to a run, as server-sent events: `state`, and `progress`. The id is the number of rows stored so
    far.

    With `Last-Event-ID` it goes on from there, and nothing is missed or doubled. The stream ends with the run.
    """
    seen = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdecimal() else None
    info = await service.run(id)
    if seen is not None and seen >= info.rows and info.state in OVER:
        return Response(status_code=204)  # a browser does not connect again

    async def stream() -> AsyncIterator[bytes]:
        metrics = request.app.state.metrics
        with metrics.watchers.track_inprogress():
            yield b"retry: %d\n\n" % _LATER
            async for event in service.watch(id, seen or 0, BEAT):
                yield b": still here\n\n" if event is None else as_event(event)

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


def as_event(event: RunEvent) -> bytes:
    """Return an event as it is sent."""
    return f"id: {event.id}\nevent: {event.event}\ndata: {event.data.model_dump_json()}\n\n".encode()


@router.get("/compare", tags=["compare"], responses=problems("not-found", "not-comparable", "input"))
async def compare(
    request: Request,
    service: Here,
    base: RunId,
    new: RunId,
    by: Annotated[str | None, Query(max_length=200)] = None,
    cluster: Annotated[str | None, Query(max_length=200)] = None,
    tolerance: Annotated[Finite, Query(ge=0, le=1e9)] = 0.0,
) -> Comparison:
    """Compare two runs row by row: is the new run better than the base?"""
    return await while_there(request, service.compare, base, new, by=by, cluster=cluster, tolerance=tolerance)


@router.get("/compare/rows", tags=["compare"], responses=problems("not-found", "not-comparable"))
async def flips(
    request: Request,
    service: Here,
    base: RunId,
    new: RunId,
    flip: Flip | None = None,
    first: Annotated[int, Query(ge=0, le=MOST_DEEP)] = 0,
    count: Annotated[int, Query(ge=0, le=MOST)] = 20,
) -> Flips:
    """Return the rows that flipped: whose outcome, score or label is another in the new run. `first` counts from 0."""
    return (await while_there(request, service.flips, base, new, FlipPage(flip, first, count)))[1]
