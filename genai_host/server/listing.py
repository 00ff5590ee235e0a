"""`GET /v1/models`, which several APIs have: answered in the form of the client that asks."""

from __future__ import annotations

import importlib
from types import ModuleType

from genai_host.api import HttpRoute, RouteReply, RouteRequest
from genai_host.host import Host

_BY_HEADER = {
    "anthropic-version": "genai_host.server.anthropic.models",
    "x-goog-api-key": "genai_host.server.gemini.models",
}
"""What the clients of an API send, and those of others do not."""

_USUAL = "genai_host.server.openai.models"
_HERE = "genai_host.server.listing"

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", "/v1/models", f"{_HERE}:listed"),
    *(
        HttpRoute("GET", f"/v1/models/{named}", f"{_HERE}:one")
        for named in ("{model}", "{provider}/{model}", "{provider}/{owner}/{model}")
    ),
)


def listed(request: RouteRequest, host: Host) -> RouteReply:
    """The models that there are."""
    reply: RouteReply = _form_of(request).listed(request, host)
    return reply


def one(request: RouteRequest, host: Host) -> RouteReply:
    """One of them. A name may have slashes in it."""
    reply: RouteReply = _form_of(request).one(request, host)
    return reply


def _form_of(request: RouteRequest) -> ModuleType:
    found = (module for header, module in _BY_HEADER.items() if header in request.headers)
    return importlib.import_module(next(found, _USUAL))
