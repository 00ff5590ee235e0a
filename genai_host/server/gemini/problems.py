"""Errors as Google's APIs have them.

Source: Google's API design guide, "Errors" (AIP-193), `google/rpc/code.proto`,
`google/rpc/error_details.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Problem, RouteReply, json_reply
from genai_host.http_routes import with_retry_after
from genai_host.server.statuses import status_of

_WORDS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    422: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def problem_reply(problem: Problem) -> RouteReply:
    """`{"error": {"code": 400, "message": "...", "status": "INVALID_ARGUMENT"}}`"""
    return json_reply(error_object(problem), status_of(problem), with_retry_after(problem))


def error_object(problem: Problem) -> dict[str, Any]:
    """The same as a value, as it stands in a stream."""
    status = status_of(problem)
    message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    error: dict[str, Any] = {
        "code": status,
        "message": message,
        "status": _WORDS.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL"),
        "details": _details(problem),
    }
    return {"error": error}


def _details(problem: Problem) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = [
        {**_kind("ErrorInfo"), "reason": problem.code.upper(), "domain": "genai-host"}
    ]
    if problem.path:
        violation = {"field": problem.path.removeprefix("$").removeprefix(".")}
        violation["description"] = problem.message
        details.append({**_kind("BadRequest"), "fieldViolations": [violation]})
    if problem.retry_after is not None:
        details.append({**_kind("RetryInfo"), "retryDelay": f"{problem.retry_after:g}s"})
    return details


def _kind(name: str) -> dict[str, str]:
    return {"@type": f"type.googleapis.com/google.rpc.{name}"}
