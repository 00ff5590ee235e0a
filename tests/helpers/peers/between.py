"""What stands between the host and a service: it keeps what is sent, and passes it on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

_PASSED_ON = ("authorization", "x-api-key", "anthropic-version", "content-type")


class Between:
    """Runs while it is entered.

    url       the service's address
    change    what to change of the body of a request, before it is passed on
    bodies    as they came, with their paths
    """

    def __init__(self, url: str, change: Callable[[Any], None]) -> None:
        self.bodies: list[Any] = []
        between = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                between.bodies.append(json.loads(json.dumps(body)))
                change(body)
                headers = {name: self.headers[name] for name in _PASSED_ON if self.headers[name]}
                with requests.post(
                    url + self.path, json=body, headers=headers, stream=True, timeout=100
                ) as reply:
                    self.send_response(reply.status_code)
                    self.send_header("Content-Type", reply.headers["Content-Type"])
                    self.end_headers()
                    for piece in reply.iter_content(None):
                        self.wfile.write(piece)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is to be told of requests that are kept."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05])

    def __enter__(self) -> Between:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def must_call(body: Any) -> None:
    """Have the model call a tool, whatever the dialect of the request."""
    is_of_anthropic = "input_schema" in body["tools"][0]
    body["tool_choice"] = {"type": "any"} if is_of_anthropic else "required"


def must_not_call(body: Any) -> None:
    """Have it say something."""
    body.pop("tool_choice", None)
    del body["tools"]


def short(body: Any) -> None:
    """Have it say no more than a few words."""
    body["max_output_tokens" if "input" in body else "max_tokens"] = 48


def ends_with_result(body: Any) -> bool:
    """Whether the last thing in a request, whatever its dialect, is what a tool gave."""
    last = (body.get("messages") or body.get("input"))[-1]
    if last.get("type") == "function_call_output" or last.get("role") == "tool":
        return True
    content = last.get("content")
    return isinstance(content, list) and any(part["type"] == "tool_result" for part in content)
