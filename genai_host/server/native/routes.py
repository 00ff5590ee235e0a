"""The routes of the native API. `submit` is loaded at startup, together with the job worker."""

from __future__ import annotations

from genai_host.api import HttpRoute

ROOT = "/api/v1"
_HERE = "genai_host.server.native"
_SIZE = 32 * 2**20  # bytes, because messages can have images
_ONE = "/conversations/{id}"

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", ROOT, f"{_HERE}.lists:about"),
    HttpRoute("GET", f"{ROOT}/openapi.json", f"{_HERE}.openapi:document"),
    HttpRoute("GET", f"{ROOT}/plugins", f"{_HERE}.lists:plugins"),
    HttpRoute("GET", f"{ROOT}/features", f"{_HERE}.lists:features"),
    HttpRoute("GET", f"{ROOT}/features/{{name}}", f"{_HERE}.lists:feature"),
    HttpRoute("GET", f"{ROOT}/models", f"{_HERE}.lists:models"),
    HttpRoute("POST", f"{ROOT}/models", f"{_HERE}.models:create"),
    HttpRoute("GET", f"{ROOT}/models/{{name}}", f"{_HERE}.models:show"),
    HttpRoute("PATCH", f"{ROOT}/models/{{name}}", f"{_HERE}.models:change"),
    HttpRoute("DELETE", f"{ROOT}/models/{{name}}", f"{_HERE}.models:remove"),
    HttpRoute("GET", f"{ROOT}/provider-types", f"{_HERE}.lists:providers"),
    HttpRoute("GET", f"{ROOT}/routes", f"{_HERE}.lists:routes"),
    HttpRoute("GET", f"{ROOT}/providers", f"{_HERE}.providers:listed"),
    HttpRoute("POST", f"{ROOT}/providers", f"{_HERE}.providers:create"),
    HttpRoute("GET", f"{ROOT}/providers/{{name}}", f"{_HERE}.providers:show"),
    HttpRoute("PATCH", f"{ROOT}/providers/{{name}}", f"{_HERE}.providers:change"),
    HttpRoute("DELETE", f"{ROOT}/providers/{{name}}", f"{_HERE}.providers:remove"),
    HttpRoute("GET", f"{ROOT}/providers/{{name}}/models", f"{_HERE}.preparing:models"),
    HttpRoute("POST", f"{ROOT}/providers/{{name}}/prepare", f"{_HERE}.preparing:prepare"),
    HttpRoute("GET", f"{ROOT}/usage", f"{_HERE}.lists:usage"),
    HttpRoute("GET", f"{ROOT}/budgets", f"{_HERE}.lists:budgets"),
    HttpRoute("GET", f"{ROOT}/conversations", f"{_HERE}.api:Api.conversations.listed"),
    HttpRoute("POST", f"{ROOT}/conversations", f"{_HERE}.api:Api.create"),
    HttpRoute("GET", f"{ROOT}{_ONE}", f"{_HERE}.api:Api.conversations.show"),
    HttpRoute("PATCH", f"{ROOT}{_ONE}", f"{_HERE}.api:Api.conversations.change"),
    HttpRoute("DELETE", f"{ROOT}{_ONE}", f"{_HERE}.api:Api.conversations.delete"),
    HttpRoute("POST", f"{ROOT}{_ONE}/turns", f"{_HERE}.api:Api.say", max_body_size=_SIZE),
    HttpRoute("POST", f"{ROOT}{_ONE}/resume", f"{_HERE}.api:Api.resume"),
    HttpRoute("POST", f"{ROOT}{_ONE}/cancel", f"{_HERE}.api:Api.conversations.cancel"),
    HttpRoute("POST", f"{ROOT}{_ONE}/undo", f"{_HERE}.api:Api.conversations.undo"),
    HttpRoute("POST", f"{ROOT}{_ONE}/abandon", f"{_HERE}.api:Api.conversations.abandon"),
    HttpRoute("GET", f"{ROOT}{_ONE}/export", f"{_HERE}.api:Api.conversations.export"),
    HttpRoute(
        "GET", f"{ROOT}{_ONE}/images/{{turn}}/{{number}}", f"{_HERE}.api:Api.conversations.image"
    ),
    HttpRoute(
        "POST", f"{ROOT}/jobs", f"{_HERE}.api:Api.submit", max_body_size=_SIZE, run_at_startup=True
    ),
    HttpRoute("GET", f"{ROOT}/jobs/{{id}}", f"{_HERE}.api:Api.jobs.show"),
    HttpRoute("GET", f"{ROOT}/jobs/{{id}}/result", f"{_HERE}.api:Api.jobs.result"),
    HttpRoute("DELETE", f"{ROOT}/jobs/{{id}}", f"{_HERE}.api:Api.jobs.remove"),
)
