"""The supported paths of Anthropic's API."""

from __future__ import annotations

from genai_host.api import HttpRoute
from genai_host.api.http_routes import Method

_HERE = "genai_host.server.anthropic"
_SIZE = 32 * 2**20  # bytes, as at Anthropic's service
_BATCHES: tuple[tuple[Method, str], ...] = (("GET", ""), ("POST", ""), ("GET", "/{id}"))

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("POST", "/v1/messages", f"{_HERE}.handlers:create", max_body_size=_SIZE),
    HttpRoute("POST", "/v1/messages/count_tokens", f"{_HERE}.handlers:count", max_body_size=_SIZE),
    *(
        HttpRoute(method, f"/v1/messages/batches{rest}", f"{_HERE}.handlers:no_batches")
        for method, rest in _BATCHES
    ),
)
