"""A span for each request, by its route, and never by its address: names of what people keep are in that."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.core import tracing

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


class Traced:
    """Opens the span in which a request is replied to."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        with tracing.span(method, {"http.request.method": method}, server=True) as span:

            async def replied(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set({"http.response.status_code": message["status"]})
                    if message["status"] >= 500:
                        span.fail(str(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, replied)
            finally:
                if (route := getattr(scope.get("route"), "path", None)) is not None:
                    span.set({"http.route": route})
                    span.rename(f"{method} {route}")
