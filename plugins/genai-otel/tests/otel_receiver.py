"""A collector on this machine: it takes OTLP over HTTP, as protobuf, and reads it with the
messages of opentelemetry-proto."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """A server that receives OTLP over HTTP.

    Attributes:
        url: To be given as OTEL_EXPORTER_OTLP_ENDPOINT.
        spans: What came, in its order.
        metrics: By name, the last that came.
        bodies: As they came, decompressed.
    """

    def __init__(self, *, answers: bool = True) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.metrics: dict[str, Any] = {}
        self.bodies: list[bytes] = []
        self._came = threading.Condition()
        self._let_go = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.take = self.take if answers else self._hang  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def wait(self, there: Callable[[Self], bool], seconds: float = 20) -> None:
        with self._came:
            assert self._came.wait_for(lambda: there(self), seconds), [s.name for s in self.spans]

    def take(self, path: str, body: bytes) -> None:
        with self._came:
            self.bodies.append(body)
            if path == "/v1/traces":
                for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self.resources.append(attributes_of(group.resource))
                    self.spans.extend(span for scope in group.scope_spans for span in scope.spans)
            elif path == "/v1/metrics":
                for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in group.scope_metrics:
                        self.metrics.update({each.name: each for each in scope.metrics})
            self._came.notify_all()

    def _hang(self, path: str, body: bytes) -> None:
        self._let_go.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes_of(carrier: Any) -> dict[str, Any]:
    """Of a span, a point or a resource: plain values, but for lists."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in carrier.attributes
    }


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print what they need."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.take(self.path, body)
        try:
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()
        except OSError:  # who sent it has gone
            pass
