"""A server in a separate process: `python serving_process.py DRAIN`. `/stream/input` streams until
the process has input, `/stream/on` until it is ended, and reports the error; `/blocked` ignores its
limits.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from genai_server import Server

from genai_host import Config, Host, StaticPlugins
from genai_host.api import Cancellation, HttpRoute, RouteRequest, RouteResponse
from genai_host.errors import Cancelled
from genai_host_testing import InlinePlugin


@contextlib.contextmanager
def process(drain: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the process and yield it with its address."""
    with subprocess.Popen(
        [sys.executable, "serving_process.py", str(drain)],
        cwd=Path(__file__).resolve().parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None
        try:
            yield started, started.stdout.readline().strip()
        finally:
            if started.poll() is None:
                started.kill()


input_ = Cancellation()


def wait_for_input() -> None:
    os.read(0, 1)
    input_.cancel()


def stream(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(_pieces(request))


def _pieces(request: RouteRequest) -> Iterator[bytes]:
    ended = threading.Event()
    has_input = input_ if request.parameters["until"] == "input" else Cancellation()
    try:
        yield b"begun "
        with request.limits.on_cancel(ended.set), has_input.on_cancel(ended.set):
            ended.wait()
        request.limits.check()
        yield b"done"
    except Cancelled as error:
        yield error.code.encode()


def blocked(request: RouteRequest, host: Host) -> RouteResponse:
    """Ignore the limits."""
    time.sleep(3600)
    return RouteResponse()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    import serving_process  # the module that the routes use

    HERE = "serving_process"
    threading.Thread(target=serving_process.wait_for_input, daemon=True).start()
    routes = [
        HttpRoute("GET", "/stream/{until}", f"{HERE}:stream"),
        HttpRoute("GET", "/blocked", f"{HERE}:blocked"),
    ]
    plugin = InlinePlugin(http_routes=routes)
    with Host(config=Config(), discovery=StaticPlugins({"mine": plugin})) as host:
        server = Server(host, port=0, graceful_timeout=float(sys.argv[1]), max_concurrency=1000)
        server.run(lambda: say(server.url))
    say("closed")
