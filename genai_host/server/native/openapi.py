"""The OpenAPI document of the native API.

Source: OpenAPI Specification 3.1.0.

It is generated from `ENDPOINTS`, which has an entry for each route, and `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.host import Host
from genai_host.server.native.routes import ROOT, ROUTES
from genai_host.server.native.schemas import SCHEMAS
from genai_host.util.names import __version__

Wire = Mapping[str, Any]

_LIMIT: Wire = {"type": "integer", "minimum": 1, "maximum": 200}
_TURNS: Wire = {"type": "integer", "minimum": 1, "maximum": 1000}
_FLAG: Wire = {"type": "boolean"}
_TEXT: Wire = {"type": "string"}


@frozen
class Endpoint:
    """Description of a route.

    Attributes:
        summary: One line.
        reply: Name of the schema of the reply; empty for none.
        body: Name of the schema of the body; empty for none.
        status: Status of the reply.
        query: Schemas of the query parameters.
        kinds: Further media types of the reply.
        once: Whether Idempotency-Key is supported.
    """

    summary: str
    reply: str = ""
    body: str = ""
    status: int = 200
    query: Mapping[str, Wire] = field(factory=dict)
    kinds: Sequence[str] = ()
    once: bool = False


_STREAM = ("text/event-stream",)
_KINDS: Mapping[str, Wire] = {
    "text/event-stream": {
        "schema": {
            "type": "string",
            "contentMediaType": "text/event-stream",
            "description": "Server-sent events; `TurnEvents` and `PreparationEvents` have "
            "the data of each",
        }
    }
}
ENDPOINTS: Mapping[str, Endpoint] = {
    "GET ": Endpoint("Information about the server", "About"),
    "GET /openapi.json": Endpoint("This OpenAPI document", "Anything"),
    "GET /plugins": Endpoint("List plugins and their status", "Plugins"),
    "GET /features": Endpoint("List features", "Features"),
    "GET /features/{name}": Endpoint("Get a feature", "Feature"),
    "GET /usage": Endpoint(
        "Usage, cost and latency of model calls",
        "Stats",
        query={"by": _TEXT, "since": _TEXT, "until": _TEXT, "user": _TEXT},
    ),
    "GET /budgets": Endpoint("Budgets and current spending", "Budgets"),
    "GET /models": Endpoint("List models and their providers", "Models"),
    "POST /models": Endpoint("Add a model configuration", "Model", "NewModel", 201),
    "GET /models/{name}": Endpoint("Get a model configuration", "Model"),
    "PATCH /models/{name}": Endpoint("Change a model configuration", "Model", "ModelChange"),
    "DELETE /models/{name}": Endpoint("Remove a model configuration", status=204),
    "GET /provider-types": Endpoint("List provider types and their settings", "ProviderTypes"),
    "GET /routes": Endpoint(
        "List models at providers, with reasons why some cannot run",
        "Routes",
        query={
            "model": _TEXT,
            "provider": _TEXT,
            "operation": {"enum": ["chat", "embed", "moderate", "count"]},
            "runs": _FLAG,
        },
    ),
    "GET /providers": Endpoint("List providers", "Providers"),
    "POST /providers": Endpoint("Add a provider", "Provider", "NewProvider", 201),
    "GET /providers/{name}": Endpoint("Get a provider", "Provider"),
    "PATCH /providers/{name}": Endpoint(
        "Change, enable or disable a provider", "Provider", "ProviderChange"
    ),
    "DELETE /providers/{name}": Endpoint("Remove a provider", status=204),
    "GET /providers/{name}/models": Endpoint(
        "List the models of a provider's service", "ListedModels"
    ),
    "POST /providers/{name}/prepare": Endpoint(
        "Make a provider ready, for example by a download, and stream the progress",
        body="Preparing",
        kinds=_STREAM,
    ),
    "GET /conversations": Endpoint(
        "List conversations, most recently used first; or search messages",
        "Conversations",
        query={"limit": _LIMIT, "after": _TEXT, "search": _TEXT},
    ),
    "POST /conversations": Endpoint(
        "Open a conversation", "Conversation", "NewConversation", 201, once=True
    ),
    "GET /conversations/{id}": Endpoint(
        "Get a conversation and its last turns",
        "Conversation",
        query={
            "details": _FLAG,
            "limit": _TURNS,
            "before": {"type": "integer", "minimum": 0, "maximum": 10**9},
        },
    ),
    "PATCH /conversations/{id}": Endpoint(
        "Rename a conversation, or change its model and settings",
        "Conversation",
        "ConversationChange",
    ),
    "DELETE /conversations/{id}": Endpoint("Delete a conversation", status=204),
    "POST /conversations/{id}/turns": Endpoint(
        "Send a message; with `stream`, receive events",
        "TurnReply",
        "NewTurn",
        kinds=_STREAM,
        once=True,
    ),
    "POST /conversations/{id}/resume": Endpoint(
        "Resume a paused or interrupted turn",
        "TurnReply",
        "Result",
        kinds=_STREAM,
        once=True,
    ),
    "POST /conversations/{id}/cancel": Endpoint("Cancel the running turn", "Cancelled", status=202),
    "POST /conversations/{id}/undo": Endpoint("Undo the last turn", "Undone"),
    "POST /conversations/{id}/abandon": Endpoint("Abandon a paused turn", "Conversation"),
    "GET /conversations/{id}/export": Endpoint(
        "Export a conversation as JSON or Markdown",
        "Anything",
        query={"format": {"enum": ["json", "markdown"]}},
        kinds=("text/markdown",),
    ),
    "GET /conversations/{id}/images/{turn}/{number}": Endpoint(
        "Get an image of an answer", kinds=("image/*", "application/octet-stream")
    ),
    "POST /jobs": Endpoint("Start a turn in the background", "Job", "NewJob", 202, once=True),
    "GET /jobs/{id}": Endpoint("Get the status of a job", "Job"),
    "GET /jobs/{id}/result": Endpoint(
        "Get the result of a job; 202 while it runs",
        "TurnReply",
        query={"wait": {"type": "number", "minimum": 0, "maximum": 30}},
    ),
    "DELETE /jobs/{id}": Endpoint("Cancel and delete a job", status=204),
}
"""Endpoints by method and path below the root of the API."""


def document(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(description(request.root))


def description(root: str = "") -> dict[str, Any]:
    """Return the document. `root` is the prefix of all paths, behind a proxy."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        below = route.path.removeprefix(ROOT)
        endpoint = ENDPOINTS[f"{route.method} {below}"]
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(
            f"{route.method.lower()}{_camel(below)}", below, endpoint
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "genai-host",
            "version": __version__,
            "description": "Conversations with any model on any provider, through any feature.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root or "/"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {
                    "description": "The error, and the next step",
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                    },
                }
            },
        },
    }


