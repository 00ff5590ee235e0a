"""The HTTP routes of the host itself: its APIs and the page.

`submit` of the native API is loaded at startup, together with the job worker.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import HttpRoute
from genai_host.serving import models

Routes = tuple[HttpRoute, ...]

ROOT = "/api/v1"
"""Prefix of the paths of the native API."""

_SIZE = 32 * 2**20  # bytes, as at the vendors' services, because messages can have images


def _route(at: str, handler: str, **options: Any) -> HttpRoute:
    method, _, path = at.partition(" ")
    # the method is one of the literals below
    return HttpRoute(method, path, f"genai_host.server.{handler}", **options)  # type: ignore[arg-type]


OPENAI: Routes = (
    _route("POST /v1/chat/completions", "openai.handlers:complete", max_body_size=_SIZE),
    _route("POST /v1/embeddings", "openai.handlers:embed", max_body_size=_SIZE),
    _route("POST /v1/moderations", "openai.handlers:moderate"),
)

RESPONSES: Routes = (
    _route("POST /v1/responses", "responses.api:ResponsesApi.create", max_body_size=_SIZE),
    _route(
        "POST /v1/responses/input_tokens", "responses.api:ResponsesApi.count", max_body_size=_SIZE
    ),
    _route("GET /v1/responses/{response}", "responses.api:ResponsesApi.show"),
    _route("DELETE /v1/responses/{response}", "responses.api:ResponsesApi.delete"),
    _route("POST /v1/responses/{response}/cancel", "responses.api:ResponsesApi.cancel"),
    _route("GET /v1/responses/{response}/input_items", "responses.api:ResponsesApi.input_items"),
    _route(
        "POST /v1/conversations",
        "responses.api:ResponsesApi.create_conversation",
        max_body_size=_SIZE,
    ),
    _route("GET /v1/conversations/{conversation}", "responses.api:ResponsesApi.show_conversation"),
    _route(
        "POST /v1/conversations/{conversation}", "responses.api:ResponsesApi.update_conversation"
    ),
    _route(
        "DELETE /v1/conversations/{conversation}", "responses.api:ResponsesApi.delete_conversation"
    ),
    _route("GET /v1/conversations/{conversation}/items", "responses.api:ResponsesApi.items"),
    _route(
        "POST /v1/conversations/{conversation}/items",
        "responses.api:ResponsesApi.add_items",
        max_body_size=_SIZE,
    ),
    _route("GET /v1/conversations/{conversation}/items/{item}", "responses.api:ResponsesApi.item"),
    _route(
        "DELETE /v1/conversations/{conversation}/items/{item}",
        "responses.api:ResponsesApi.delete_item",
    ),
)

ANTHROPIC: Routes = (
    _route("POST /v1/messages", "anthropic.handlers:create", max_body_size=_SIZE),
    _route("POST /v1/messages/count_tokens", "anthropic.handlers:count", max_body_size=_SIZE),
    _route("GET /v1/messages/batches", "anthropic.handlers:no_batches"),
    _route("POST /v1/messages/batches", "anthropic.handlers:no_batches"),
    _route("GET /v1/messages/batches/{id}", "anthropic.handlers:no_batches"),
)

# a model name can have slashes, for example `provider/owner/id`, as they are or percent-encoded
GEMINI: Routes = (
    *(
        _route(f"POST {version}/models/{named}", "gemini.handlers:call", max_body_size=_SIZE)
        for version in ("/v1", "/v1beta", "")  # some clients, such as litellm, send none
        for named in ("{call}", "{provider}/{call}", "{provider}/{owner}/{call}")
    ),
    _route("GET /v1beta/models", "gemini.handlers:listed"),
    *(
        _route(f"GET /v1beta/models/{named}", "gemini.handlers:one")
        for named in ("{model}", "{provider}/{model}", "{provider}/{owner}/{model}")
    ),
)

OLLAMA: Routes = (
    _route("POST /api/chat", "ollama.handlers:chat", max_body_size=_SIZE),
    _route("POST /api/generate", "ollama.handlers:generate", max_body_size=_SIZE),
    _route("POST /api/embed", "ollama.handlers:embed", max_body_size=_SIZE),
    _route("POST /api/embeddings", "ollama.handlers:embeddings", max_body_size=_SIZE),
    _route("GET /api/tags", "ollama.handlers:tags"),
    _route("POST /api/show", "ollama.handlers:show"),
    _route("GET /api/ps", "ollama.handlers:running"),
    _route("GET /api/version", "ollama.handlers:version"),
    _route("POST /api/pull", "ollama.handlers:pull"),
    _route("POST /api/push", "ollama.handlers:elsewhere"),
    _route("POST /api/create", "ollama.handlers:elsewhere"),
    _route("POST /api/copy", "ollama.handlers:elsewhere"),
    _route("DELETE /api/delete", "ollama.handlers:elsewhere"),
    _route("POST /api/blobs/{digest}", "ollama.handlers:elsewhere"),
)

PAGE: Routes = (
    _route("GET /", "page.assets:Assets.page", max_body_size=0, rate_limited=False),
    _route("GET /page", "page.assets:Assets.page", max_body_size=0, rate_limited=False),
    _route(
        "GET /page/assets/{name}", "page.assets:Assets.asset", max_body_size=0, rate_limited=False
    ),
    _route("POST /page/markdown", "page.markdown:render", rate_limited=False),
)

NATIVE: Routes = (
    _route("GET /api/v1", "native.lists:about"),
    _route("GET /api/v1/openapi.json", "native.openapi:document"),
    _route("GET /api/v1/plugins", "native.lists:plugins"),
    _route("GET /api/v1/features", "native.lists:features"),
    _route("GET /api/v1/features/{name}", "native.lists:feature"),
    _route("GET /api/v1/models", "native.lists:models"),
    _route("POST /api/v1/models", "native.models:create"),
    _route("GET /api/v1/models/{name}", "native.models:show"),
    _route("PATCH /api/v1/models/{name}", "native.models:change"),
    _route("DELETE /api/v1/models/{name}", "native.models:remove"),
    _route("GET /api/v1/provider-types", "native.lists:providers"),
    _route("GET /api/v1/routes", "native.lists:routes"),
    _route("GET /api/v1/providers", "native.providers:listed"),
    _route("POST /api/v1/providers", "native.providers:create"),
    _route("GET /api/v1/providers/{name}", "native.providers:show"),
    _route("PATCH /api/v1/providers/{name}", "native.providers:change"),
    _route("DELETE /api/v1/providers/{name}", "native.providers:remove"),
    _route("GET /api/v1/providers/{name}/models", "native.providers:models"),
    _route("POST /api/v1/providers/{name}/prepare", "native.providers:prepare"),
    _route("GET /api/v1/usage", "native.lists:usage"),
    _route("GET /api/v1/budgets", "native.lists:budgets"),
    _route("GET /api/v1/conversations", "native.api:Api.conversations.listed"),
    _route("POST /api/v1/conversations", "native.api:Api.create"),
    _route("GET /api/v1/conversations/{id}", "native.api:Api.conversations.show"),
    _route("PATCH /api/v1/conversations/{id}", "native.api:Api.conversations.change"),
    _route("DELETE /api/v1/conversations/{id}", "native.api:Api.conversations.delete"),
    _route("POST /api/v1/conversations/{id}/turns", "native.api:Api.say", max_body_size=_SIZE),
    _route("POST /api/v1/conversations/{id}/resume", "native.api:Api.resume"),
    _route("POST /api/v1/conversations/{id}/cancel", "native.api:Api.conversations.cancel"),
    _route("POST /api/v1/conversations/{id}/undo", "native.api:Api.conversations.undo"),
    _route("POST /api/v1/conversations/{id}/abandon", "native.api:Api.conversations.abandon"),
    _route("GET /api/v1/conversations/{id}/export", "native.api:Api.conversations.export"),
    _route(
        "GET /api/v1/conversations/{id}/images/{turn}/{number}",
        "native.api:Api.conversations.image",
    ),
    _route("POST /api/v1/jobs", "native.api:Api.submit", max_body_size=_SIZE, run_at_startup=True),
    _route("GET /api/v1/jobs/{id}", "native.api:Api.jobs.show"),
    _route("GET /api/v1/jobs/{id}/result", "native.api:Api.jobs.result"),
    _route("DELETE /api/v1/jobs/{id}", "native.api:Api.jobs.remove"),
)


def own_routes() -> list[HttpRoute]:
    """Return the routes of all APIs, in the order of matching."""
    return [*OPENAI, *RESPONSES, *models.ROUTES, *ANTHROPIC, *GEMINI, *OLLAMA, *NATIVE, *PAGE]
