"""The server of genai-host: `serve`, its own API under `/api/v1`, and the web page.

    from genai_host import Host
    from genai_server import Server

    with Host() as host, Server(host, port=0) as server:
        print(server.url)

- `server`: `Server`, which runs uvicorn with limits on slow clients
- `application`: `Application`, for any ASGI server and for mounts
- `command`: the command `genai-host serve`
- `request_handler`: one request, in the event loop and in a thread
- `native`, `page`: the API of the host itself, and the page

The names below are imported on first use, so that the plugin costs nothing where nobody serves.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from genai_host.api import Command, hookimpl

if TYPE_CHECKING:
    from genai_server.application import Application as Application
    from genai_server.server import Server as Server
    from genai_server.settings import (
        AccessLogEntry as AccessLogEntry,
        ServerSettings as ServerSettings,
    )

_HOMES = {
    "AccessLogEntry": "settings",
    "Application": "application",
    "Server": "server",
    "ServerSettings": "settings",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command("serve", "Start the HTTP server and web page.", "genai_server.command:command")
