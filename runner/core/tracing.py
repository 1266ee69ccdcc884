"""Spans of OpenTelemetry, for who asks for them by OTEL_* variables; nothing otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeAlias

from runner.core.errors import InputError
from runner.core.version import installed_version

_ADDRESSES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_tracer: Any = None


Value: TypeAlias = str | int | float | bool | None


class Span:
    """A span, or none. What it is told holds names and numbers of ours, never rows, sources or tokens."""

    def __init__(self, own: Any = None) -> None:
        self._own = own

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes; what is None is left out."""
        if self._own is not None:
            self._own.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def rename(self, name: str) -> None:
        """Give it another name."""
        if self._own is not None:
            self._own.update_name(name)

    def fail(self, why: str) -> None:
        """Mark it as failed."""
        if self._own is not None:
            from opentelemetry.trace import Status, StatusCode

            self._own.set_status(Status(StatusCode.ERROR, why[:200]))


_NONE = Span()


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether the variables ask for spans."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter not in ("", "otlp"):
        return False
    return exporter == "otlp" or any(environment.get(name, "").strip() for name in _ADDRESSES)


def begin() -> Callable[[], None]:
    """
    Send spans where the OTEL_* variables say; return what sends the last ones, and ends it.

    Does nothing unless they ask for it.

    Raises:
        InputError: If what it needs is not installed.
    """
    if not is_wanted():
        return lambda: None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise InputError(
            "OTEL_* variables ask for spans, and OpenTelemetry is not installed; run: pip install 'evalcell[otel]', or "
            "set OTEL_SDK_DISABLED=true"
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return begin_with(BatchSpanProcessor(OTLPSpanExporter()))


def begin_with(processor: Any) -> Callable[[], None]:
    """Hand spans to a processor of OpenTelemetry's SDK; return what ends it."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _tracer
    name = os.environ.get("OTEL_SERVICE_NAME", "").strip() or "evalcell"
    provider = TracerProvider(
        resource=Resource.create({"service.name": name, "service.version": installed_version() or "0"})
    )
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)  # the spans of MCP's library go there, too
    _tracer = provider.get_tracer("evalcell", installed_version())

    def end() -> None:
        global _tracer
        _tracer = None
        provider.shutdown()

    return end


@contextmanager
def span(
    name: str, attributes: Mapping[str, Value] | None = None, *, server: bool = False, root: bool = False
) -> Iterator[Span]:
    """
    Open a span around what follows, below the one that is open. An exception marks it as failed, by its class alone.

    `server`: it is the reply to a request. `root`: it outlives the one that is open, and only names it.
    """
    if _tracer is None:
        yield _NONE
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, get_current_span

    more: dict[str, Any] = {"kind": SpanKind.SERVER if server else SpanKind.INTERNAL}
    if root:
        more["context"] = Context()
        if (above := get_current_span().get_span_context()).is_valid:
            more["links"] = [Link(above)]
    with _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False, **more) as own:
        made = Span(own)
        made.set(attributes or {})
        try:
            yield made
        except BaseException as error:
            made.fail(type(error).__name__)
            raise
