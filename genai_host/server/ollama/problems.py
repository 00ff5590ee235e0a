"""Errors as Ollama has them: words alone.

Source: Ollama's `docs/api.md`, "Errors".
"""

from __future__ import annotations

from genai_host.api import Problem, RouteReply, json_reply
from genai_host.http_routes import with_retry_after
from genai_host.server.statuses import status_of


def problem_reply(problem: Problem) -> RouteReply:
    """`{"error": "..."}`"""
    return json_reply(error_object(problem), status_of(problem), with_retry_after(problem))


def error_object(problem: Problem) -> dict[str, str]:
    """The same as a value, as it stands in a stream."""
    place = f" (at {problem.path})" if problem.path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return {"error": f"{problem.message}{place}{hint}"}
