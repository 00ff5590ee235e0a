"""The supported paths of OpenAI's API."""

from __future__ import annotations

from genai_host.api import HttpRoute

_HERE = "genai_host.server.openai"
_SIZE = 32 * 2**20  # bytes, because messages can have images

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("POST", "/v1/chat/completions", f"{_HERE}.handlers:complete", max_body_size=_SIZE),
    HttpRoute("POST", "/v1/embeddings", f"{_HERE}.handlers:embed", max_body_size=_SIZE),
    HttpRoute("POST", "/v1/moderations", f"{_HERE}.handlers:moderate"),
)
