"""Anthropic's API format, both sides: requests of clients and requests to services.

dialects `anthropic-messages`, `anthropic-count`
routes   messages, token counts

- `dialect`: writes requests to services, reads their replies
- `server`: reads requests of clients, writes replies
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, HttpApi, HttpRoute, hookimpl

_HANDLERS = "genai_wire_anthropic.server.handlers"
_SIZE = 32 * 2**20  # bytes, as at the service, because messages can have images


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_wire_anthropic.dialect.messages import AnthropicCount, AnthropicMessages

    return [AnthropicMessages(), AnthropicCount()]


@hookimpl
def genai_http_apis() -> Iterable[HttpApi]:
    yield HttpApi(
        "anthropic",
        "genai_wire_anthropic.server.replies:problem_reply",
        paths="/v1/(messages|complete)(/.*)?",
        shared_paths="/v1(/.*)?",
        headers=["anthropic-version"],
        list_models=f"{_HANDLERS}:listed",
        show_model=f"{_HANDLERS}:one",
        request_id_header="request-id",
    )


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    return _ROUTES


_ROUTES = (
    HttpRoute("POST", "/v1/messages", f"{_HANDLERS}:create", max_body_size=_SIZE),
    HttpRoute("POST", "/v1/messages/count_tokens", f"{_HANDLERS}:count", max_body_size=_SIZE),
    HttpRoute("GET", "/v1/messages/batches", f"{_HANDLERS}:no_batches"),
    HttpRoute("POST", "/v1/messages/batches", f"{_HANDLERS}:no_batches"),
    HttpRoute("GET", "/v1/messages/batches/{id}", f"{_HANDLERS}:no_batches"),
)
