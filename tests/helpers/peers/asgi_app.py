"""Applications for servers of others: `plain`, and `mounted` in one of FastAPI below `/below`.

`/cut` breaks off, `/endless` streams until the client leaves, `/left` counts those.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import genai_feature_chat
import genai_vendor_mock
import genai_wire_openai
from genai_server.application import Application

from genai_host import Config, Host, StaticPlugins, dialects
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, json_response
from genai_host_testing import InlinePlugin

_left: list[str] = []


def cut(request: RouteRequest, host: Host) -> RouteResponse:
    def pieces() -> Iterator[bytes]:
        yield b"half of it"
        raise RuntimeError("on purpose")

    return RouteResponse(pieces())


def endless(request: RouteRequest, host: Host) -> RouteResponse:
    def pieces() -> Iterator[bytes]:
        is_cancelled = threading.Event()
        with request.limits.on_cancel(is_cancelled.set):
            yield b"begun"
            is_cancelled.wait()
            _left.append(request.path)

    return RouteResponse(pieces())


def left(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(len(_left))


def plain() -> Application:
    routes = [HttpRoute("GET", f"/{each}", f"{__name__}:{each}") for each in _ROUTES]
    plugins = {
        "dialects": dialects, "openai": genai_wire_openai, "mock": genai_vendor_mock,
        "chat": genai_feature_chat, "routes": InlinePlugin(http_routes=routes),
    }  # fmt: skip
    return Application(Host(config=Config(), discovery=StaticPlugins(plugins)))


_ROUTES = ("cut", "endless", "left")


def mounted() -> Any:
    from fastapi import FastAPI

    application = plain()
    api = FastAPI(lifespan=application.lifespan)
    api.mount("/below", application)
    return api
