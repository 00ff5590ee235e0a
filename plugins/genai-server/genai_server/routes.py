"""The HTTP routes of the host itself: its API, the list of models, and the page.

`submit` of the native API is loaded at startup, together with the job worker.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import HttpRoute
from genai_host.serving import models

Routes = tuple[HttpRoute, ...]

ROOT = "/api/v1"
"""Prefix of the paths of the native API."""

_SIZE = 32 * 2**20  # bytes, because messages can have images


def _route(at: str, handler: str, **options: Any) -> HttpRoute:
    method, _, path = at.partition(" ")
    # the method is one of the literals below
    return HttpRoute(method, path, f"genai_server.{handler}", **options)  # type: ignore[arg-type]


PAGE: Routes = (
    _route("GET /", "page:Assets.page", max_body_size=0, rate_limited=False),
    _route("GET /page", "page:Assets.page", max_body_size=0, rate_limited=False),
    _route("GET /page/assets/{name}", "page:Assets.asset", max_body_size=0, rate_limited=False),
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
    """Return the routes of the host itself."""
    return [*models.ROUTES, *NATIVE, *PAGE]