def _operation(id: str, below: str, endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": id,
        "summary": endpoint.summary,
        "parameters": [*_in_path(below), *_in_query(endpoint), *_in_header(endpoint)],
        "responses": {
            str(endpoint.status): _reply(endpoint),
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if endpoint.body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _reference(endpoint.body)}},
        }
    if "/result" in below:
        operation["responses"]["202"] = {
            "description": "The job is still running",
            "content": {"application/json": {"schema": _reference("Job")}},
        }
    return operation


def _reply(endpoint: Endpoint) -> dict[str, Any]:
    content: dict[str, Any] = {kind: _KINDS.get(kind, {}) for kind in endpoint.kinds}
    if endpoint.reply:
        content["application/json"] = {"schema": _reference(endpoint.reply)}
    return {"description": endpoint.summary, **({"content": content} if content else {})}


def _in_path(below: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{([a-z]+)\}", below)
    ]


def _in_query(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "schema": schema} for name, schema in endpoint.query.items()
    ]


def _in_header(endpoint: Endpoint) -> list[dict[str, Any]]:
    if not endpoint.once:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return [{"name": "Idempotency-Key", "in": "header", "schema": schema}]


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _camel(path: str) -> str:
    return "".join(word.capitalize() for word in re.findall(r"[a-z]+", path)) or "About"
