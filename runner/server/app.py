"""The application: every address, behind its guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

from fastapi import FastAPI

from runner.server import health, login
from runner.server.entry import Entry
from runner.server.guard import Guard
from runner.server.idempotency import locks
from runner.server.metrics import Measured, Metrics
from runner.server.problems import answer_problems
from runner.server.traced import Traced
from runner.server.v1 import datasets, evaluators, runs
from runner.service.service import Service
from runner.service.types import ProblemDetails
from runner.version import installed

_PAGES, _MCP = "runner.server.web.pages", "runner.mcp.http"
_ABOUT = """\
Score rows with scripts in sandboxes. Lists are pages: `next` of one is `after` of the following. Every failure is an
`application/problem+json` by RFC 9457 with a stable `type` that this server explains, and `retryable`.
"""


def create_app(service: Service, entry: Entry | None = None) -> FastAPI:
    """The application over a service, which it opens and closes."""

    pages, mcp = _installed(_PAGES), _installed(_MCP)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(service)
            if mcp is not None and hasattr(mcp, "life"):
                await stack.enter_async_context(mcp.life(app))
            yield

    app = FastAPI(
        title="evalcell",
        version=installed() or "0",
        description=_ABOUT,
        lifespan=life,
        docs_url=None,  # it would fetch its scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        # Its spans hold addresses, in which names are, and its logs what went wrong with whose row; ours do not.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service, app.state.entry, app.state.metrics = service, entry or Entry(), Metrics()
    app.state.locks = locks()
    for router in (health.router, login.router, evaluators.router, datasets.router, runs.router):
        app.include_router(router)
    if pages is not None:
        app.include_router(pages.router)
    if mcp is not None:
        mcp.mount(app)
    answer_problems(app, getattr(pages, "problem_page", None))
    settings = service.settings
    sizes = {"": settings.body_bytes, "/v1/datasets": settings.dataset_bytes, "/v1/recognise": 1 << 20, "/login": 4096}
    app.add_middleware(Traced)
    app.add_middleware(Measured, metrics=app.state.metrics)
    app.add_middleware(Guard, entry=app.state.entry, sizes=sizes)
    _describe(app)
    return app


def _installed(module: str) -> Any:
    """The module; None where it is not there, or an extra that it needs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name in ("mcp", "runner.mcp", "runner.server.web", module):
            return None
        raise


def _describe(app: FastAPI) -> None:
    """Add to the OpenAPI document what all replies share."""
    made = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = made()
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            schema = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas["ProblemDetails"] = schema
            found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            found["security"] = [{}, {"token": []}]
        return app.openapi_schema or {}

    app.openapi = described  # type: ignore[method-assign]
