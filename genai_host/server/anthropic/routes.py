"""The paths of Anthropic's API that are answered."""

from __future__ import annotations

from genai_host.api import HttpRoute

_HERE = "genai_host.server.anthropic"
_SIZE = 32 * 2**20  # bytes: what the service takes as well

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("POST", "/v1/messages", f"{_HERE}.messages:create", size=_SIZE),
    HttpRoute("POST", "/v1/messages/count_tokens", f"{_HERE}.messages:count", size=_SIZE),
)
