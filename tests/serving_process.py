"""A server in a process of its own, for tests of how it ends: `python serving_process.py
DRAIN`. It has streams that go on until they are ended, and says in what error they do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from genai_host import Config, Given, Host
from genai_host.api import HttpRoute, RouteReply, RouteRequest
from genai_host.errors import Cancelled
from genai_host.server.server import Server
from genai_host.testing import MadePlugin


def stream(request: RouteRequest, host: Host) -> RouteReply:
    return RouteReply(_pieces(request))


def _pieces(request: RouteRequest) -> Iterator[bytes]:
    """It ends after so many seconds, or with its limits."""
    until = time.monotonic() + float(request.parameters["seconds"])
    try:
        yield b"begun "
        while time.monotonic() < until:
            request.limits.check()
            time.sleep(0.01)
        yield b"done"
    except Cancelled as error:
        yield error.code.encode()


def deaf(request: RouteRequest, host: Host) -> RouteReply:
    """It heeds no limits."""
    time.sleep(3600)
    return RouteReply()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    HERE = "serving_process"
    routes = [
        HttpRoute("GET", "/stream/{seconds}", f"{HERE}:stream"),
        HttpRoute("GET", "/deaf", f"{HERE}:deaf"),
    ]
    plugin = MadePlugin(http_routes=routes)
    with Host(config=Config(), discovery=Given({"mine": plugin})) as host:
        server = Server(host, port=0, drain=float(sys.argv[1]))
        server.run(lambda: say(server.url))
    say("closed")
