"""Spans of OpenTelemetry around the work of the operator, if its SDK is installed and an endpoint is set.

Otherwise nothing is imported, and a span is one call that does nothing.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of OpenTelemetry's specification; the SDK reads the others, e.g. for headers and sampling, as well."""

SERVICE: Final = "cluster-stack-operator"

_NOTHING: Final = nullcontext()

log = logging.getLogger(__name__)


class _Start(Protocol):
    def __call__(self, name: str, *, attributes: Mapping[str, str]) -> AbstractContextManager[object]: ...


class _Tracing:
    start: _Start | None = None


def span(name: str, **attributes: object) -> AbstractContextManager[object]:
    """Return a context manager that records a span; attributes must not contain secrets."""
    start = _Tracing.start
    if start is None:
        return _NOTHING
    return start(name, attributes={key: str(value) for key, value in attributes.items()})


def configure_tracing(environ: Mapping[str, str], version: str) -> Callable[[], None]:
    """Send spans to the endpoint in the environment; without one, or without the SDK, do nothing.

    The returned function sends the remaining spans and ends the export; it blocks for seconds at most.
    """
    if not any(environ.get(name) for name in ENDPOINTS):
        return lambda: None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        log.warning("Traces are disabled, because OpenTelemetry is not installed: install cluster-stacks[otel]")
        return lambda: None
    resource = Resource.create({"service.name": environ.get("OTEL_SERVICE_NAME", SERVICE), "service.version": version})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _Tracing.start = provider.get_tracer(SERVICE, version).start_as_current_span

    def stop() -> None:
        _Tracing.start = None
        provider.shutdown()

    return stop
