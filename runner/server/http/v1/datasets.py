"""/v1/datasets and /v1/configs: rows, and sandboxes by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import Field

from runner.results.store.types import DatasetInfo, Page, Preset
from runner.server.http.idempotency import Once
from runner.server.http.v1.parts import (
    After,
    Count,
    Force,
    Here,
    Name,
    StrictRoute,
    problems,
    while_there,
    while_there_after,
)
from runner.server.service.base import call_in_thread
from runner.server.service.rows import FURTHEST
from runner.server.service.types import MOST_ROWS, DatasetRows, DatasetSuggestion
from sandboxes.base import SandboxConfig

router = APIRouter(prefix="/v1", route_class=StrictRoute)
DatasetName = Annotated[str, Field(max_length=64)]
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {}}}}}


@router.get("/datasets", tags=["datasets"], responses=problems("input"))
async def datasets(service: Here, after: After = None, count: Count = 50) -> Page[DatasetInfo]:
    """Return the datasets by name."""
    return await call_in_thread(service.store.datasets, after, count)


@router.post(
    "/datasets",
    tags=["datasets"],
    status_code=201,
    responses=problems("dataset", "input", "name-taken", "idempotency", "store-full"),
    openapi_extra=_FILE,
)
async def add(
    service: Here,
    request: Request,
    response: Response,
    once: Once,
    name: Annotated[str, Query(min_length=1, max_length=255)],
    another: Annotated[bool, Query()] = False,
    rows: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    encoding: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
) -> DatasetInfo:
    """
    Keep a file, which is the body as it is. `name` is the file's name, whose suffix tells the format.

    It is looked at before it is accepted. With `another` a name that is taken becomes `NAME-2`. `rows` is the place of
    the rows in a JSON file that is no array, as a path such as `data`; they are kept as JSON Lines. A text
    file that is not UTF-8 has this `encoding`, such as `cp1252`, and is kept as UTF-8.
    """

    sent = asyncio.Event()

    async def all_of(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            yield part
        sent.set()

    async def work(parts: AsyncIterator[bytes]) -> DatasetInfo:
        adding = partial(service.add_dataset, all_of(parts), name, another=another, rows=rows, encoding=encoding)
        return await while_there_after(request, sent, adding)

    made = await once.get(DatasetInfo, work, file=True)
    response.headers["Location"] = f"/v1/datasets/{made.name}"
    return made


@router.get("/datasets/{name}", tags=["datasets"], responses=problems("not-found"))
async def dataset(name: DatasetName, service: Here) -> DatasetInfo:
    """Return one dataset."""
    return await call_in_thread(service.store.dataset, name)


@router.delete("/datasets/{name}", tags=["datasets"], status_code=204, responses=problems("not-found", "in-use"))
async def delete(name: DatasetName, service: Here, force: Force = False) -> None:
    """Delete it. With `force` also if runs use it: their results stay."""
    await call_in_thread(service.store.delete_dataset, name, force=force)


@router.get("/datasets/{name}/rows", tags=["datasets"], responses=problems("not-found", "dataset"))
async def rows(
    name: DatasetName,
    request: Request,
    service: Here,
    first: Annotated[int, Query(ge=1, le=FURTHEST)] = 1,
    count: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 5,
) -> DatasetRows:
    """Return some rows of a dataset."""
    return await while_there(request, service.dataset_rows, name, first, count)


@router.get("/datasets/{name}/suggestion", tags=["datasets"], responses=problems("not-found", "dataset"))
async def suggestion(name: DatasetName, request: Request, service: Here) -> DatasetSuggestion:
    """Return the template that its first rows call for, with the columns of its parameters, and why."""
    return await while_there(request, service.suggest, name)


@router.get("/configs", tags=["configs"], responses=problems("input"))
async def configs(service: Here, after: After = None, count: Count = 50) -> Page[Preset]:
    """Return the sandbox configs by name."""
    return await call_in_thread(service.store.presets, after, count)


@router.get("/configs/{name}", tags=["configs"], responses=problems("not-found", "input"))
async def config(name: Name, service: Here) -> Preset:
    """Return one config."""
    return await call_in_thread(service.store.preset, name)


@router.put("/configs/{name}", tags=["configs"], responses=problems("not-allowed", "input"))
async def set_config(name: Name, body: Annotated[SandboxConfig, Body()], service: Here) -> Preset:
    """Keep a sandbox config under a name; one that was there is replaced."""
    return await service.set_preset(name, body)


@router.delete("/configs/{name}", tags=["configs"], status_code=204, responses=problems("not-found", "input"))
async def delete_config(name: Name, service: Here) -> None:
    """Delete a config. Runs keep the one that they had."""
    await call_in_thread(service.store.delete_preset, name)
