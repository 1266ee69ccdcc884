"""Scripts before they are kept: /v1/check, /v1/recognise, /v1/templates."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from runner.server.v1.parts import Here, StrictRoute, problems
from runner.service.types import Checked, CheckRequest, Recognised, Template

router = APIRouter(prefix="/v1", tags=["scripts"], route_class=StrictRoute)


@router.post("/check", responses=problems())
async def check(body: CheckRequest, service: Here) -> Checked:
    """Read a script without running it: its parameters, outputs and packages, or what is wrong with it, and where."""
    return await service.check(body)


@router.get("/templates", responses=problems())
async def templates(service: Here) -> list[Template]:
    """The evaluators that come with evalcell."""
    return await service.templates()


@router.post(
    "/recognise",
    responses=problems(),
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {"schema": {}}}}},
)
async def recognise(
    request: Request, service: Here, name: Annotated[str, Query(min_length=1, max_length=255)]
) -> Recognised:
    """Tell what a file is, by its name and its first bytes, which are the body."""
    return await service.recognise(await request.body(), name)
