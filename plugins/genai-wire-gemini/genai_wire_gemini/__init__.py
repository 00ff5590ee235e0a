"""Gemini's API format, both sides: requests of clients and requests to services.

dialects `gemini`, `gemini-embed`, `gemini-count`
routes   `generateContent`, `embedContent`, `countTokens`, models

- `dialect`: writes requests to services, reads their replies
- `server`: reads requests of clients, writes replies
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, HttpApi, HttpRoute, hookimpl

_HANDLERS = "genai_wire_gemini.server.handlers"
_SIZE = 32 * 2**20  # bytes, as at the service, because messages can have images
# a colon may be part of a model name such as `llama3:latest`
_PATHS = (
    r"/v1beta(?!/openai(/|$))(/.*)?|(/v1)?/models/.+:[a-z]+[A-Z][A-Za-z]*"
    r"|/v1/[^/]+/[^/]+:[a-z]+[A-Z][A-Za-z]*|/v1/tunedModels/.*|/upload/v1(beta)?(/.*)?"
)


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_wire_gemini.dialect.generate_content import (
        EmbedContent,
        GeminiCountTokens,
        GenerateContent,
    )

    return [GenerateContent(), EmbedContent(), GeminiCountTokens()]


@hookimpl
def genai_http_apis() -> Iterable[HttpApi]:
    yield HttpApi(
        "gemini",
        "genai_wire_gemini.server.replies:problem_reply",
        paths=_PATHS,
        shared_paths="/v1(/.*)?",
        headers=["x-goog-api-key", "x-goog-api-client"],
        # the AI SDK sends no `models/` before a name with a slash
        aliases={"/v1beta": "/v1beta/models"},
        list_models=f"{_HANDLERS}:listed",
        show_model=f"{_HANDLERS}:one",
    )


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    return _ROUTES


# a model name can have slashes, for example `provider/owner/id`, as they are or percent-encoded
_ROUTES = (
    *(
        HttpRoute(
            "POST", f"{version}/models/{{call:path}}", f"{_HANDLERS}:call", max_body_size=_SIZE
        )
        for version in ("/v1", "/v1beta", "")  # some clients, such as litellm, send none
    ),
    HttpRoute("GET", "/v1beta/models", f"{_HANDLERS}:listed"),
    HttpRoute("GET", "/v1beta/models/{model:path}", f"{_HANDLERS}:one"),
)
