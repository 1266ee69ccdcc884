"""Spans are sent where OTEL_* variables say, and nowhere without them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import Message, Receive, Scope, Send

from runner.core import tracing
from runner.server.http.metrics import Metrics, MetricsMiddleware
from tests.server.client.told import Told, told
from tests.server.http.live import finished, live


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    end = tracing.begin_with(SimpleSpanProcessor(exporter))
    try:
        yield exporter
    finally:
        end()


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
    ],
)
def test_variables_decide(variables: dict[str, str], wanted: bool) -> None:
    assert tracing.is_wanted(variables) is wanted


def test_without_variables_nothing_of_it_is_imported() -> None:
    code = """
import sys
from runner.core import tracing
end = tracing.begin()
with tracing.span("run", {"evalcell.run": "r"}) as span:
    span.set({"a": 1}); span.fail("x"); span.rename("y")
end()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], check=True, env=clean, timeout=60)


def test_spans_stand_below_each_other_and_a_failure_tells_its_class_alone(spans: InMemorySpanExporter) -> None:
    def failing() -> None:
        with tracing.span("run", {"evalcell.run": "r1", "evalcell.title": None}):
            with tracing.span("batch") as inner:
                inner.set({"evalcell.rows": 3})
            raise ValueError("a secret row")

    with pytest.raises(ValueError, match="a secret"):
        failing()
    batch, run = spans.get_finished_spans()
    assert (batch.name, dict(batch.attributes or {})) == ("batch", {"evalcell.rows": 3})
    assert dict(run.attributes or {}) == {"evalcell.run": "r1"}
    assert batch.parent is not None
    assert run.context is not None
    assert batch.parent.span_id == run.context.span_id
    assert (run.status.description, run.events) == ("ValueError", ())


class _Route:
    path = "/v1/runs/{id}"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    scope["route"] = _Route()
    await send({"type": "http.response.start", "status": 503, "headers": []})


async def _receive() -> Message:
    return {}


async def _send(message: Message) -> None:
    """It is nobody's."""


def test_a_request_is_named_by_its_route(spans: InMemorySpanExporter) -> None:
    scope: Scope = {"type": "http", "method": "GET", "path": "/v1/runs/my-secret", "headers": []}
    asyncio.run(MetricsMiddleware(_app, Metrics())(scope, _receive, _send))
    (span,) = spans.get_finished_spans()
    assert isinstance(span, ReadableSpan)
    assert (span.name, span.kind.name, span.status.is_ok) == ("GET /v1/runs/{id}", "SERVER", False)
    assert "my-secret" not in span.to_json()


def test_they_reach_a_receiver_of_otlp() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    code = """
from runner.core import tracing
end = tracing.begin()
with tracing.span("run", {"evalcell.run": "r1"}):
    pass
end()
"""
    with told(Told(200, b"")) as server:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": server.url, "NO_PROXY": "127.0.0.1"}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
    (sent,) = [one for one in server.sent if one.path == "/v1/traces"]
    received = ExportTraceServiceRequest.FromString(sent.body)
    (resource,) = received.resource_spans
    assert "evalcell" in [one.value.string_value for one in resource.resource.attributes if one.key == "service.name"]
    (scope,) = resource.scope_spans
    assert [(one.name, one.attributes[0].value.string_value) for one in scope.spans] == [("run", "r1")]


@pytest.mark.rotating("what takes a server of its own for spans", "tools")
def test_a_run_of_a_server_is_a_trace_of_its_own_with_its_batches(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    secret = "what nobody else reads"
    source = f"def evaluate(output):\n    print({secret!r})\n    return len(output)\n"
    with live(tmp_path) as server, server.client() as client:
        kept = client.post("/v1/evaluators", json={"source": source, "name": "traced"}).json()
        rows = "".join(f'{{"output": "{secret}"}}\n' for _ in range(3))
        client.post("/v1/datasets?name=traced.jsonl", content=rows)
        run = client.post("/v1/runs", json={"evaluator": "traced@1", "dataset": "traced"}).json()["id"]
        finished(client, run)
        client.post("/v1/evaluate", json={"evaluator": "traced@1", "dataset": "traced"})
    found = spans.get_finished_spans()
    named = {span.name: span for span in found}
    whole, batch, tried = named["run"], named["batch"], named["try"]
    started, evaluated = named["POST /v1/runs"], named["POST /v1/evaluate"]
    assert dict(whole.attributes or {}) == {
        "evalcell.run": run,
        "evalcell.version": kept["version"],
        "evalcell.rows": 3,
    }
    assert whole.parent is None
    assert [link.context for link in whole.links] == [started.context]
    assert (batch.attributes or {})["evalcell.scored"] == 3
    assert whole.context is not None
    assert evaluated.context is not None
    assert batch.parent is not None
    assert tried.parent is not None
    assert (batch.parent.span_id, tried.parent.span_id) == (whole.context.span_id, evaluated.context.span_id)
    assert not [span.name for span in found if secret in span.to_json()]
