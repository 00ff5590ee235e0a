"""Errors as OpenAI has them.

Source: OpenAI API reference, "ErrorResponse"; the guide to error codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Problem, RouteReply, json_reply
from genai_host.http_routes import with_retry_after
from genai_host.server.statuses import status_of

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_QUOTA = "insufficient_quota"
_CODES: Mapping[str, str] = {
    "budget_exceeded": _QUOTA,
    "context_overflow": "context_length_exceeded",
    "no_route": "model_not_found",
    "not_found": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
    "unauthorized": "invalid_api_key",
}


def problem_reply(problem: Problem) -> RouteReply:
    """`{"error": {"message", "type", "param", "code"}}`"""
    return json_reply(error_object(problem), status_of(problem), with_retry_after(problem))


def error_object(problem: Problem) -> dict[str, Any]:
    """The same as a value, as it stands in a stream."""
    status = status_of(problem)
    usual = "invalid_request_error" if status < 500 else "server_error"
    hint = f" ({problem.hint})" if problem.hint else ""
    code = _CODES.get(problem.code, problem.code)
    return {
        "error": {
            "message": f"{problem.message}{hint}",
            "type": _QUOTA if code == _QUOTA else _TYPES.get(status, usual),
            "param": problem.path.removeprefix("$").lstrip(".") or None,
            "code": code,
        }
    }
