"""The routes of Ollama's API."""

from __future__ import annotations

from genai_host.api import HttpRoute

_HERE = "genai_host.server.ollama"
_MOST_BYTES = 32 * 2**20  # messages can have images

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("POST", "/api/chat", f"{_HERE}.handlers:chat", max_body_size=_MOST_BYTES),
    HttpRoute("POST", "/api/generate", f"{_HERE}.handlers:generate", max_body_size=_MOST_BYTES),
    HttpRoute("POST", "/api/embed", f"{_HERE}.handlers:embed", max_body_size=_MOST_BYTES),
    HttpRoute("POST", "/api/embeddings", f"{_HERE}.handlers:embeddings", max_body_size=_MOST_BYTES),
    HttpRoute("GET", "/api/tags", f"{_HERE}.handlers:tags"),
    HttpRoute("POST", "/api/show", f"{_HERE}.handlers:show"),
    HttpRoute("GET", "/api/ps", f"{_HERE}.handlers:running"),
    HttpRoute("GET", "/api/version", f"{_HERE}.handlers:version"),
    HttpRoute("POST", "/api/pull", f"{_HERE}.handlers:elsewhere"),
    HttpRoute("POST", "/api/push", f"{_HERE}.handlers:elsewhere"),
    HttpRoute("POST", "/api/create", f"{_HERE}.handlers:elsewhere"),
    HttpRoute("POST", "/api/copy", f"{_HERE}.handlers:elsewhere"),
    HttpRoute("DELETE", "/api/delete", f"{_HERE}.handlers:elsewhere"),
    HttpRoute("POST", "/api/blobs/{digest}", f"{_HERE}.handlers:elsewhere"),
)
