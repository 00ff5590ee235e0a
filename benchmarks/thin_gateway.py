#!/usr/bin/env python3
"""Minimal gateway with `http.server` and requests, the baseline of `gateway.py`.

    python benchmarks/thin_gateway.py PORT URL

Parses each chat completion, checks its model, forwards it to URL and returns the reply. Streams
are passed on chunk by chunk.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

_MODELS = {"gpt-4o-mini"}
_KEY = "no-key-at-all"
_CONNECTIONS = 64


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, port: int, url: str) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.address = f"{url}/v1/chat/completions"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {_KEY}"
        self.session.headers["Content-Type"] = "application/json"
        self.session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)
        if request.get("model") not in _MODELS:
            self._send(404, b'{"error": {"message": "unknown model"}}')
        elif request.get("stream"):
            self._stream(body)
        else:
            with self.server.session.post(self.server.address, data=body, timeout=60) as reply:
                self._send(reply.status_code, reply.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Disable logging."""

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, body: bytes) -> None:
        address = self.server.address
        with self.server.session.post(address, data=body, timeout=60, stream=True) as reply:
            self.send_response(reply.status_code)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in reply.raw.stream(65536):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    _Server(int(sys.argv[1]), sys.argv[2]).serve_forever()
