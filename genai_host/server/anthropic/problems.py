"""Errors as Anthropic has them.

Source: Claude API reference, "Errors".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from genai_host.api import Problem, RouteReply, json_reply
from genai_host.http_routes import with_retry_after
from genai_host.server.statuses import status_of

_OVERLOADED = 529
_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    _OVERLOADED: "overloaded_error",
}

NO_THREADS = Problem(
    400,
    "thread_unsupported_request",
    "conversations are not kept here: send all that was said, without this",
    path="$.thread",
)
_TOLD_BY_CODE = frozenset({NO_THREADS.code})
"""What clients know by a code of the format's own: they go on in another way then."""


def problem_reply(problem: Problem) -> RouteReply:
    """`{"type": "error", "error": {"type", "message"}, "request_id"}`"""
    id = f"req_{os.urandom(12).hex()}"
    headers = {**with_retry_after(problem), "request-id": id}
    return json_reply({**error_object(problem), "request_id": id}, _status(problem), headers)


def error_object(problem: Problem) -> dict[str, Any]:
    """The same as a value, as it stands in a stream."""
    status = _status(problem)
    usual = "invalid_request_error" if status < 500 else "api_error"
    place = problem.path.removeprefix("$").lstrip(".")
    message = f"{place}: {problem.message}" if place else problem.message
    hint = f" ({problem.hint})" if problem.hint else ""
    error: dict[str, Any] = {"type": _TYPES.get(status, usual), "message": f"{message}{hint}"}
    if problem.code in _TOLD_BY_CODE:
        error["details"] = {"error_code": problem.code}
    return {"type": "error", "error": error}


def _status(problem: Problem) -> int:
    status = status_of(problem)
    return _OVERLOADED if status == 503 else status
