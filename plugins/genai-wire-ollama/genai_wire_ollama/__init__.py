"""Ollama's API format, both sides: requests of clients and requests to services.

dialects `ollama-chat`, `ollama-embed`, `ollama-generate`
routes   chat, generate, embeddings, models

- `dialect`: writes requests to services, reads their replies
- `server`: reads requests of clients, writes replies
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, HttpApi, HttpRoute, hookimpl

_HANDLERS = "genai_wire_ollama.server.handlers"
_SIZE = 32 * 2**20  # bytes, as at the service, because messages can have images


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_wire_ollama.dialect.operations import OllamaChat, OllamaEmbed, OllamaGenerate

    return [OllamaChat(), OllamaEmbed(), OllamaGenerate()]


@hookimpl
def genai_http_apis() -> Iterable[HttpApi]:
    yield HttpApi(
        "ollama",
        "genai_wire_ollama.server.replies:problem_reply",
        paths="/api/(chat|tags|generate|show|ps|embed|embeddings|version|pull|push|create|copy|delete)",
    )


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    return _ROUTES


_ROUTES = (
    HttpRoute("POST", "/api/chat", f"{_HANDLERS}:chat", max_body_size=_SIZE),
    HttpRoute("POST", "/api/generate", f"{_HANDLERS}:generate", max_body_size=_SIZE),
    HttpRoute("POST", "/api/embed", f"{_HANDLERS}:embed", max_body_size=_SIZE),
    HttpRoute("POST", "/api/embeddings", f"{_HANDLERS}:embeddings", max_body_size=_SIZE),
    HttpRoute("GET", "/api/tags", f"{_HANDLERS}:tags"),
    HttpRoute("POST", "/api/show", f"{_HANDLERS}:show"),
    HttpRoute("GET", "/api/ps", f"{_HANDLERS}:running"),
    HttpRoute("GET", "/api/version", f"{_HANDLERS}:version"),
    HttpRoute("POST", "/api/pull", f"{_HANDLERS}:pull"),
    HttpRoute("POST", "/api/push", f"{_HANDLERS}:elsewhere"),
    HttpRoute("POST", "/api/create", f"{_HANDLERS}:elsewhere"),
    HttpRoute("POST", "/api/copy", f"{_HANDLERS}:elsewhere"),
    HttpRoute("DELETE", "/api/delete", f"{_HANDLERS}:elsewhere"),
    HttpRoute("POST", "/api/blobs/{digest}", f"{_HANDLERS}:elsewhere"),
)
