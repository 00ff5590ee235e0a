"""The addresses of Ollama's API."""

from __future__ import annotations

from genai_host.api import HttpRoute

_HERE = "genai_host.server.ollama"
_MOST_BYTES = 32 * 2**20  # pictures come in requests

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("POST", "/api/chat", f"{_HERE}.chat:chat", size=_MOST_BYTES),
    HttpRoute("POST", "/api/generate", f"{_HERE}.generate:generate", size=_MOST_BYTES),
    HttpRoute("POST", "/api/embed", f"{_HERE}.embedding:embed", size=_MOST_BYTES),
    HttpRoute("POST", "/api/embeddings", f"{_HERE}.embedding:embeddings", size=_MOST_BYTES),
    HttpRoute("GET", "/api/tags", f"{_HERE}.models:tags"),
    HttpRoute("POST", "/api/show", f"{_HERE}.models:show"),
    HttpRoute("GET", "/api/ps", f"{_HERE}.models:running"),
    HttpRoute("GET", "/api/version", f"{_HERE}.models:version"),
    HttpRoute("POST", "/api/pull", f"{_HERE}.models:elsewhere"),
    HttpRoute("POST", "/api/push", f"{_HERE}.models:elsewhere"),
    HttpRoute("POST", "/api/create", f"{_HERE}.models:elsewhere"),
    HttpRoute("POST", "/api/copy", f"{_HERE}.models:elsewhere"),
    HttpRoute("DELETE", "/api/delete", f"{_HERE}.models:elsewhere"),
    HttpRoute("POST", "/api/blobs/{digest}", f"{_HERE}.models:elsewhere"),
)
