"""The description of the native API, for programs that read it.

Source: OpenAPI Specification 3.1.0.

It is made of `ENDPOINTS`, which has an entry for each route; `schemas` has the shapes.
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
    """
    summary   one line
    reply     name of the schema of what comes back; empty for nothing
    body      that of what is sent; empty for nothing
    status    of the reply
    query     parameters of the query, to their schemas
    kinds     media types of other forms of the reply
    once      whether an Idempotency-Key is heeded
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
    "GET ": Endpoint("What serves here", "About"),
    "GET /openapi.json": Endpoint("This document", "Anything"),
    "GET /plugins": Endpoint("Plugins, and how loading them ended", "Plugins"),
    "GET /features": Endpoint("What can be conversed with", "Features"),
    "GET /features/{name}": Endpoint("One of them", "Feature"),
    "GET /stats": Endpoint(
        "What calls of models came to",
        "Stats",
        query={"by": _TEXT, "since": _TEXT, "until": _TEXT, "user": _TEXT},
    ),
    "GET /budgets": Endpoint("What may be spent, and what was", "Budgets"),
    "GET /models": Endpoint("Models, and where they run", "Models"),
    "POST /models": Endpoint("Add a model configuration", "Model", "NewModel", 201),
    "GET /models/{name}": Endpoint("One of the model configurations", "Model"),
    "PATCH /models/{name}": Endpoint("Change a model configuration", "Model", "ModelChange"),
    "DELETE /models/{name}": Endpoint("Remove a model configuration", status=204),
    "GET /providers": Endpoint("Types of providers, and their settings", "ProviderTypes"),
    "GET /routes": Endpoint(
        "Models at providers: what runs, and why not",
        "Routes",
        query={
            "model": _TEXT,
            "provider": _TEXT,
            "operation": {"enum": ["chat", "embed", "moderate", "count"]},
            "runs": _FLAG,
        },
    ),
    "GET /instances": Endpoint("Instances of providers", "Instances"),
    "POST /instances": Endpoint("Add an instance", "Instance", "NewInstance", 201),
    "GET /instances/{name}": Endpoint("One of them", "Instance"),
    "PATCH /instances/{name}": Endpoint("Set, switch on or off", "Instance", "InstanceChange"),
    "DELETE /instances/{name}": Endpoint("Remove an instance", status=204),
    "GET /instances/{name}/models": Endpoint("The models that its service lists", "ListedModels"),
    "POST /instances/{name}/prepare": Endpoint(
        "Take the step that makes it ready, such as a download; the events tell its progress",
        body="Preparing",
        kinds=_STREAM,
    ),
    "GET /conversations": Endpoint(
        "Conversations, the last that was gone on with first; or messages that have words",
        "Conversations",
        query={"limit": _LIMIT, "after": _TEXT, "search": _TEXT},
    ),
    "POST /conversations": Endpoint(
        "Open a conversation", "Conversation", "NewConversation", 201, once=True
    ),
    "GET /conversations/{id}": Endpoint(
        "A conversation and its last turns",
        "Conversation",
        query={
            "details": _FLAG,
            "limit": _TURNS,
            "before": {"type": "integer", "minimum": 0, "maximum": 10**9},
        },
    ),
    "PATCH /conversations/{id}": Endpoint(
        "Rename it, or change what it goes on with", "Conversation", "ConversationChange"
    ),
    "DELETE /conversations/{id}": Endpoint("Delete a conversation", status=204),
    "POST /conversations/{id}/turns": Endpoint(
        "Say something; with `stream`, hear of the answer as it comes",
        "TurnReply",
        "NewTurn",
        kinds=_STREAM,
        once=True,
    ),
    "POST /conversations/{id}/resume": Endpoint(
        "Go on with a turn that waits, or was cut off",
        "TurnReply",
        "Result",
        kinds=_STREAM,
        once=True,
    ),
    "POST /conversations/{id}/cancel": Endpoint("End the turn under way", "Cancelled", status=202),
    "POST /conversations/{id}/undo": Endpoint("Take back the last turn", "Undone"),
    "POST /conversations/{id}/drop": Endpoint("End a turn that waits", "Conversation"),
    "GET /conversations/{id}/export": Endpoint(
        "All of it, for `conversations load`, or to be read",
        "Anything",
        query={"format": {"enum": ["json", "markdown"]}},
        kinds=("text/markdown",),
    ),
    "GET /conversations/{id}/pictures/{turn}/{number}": Endpoint(
        "A picture of an answer", kinds=("image/*", "application/octet-stream")
    ),
    "POST /jobs": Endpoint("Have a turn taken while nobody waits", "Job", "NewJob", 202, once=True),
    "GET /jobs/{id}": Endpoint("How a job stands", "Job"),
    "GET /jobs/{id}/result": Endpoint(
        "What came of a job; 202 while it runs",
        "TurnReply",
        query={"wait": {"type": "number", "minimum": 0, "maximum": 30}},
    ),
    "DELETE /jobs/{id}": Endpoint("Cancel and forget a job", status=204),
}
"""By method, and path below the root of the API."""


def document(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(description(request.root))


def description(root: str = "") -> dict[str, Any]:
    """
    root   what stands before all paths, behind a proxy
    """
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
                    "description": "What is wrong, and the next step",
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
            "description": "It runs yet",
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
