"""A double of an OpenTelemetry collector: receives spans over OTLP/HTTP and keeps them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from clusterstacks.dev.loopback import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ReceivedSpan:
    """A span; ``parent`` is empty for the first one of a trace."""

    name: str
    id: str
    parent: str
    attributes: dict[str, str]
    service: str
    failed: bool


@dataclass
class Collector:
    """The received spans, and the address to send them to."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def receive(self, body: bytes) -> None:
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    ReceivedSpan(
                        one.name,
                        one.span_id.hex(),
                        one.parent_span_id.hex(),
                        {each.key: each.value.string_value for each in one.attributes},
                        named["service.name"],
                        one.status.code == one.status.STATUS_CODE_ERROR,
                    )
                    for one in scope.spans
                ]


@contextmanager
def running_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.receive(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    collector.endpoint = f"http://{LOOPBACK}:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
