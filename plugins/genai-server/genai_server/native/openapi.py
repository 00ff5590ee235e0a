"""The OpenAPI document of the native API.

Source: OpenAPI Specification 3.1.0.

It is generated from `ENDPOINTS`, which has an entry for each route, and `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from attrs import field, frozen

from genai_host.api import Operation, RouteRequest, RouteResponse, json_response
from genai_host.host import Host
from genai_host.util.names import __version__
from genai_server.native.schemas import SCHEMAS
from genai_server.routes import NATIVE, ROOT

JsonSchema = Mapping[str, Any]

_LIMIT: JsonSchema = {"type": "integer", "minimum": 1, "maximum": 200}
_TURNS: JsonSchema = {"type": "integer", "minimum": 1, "maximum": 1000}
_FLAG: JsonSchema = {"type": "boolean"}
_TEXT: JsonSchema = {"type": "string"}


@frozen
class RouteDescription:
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
    query: Mapping[str, JsonSchema] = field(factory=dict)
    kinds: Sequence[str] = ()
    once: bool = False


_STREAM = ("text/event-stream",)
_KINDS: Mapping[str, JsonSchema] = {
    "text/event-stream": {
        "schema": {
            "type": "string",
            "contentMediaType": "text/event-stream",
            "description": "Server-sent events; `TurnEvents` and `PreparationEvents` have "
            "the data of each",
        }
    }
}
ENDPOINTS: Mapping[str, RouteDescription] = {
    "GET ": RouteDescription("Information about the server", "About"),
    "GET /openapi.json": RouteDescription("This OpenAPI document", "Anything"),
    "GET /plugins": RouteDescription("List plugins and their status", "Plugins"),
    "GET /features": RouteDescription("List features", "Features"),
    "GET /features/{name}": RouteDescription("Get a feature", "Feature"),
    "GET /usage": RouteDescription(
        "Usage, cost and latency of model calls",
        "Stats",
        query={"by": _TEXT, "since": _TEXT, "until": _TEXT, "user": _TEXT},
    ),
    "GET /budgets": RouteDescription("Budgets and current spending", "Budgets"),
    "GET /models": RouteDescription("List models and their providers", "Models"),
    "POST /models": RouteDescription("Add a model configuration", "Model", "NewModel", 201),
    "GET /models/{name}": RouteDescription("Get a model configuration", "Model"),
    "PATCH /models/{name}": RouteDescription(
        "Change a model configuration", "Model", "ModelChange"
    ),
    "DELETE /models/{name}": RouteDescription("Remove a model configuration", status=204),
    "GET /provider-types": RouteDescription(
        "List provider types and their settings", "ProviderTypes"
    ),
    "GET /routes": RouteDescription(
        "List models at providers, with reasons why some cannot run",
        "Routes",
        query={
            "model": _TEXT,
            "provider": _TEXT,
            "operation": {"enum": list(get_args(Operation))},
            "runs": _FLAG,
        },
    ),
    "GET /providers": RouteDescription("List providers", "Providers"),
    "POST /providers": RouteDescription("Add a provider", "Provider", "NewProvider", 201),
    "GET /providers/{name}": RouteDescription("Get a provider", "Provider"),
    "PATCH /providers/{name}": RouteDescription(
        "Change, enable or disable a provider", "Provider", "ProviderChange"
    ),
    "DELETE /providers/{name}": RouteDescription("Remove a provider", status=204),
    "GET /providers/{name}/models": RouteDescription(
        "List the models of a provider's service", "ListedModels"
    ),
    "POST /providers/{name}/prepare": RouteDescription(
        "Make a provider ready, for example by a download, and stream the progress",
        body="Preparing",
        kinds=_STREAM,
    ),
    "GET /conversations": RouteDescription(
        "List conversations, most recently used first; or search messages",
        "Conversations",
        query={"limit": _LIMIT, "after": _TEXT, "search": _TEXT},
    ),
    "POST /conversations": RouteDescription(
        "Open a conversation", "Conversation", "NewConversation", 201, once=True
    ),
    "GET /conversations/{id}": RouteDescription(
        "Get a conversation and its last turns",
        "Conversation",
        query={
            "details": _FLAG,
            "limit": _TURNS,
            "before": {"type": "integer", "minimum": 0, "maximum": 10**9},
        },
    ),
    "PATCH /conversations/{id}": RouteDescription(
        "Rename a conversation, or change its model and settings",
        "Conversation",
        "ConversationChange",
    ),
    "DELETE /conversations/{id}": RouteDescription("Delete a conversation", status=204),
    "POST /conversations/{id}/turns": RouteDescription(
        "Send a message; with `stream`, receive events",
        "TurnReply",
        "NewTurn",
        kinds=_STREAM,
        once=True,
    ),
    "POST /conversations/{id}/resume": RouteDescription(
        "Resume a paused or interrupted turn",
        "TurnReply",
        "Result",
        kinds=_STREAM,
        once=True,
    ),
    "POST /conversations/{id}/cancel": RouteDescription(
        "Cancel the running turn", "Cancelled", status=202
    ),
    "POST /conversations/{id}/undo": RouteDescription("Undo the last turn", "Undone"),
    "POST /conversations/{id}/abandon": RouteDescription("Abandon a paused turn", "Conversation"),
    "GET /conversations/{id}/export": RouteDescription(
        "Export a conversation as JSON or Markdown",
        "Anything",
        query={"format": {"enum": ["json", "markdown"]}},
        kinds=("text/markdown",),
    ),
    "GET /conversations/{id}/images/{turn}/{number}": RouteDescription(
        "Get an image of an answer", kinds=("image/*", "application/octet-stream")
    ),
    "POST /jobs": RouteDescription(
        "Start a turn in the background", "Job", "NewJob", 202, once=True
    ),
    "GET /jobs/{id}": RouteDescription("Get the status of a job", "Job"),
    "GET /jobs/{id}/result": RouteDescription(
        "Get the result of a job; 202 while it runs",
        "TurnReply",
        query={"wait": {"type": "number", "minimum": 0, "maximum": 30}},
    ),
    "DELETE /jobs/{id}": RouteDescription("Cancel and delete a job", status=204),
}
"""Endpoints by method and path below the root of the API."""


def document(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(description(request.root))


def description(root: str = "") -> dict[str, Any]:
    """Return the document. `root` is the prefix of all paths, behind a proxy."""
    paths: dict[str, dict[str, Any]] = {}
    for route in NATIVE:
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


def _operation(id: str, below: str, endpoint: RouteDescription) -> dict[str, Any]:
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


def _reply(endpoint: RouteDescription) -> dict[str, Any]:
    content: dict[str, Any] = {kind: _KINDS.get(kind, {}) for kind in endpoint.kinds}
    if endpoint.reply:
        content["application/json"] = {"schema": _reference(endpoint.reply)}
    return {"description": endpoint.summary, **({"content": content} if content else {})}


def _in_path(below: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{([a-z]+)\}", below)
    ]


def _in_query(endpoint: RouteDescription) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "schema": schema} for name, schema in endpoint.query.items()
    ]


def _in_header(endpoint: RouteDescription) -> list[dict[str, Any]]:
    if not endpoint.once:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return [{"name": "Idempotency-Key", "in": "header", "schema": schema}]


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _camel(path: str) -> str:
    return "".join(word.capitalize() for word in re.findall(r"[a-z]+", path)) or "About"
