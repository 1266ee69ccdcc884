"""What the addresses share: the service, strict JSON, and clients that go away."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NoReturn, ParamSpec, TypeVar

import anyio
from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from runner.datasets.column_values import RowError
from runner.datasets.rows import parse_json
from runner.server.problems import MEDIA
from runner.service.errors import KINDS, ServiceError
from runner.service.service import Service

P = ParamSpec("P")
T = TypeVar("T")


def service_of(request: Request) -> Service:
    """The service of the server that the request came to."""
    found: Service = request.app.state.service
    return found


async def _service(request: Request) -> Service:
    return service_of(request)


Here = Annotated[Service, Depends(_service)]
After = Annotated[str | None, Query(max_length=128, description="`next` of the page before.")]
Count = Annotated[int, Query(ge=1, le=500)]
Force = Annotated[bool, Query(description="Also if runs use it.")]
Name = Annotated[str, Field(max_length=64)]
RunId = Annotated[str, Field(max_length=160)]


class StrictRequest(Request):
    """A request whose JSON is JSON by RFC 8259, and can be written as UTF-8 again."""

    async def json(self) -> Any:
        """Raises HTTPException."""
        data = await self.body()
        try:
            value = parse_json(data.decode())
            if b"\\u" in data:
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeDecodeError as error:
            _malformed(f"not UTF-8 at byte {error.start + 1}")
        except UnicodeEncodeError:
            _malformed("half of a surrogate pair is no character; write both halves, or none")
        except RowError as error:
            _malformed(str(error))
        return value


def _malformed(why: str) -> NoReturn:
    raise HTTPException(400, f"the body is no JSON: {why}")  # any other exception would lose its words in FastAPI


class StrictRoute(APIRoute):
    """A route that reads JSON strictly."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Called by FastAPI."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            found: Response = await handle(StrictRequest(request.scope, request.receive))
            return found

        return strict


def problems(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """What an address may reply with beside what it is for: these problems, and those that any may have."""
    every = (*kinds, "malformed", "unauthorized", "forbidden", "too-slow", "too-large", "invalid-request", "internal")
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    found: dict[int | str, dict[str, Any]] = {}
    for name in dict.fromkeys(every):
        kind = KINDS[name]
        before = found.get(kind.status)
        words = f"{before['description']}; or: {kind.title}" if before else kind.title
        found[kind.status] = {"description": words, "content": content}
    return found


async def while_there(request: Request, work: Callable[P, Awaitable[T]], *args: P.args, **more: P.kwargs) -> T:
    """What `work` gives; it is cancelled if the client goes away before. Raises what it raises."""
    given: list[T] = []
    failed: list[Exception] = []

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async def done() -> None:
        try:
            given.append(await work(*args, **more))
        except Exception as error:
            failed.append(error)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        group.start_soon(done)
    if failed:
        raise failed[0]
    if not given:
        raise ServiceError("too-slow", "the client went away; its script was stopped")
    return given[0]
