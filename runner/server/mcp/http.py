"""`/mcp` of the server: streamable HTTP without sessions, behind the server's own guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from runner.server.service.errors import ServiceError

PATH = "/mcp"
_BODY = 4 << 20


class _Endpoint:
    """Imports the library at the first request: a server that no agent asks starts a second sooner."""

    def __init__(self, app: FastAPI) -> None:
        self.tasks: TaskGroup | None = None
        self._app = app
        self._lock = anyio.Lock()
        self._manager: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._lock:
            if self._manager is None:
                self._manager = await self._started()
        from runner.server.mcp.messages import refusal  # here: it needs the library, too

        body = await _body(receive)
        if (refused := refusal(body)) is not None:
            content = refused.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(content, 400, media_type="application/json")(scope, receive, send)
            return
        failed: list[Exception] = []

        async def work() -> None:
            try:
                await self._manager.handle_request(scope, _again(body), send)
            except Exception as error:
                failed.append(error)
            tasks.cancel_scope.cancel()

        # The library goes on when the client has hung up, and so would a script.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
        if failed:
            raise failed[0]

    async def _started(self) -> Any:
        if find_spec("mcp") is None:
            raise ServiceError("not-found", "MCP is not installed here; run: pip install 'evalcell[mcp]'")
        if (tasks := self.tasks) is None:
            raise ServiceError("stopping", "the server is starting or stopping; try again")

        def made() -> Any:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
            from runner.server.mcp.server import make_server

            server = make_server(lambda: self._app.state.service)
            # The guard has checked Host, Origin and the token before.
            return StreamableHTTPSessionManager(
                server._lowlevel_server, json_response=True, stateless=True, max_request_body_size=_BODY
            )

        manager = await to_thread.run_sync(made)

        async def serve(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
            async with manager.run():
                task_status.started()
                await anyio.sleep_forever()

        await tasks.start(serve)
        return manager


async def _body(receive: Receive) -> bytes:
    """All that the client sends. Raises ServiceError for too much."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ServiceError("too-slow", "the client went away")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _BODY:
            raise ServiceError("too-large", f"a message has at most {_BODY:,} bytes; send less")
    return bytes(body)


def _again(body: bytes) -> Receive:
    """The same body once more."""
    left = [body]

    async def receive() -> Message:
        if not left:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return receive


def mount(app: FastAPI) -> None:
    """Add the address to an application."""
    app.state.mcp = _Endpoint(app)
    # Without sessions there is no stream to be got, and nothing to be deleted.
    app.router.routes.append(Route(PATH, endpoint=app.state.mcp, methods=["POST"], include_in_schema=False))


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    """Open what it needs for as long as the application serves."""
    async with anyio.create_task_group() as tasks:
        app.state.mcp.tasks = tasks
        yield
        app.state.mcp.tasks = None
        tasks.cancel_scope.cancel()
