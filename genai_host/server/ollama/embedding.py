"""Texts to vectors: `/api/embed`, and `/api/embeddings`, which came before it.

Source: Ollama's `docs/api.md`, "Generate Embeddings", "Generate Embedding".
"""

from __future__ import annotations

from typing import Any

from genai_host.api import RouteReply, RouteRequest, Vectors, json_reply
from genai_host.api.given import Given, body_of
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.ollama.names import model_in
from genai_host.server.ollama.options import OF_THE_MACHINE
from genai_host.server.ollama.replies import nanoseconds

_MOST = 2048
"""Texts at once: services take about as many in one request."""


def embed(request: RouteRequest, host: Host) -> RouteReply:
    body = body_of(request)
    sent, model = model_in(body)
    given = body.raw("input")
    texts = [given] if isinstance(given, str) else [*body.texts("input")]
    if len(texts) > _MOST:
        raise InvalidData(f"there are more than {_MOST} texts", path=body.at("input"))
    found = _embedded(texts, body, model, request, host)
    return json_reply(
        {
            "model": sent,
            "embeddings": found.vectors,
            "total_duration": nanoseconds(found.seconds),
            "load_duration": 0,
            "prompt_eval_count": found.usage.input,
        }
    )


def embeddings(request: RouteRequest, host: Host) -> RouteReply:
    body = body_of(request)
    _, model = model_in(body)
    prompt = body.text("prompt")
    found = _embedded([prompt] if prompt else [], body, model, request, host)
    return json_reply({"embedding": found.vectors[0] if found.vectors else []})


def _embedded(
    texts: list[str], body: Given, model: str, request: RouteRequest, host: Host
) -> Vectors:
    taken = able(host, model, "embed").parameters
    parameters: dict[str, Any] = {}
    options = body.object("options")
    if options is not None:
        names = [name for name in OF_THE_MACHINE if name in options and name in taken]
        parameters = {name: options.raw(name) for name in names}
    dimensions, truncate = body.whole("dimensions"), body.flag("truncate")
    if dimensions:
        parameters["dimensions"] = dimensions
    if truncate is not None and "truncate" in taken:
        parameters["truncate"] = truncate
    if not texts:
        return Vectors([])
    limits, user = request.limits, request.user
    return host.embed(texts, model=model, parameters=parameters, limits=limits, owner=user)
