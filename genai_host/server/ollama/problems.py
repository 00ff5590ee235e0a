"""Errors as Ollama has them: words alone.

Source: Ollama's `docs/api.md`, "Errors".
"""

from __future__ import annotations

from genai_host.api import Problem, RouteReply, json_reply
from genai_host.http_routes import with_retry_after

_CLIENTS_FAULT = frozenset({"context_overflow", "request_refused", "unsupported_part"})
"""What a service refuses is no gateway's failure: the request has to be another one."""


def problem_reply(problem: Problem) -> RouteReply:
    """`{"error": "..."}`"""
    status = 400 if problem.code in _CLIENTS_FAULT else problem.status
    return json_reply(error_object(problem), status, with_retry_after(problem))


def error_object(problem: Problem) -> dict[str, str]:
    """The same as a value, as it stands in a stream."""
    place = f" (at {problem.path})" if problem.path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return {"error": f"{problem.message}{place}{hint}"}
