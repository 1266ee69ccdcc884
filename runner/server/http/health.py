"""/healthz, /readyz, /metrics, and the pages that explain problems."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import HTMLResponse, JSONResponse, Response

from runner.server.http.metrics import Metrics
from runner.server.http.route import PageRoute
from runner.server.http.v1.parts import Here
from runner.server.service.errors import KINDS, ServiceError

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say whether the process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request, service: Here) -> Response:
    """Say whether it can run scripts, and, to who may know, what protects this machine from them."""
    found: dict[str, Any] = await service.ready()
    told = found if request.app.state.entry.admits("/", request.headers) else {"ready": found["ready"]}
    return JSONResponse(told, 200 if found["ready"] else 503)


@router.get("/metrics")
async def metrics(request: Request, service: Here) -> Response:
    """Return the figures of this server, for Prometheus."""
    known: Metrics = request.app.state.metrics
    await known.look(service)
    return Response(generate_latest(known.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/problems/{kind}")
async def problem(kind: str) -> Response:
    """Return what a type of problem means."""
    found = KINDS.get(kind)
    if found is None:
        raise ServiceError("not-found", "there is no type of problem of that name")
    again = "The same request may succeed later." if found.retryable else "The same request will fail again."
    text = f"<h1>{escape(found.title)}</h1><p>{escape(found.about)}</p><p>Status {found.status}. {again}</p>"
    head = f'<meta charset="utf-8"><title>{escape(kind)}</title><meta name="viewport" content="width=device-width">'
    return HTMLResponse(f'<!doctype html><html lang="en"><head>{head}</head><body>{text}</body></html>')
