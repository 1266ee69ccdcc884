"""The server's figures for Prometheus, in a registry of their own."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.core import tracing
from runner.results.store.types import GOING
from runner.server.service.service import Service

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
_SECONDS = (0.002, 0.004, 0.008, 0.016, 0.04, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "evalcell_requests_total",
            "Requests by route and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "evalcell_request_seconds", "Seconds to a reply's end", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.runs = Gauge("evalcell_runs", "Runs of this server by state", ["state"], registry=self.registry)
        self.pool = Gauge(
            "evalcell_pool", "Workers, sandboxes, programs and what waits", ["what"], registry=self.registry
        )
        self.watchers = Gauge("evalcell_watchers", "Clients that watch a run", registry=self.registry)

    async def look(self, service: Service) -> None:
        """Bring the figures up to date that are not counted as they come."""
        states = service.queue.states()
        for state in GOING:
            self.runs.labels(state).set(states[state])
        for name, value in service.status():
            self.pool.labels(name).set(value)


class MetricsMiddleware:
    """Counts each request, and opens the span of it, by its route, whose names are few, and never by its address."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        began = time.perf_counter()
        method = scope["method"] if scope["method"] in _METHODS else "other"
        with tracing.span(method, {"http.request.method": method}, server=True) as span:

            async def replied(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.set({"http.response.status_code": status})
                    if status >= 500:
                        span.fail(str(status))
                await send(message)

            try:
                await self._app(scope, receive, replied)
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    span.set({"http.route": route})
                    span.rename(f"{method} {route}")
                route = route or "other"
                self._metrics.requests.labels(method, route, str(status)).inc()
                self._metrics.seconds.labels(route).observe(time.perf_counter() - began)
