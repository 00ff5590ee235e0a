"""The paths of OpenAI's Responses and Conversations API."""

from __future__ import annotations

from genai_host.api import HttpRoute

_API = "genai_host.server.responses.api:ResponsesApi"
_ONE = "/v1/responses/{response}"
_CONVERSATION = "/v1/conversations/{conversation}"
_WITH_IMAGES = 32 * 2**20

ROUTES = (
    HttpRoute("POST", "/v1/responses", f"{_API}.create", max_body_size=_WITH_IMAGES),
    HttpRoute("POST", "/v1/responses/input_tokens", f"{_API}.count", max_body_size=_WITH_IMAGES),
    HttpRoute("GET", _ONE, f"{_API}.show"),
    HttpRoute("DELETE", _ONE, f"{_API}.delete"),
    HttpRoute("POST", f"{_ONE}/cancel", f"{_API}.cancel"),
    HttpRoute("GET", f"{_ONE}/input_items", f"{_API}.input_items"),
    HttpRoute(
        "POST", "/v1/conversations", f"{_API}.create_conversation", max_body_size=_WITH_IMAGES
    ),
    HttpRoute("GET", _CONVERSATION, f"{_API}.show_conversation"),
    HttpRoute("POST", _CONVERSATION, f"{_API}.update_conversation"),
    HttpRoute("DELETE", _CONVERSATION, f"{_API}.delete_conversation"),
    HttpRoute("GET", f"{_CONVERSATION}/items", f"{_API}.items"),
    HttpRoute("POST", f"{_CONVERSATION}/items", f"{_API}.add_items", max_body_size=_WITH_IMAGES),
    HttpRoute("GET", f"{_CONVERSATION}/items/{{item}}", f"{_API}.item"),
    HttpRoute("DELETE", f"{_CONVERSATION}/items/{{item}}", f"{_API}.delete_item"),
)
