#!/usr/bin/env python3
"""What one would write in an afternoon: the standard library's server, plain requests behind.

    python benchmarks/thin_gateway.py PORT URL

It reads the body of a chat completion, looks whether its model is one that it has, sends it
on to URL, and gives back what comes, a stream as it comes. `gateway.py` measures beside it.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

_MODELS = {"gpt-4o-mini"}
_KEY = "no-key-at-all"
_AT_ONCE = 64


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, port: int, url: str) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.address = f"{url}/v1/chat/completions"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {_KEY}"
        self.session.headers["Content-Type"] = "application/json"
        self.session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=_AT_ONCE))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        if asked.get("model") not in _MODELS:
            self._send_whole(404, b'{"error": {"message": "there is no such model"}}')
        elif asked.get("stream"):
            self._stream(body)
        else:
            with self.server.session.post(self.server.address, data=body, timeout=60) as reply:
                self._send_whole(reply.status_code, reply.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is told of a request."""

    def _send_whole(self, status: int, body: bytes) -> None:
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
            for piece in reply.raw.stream(65536):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    _Server(int(sys.argv[1]), sys.argv[2]).serve_forever()
