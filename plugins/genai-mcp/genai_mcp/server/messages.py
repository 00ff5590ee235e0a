"""What the server writes: answers, errors, notifications, and what it asks a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from genai_host import __version__
from genai_mcp.protocol import MODERN, OWN
from genai_mcp.rpc import Id, RpcError
from genai_mcp.server.steps import Question

Outgoing: TypeAlias = "dict[str, Any]"

SERVER = {"name": "genai-host", "version": __version__}
CAPABILITIES: Mapping[str, Any] = {"tools": {}}  # nobody says when the tools of others change
CACHED: Mapping[str, Any] = {"ttlMs": 60_000, "cacheScope": "private"}
"""How long, and for whom, what is listed may be taken to hold."""

UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021
HEADER_MISMATCH = -32020

ELICIT = "elicitation/create"
_ALLOW = "allow"


def result(id: Id, value: Mapping[str, Any], *, modern: bool) -> Outgoing:
    """modern   whether it is for 2026-07-28, in which results say what they are"""
    if modern:
        value = {"resultType": "complete", **value}
        value["_meta"] = {f"{OWN}serverInfo": SERVER, **value.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Id | None, code: int, message: str, data: Any = None) -> Outgoing:
    told = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": told if data is None else {**told, "data": data}}


def of_error(id: Id | None, failure: RpcError) -> Outgoing:
    return error(id, failure.code, failure.message, failure.data)


def notification(method: str, params: Mapping[str, Any]) -> Outgoing:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def elicitation(question: Question) -> dict[str, Any]:
    """A question, as the parameters of `elicitation/create`."""
    allow = {
        "type": "boolean",
        "title": "Allow it",
        "description": "Whether it may be done, this once.",
        "default": False,
    }
    form = {"type": "object", "properties": {_ALLOW: allow}, "required": [_ALLOW]}
    return {"message": question.text, "requestedSchema": form}


def is_allowed(given: Any) -> bool:
    """Whether the answer to that is yes."""
    if not isinstance(given, Mapping) or given.get("action") != "accept":
        return False
    content = given.get("content")
    return isinstance(content, Mapping) and content.get(_ALLOW) is True


def can_ask(capabilities: Any) -> bool:
    """Whether a client with these capabilities can ask its user something in a form."""
    own = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(own, Mapping) and (not own or "form" in own)


def wrong_version(requested: str) -> RpcError:
    data = {"supported": [MODERN], "requested": requested}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
