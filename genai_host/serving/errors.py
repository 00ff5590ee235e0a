"""Errors in the form of an API, which the path and the headers of a request determine."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import cast

from genai_host.api import HttpProblem, RouteResponse
from genai_host.serving import router

_CLIENTS_FAULT = frozenset({"context_overflow", "request_refused", "unsupported_part"})
"""Statuses of errors that services report and the client must correct."""


def status_of(problem: HttpProblem) -> int:
    return 400 if problem.code in _CLIENTS_FAULT else problem.status


# a colon may be part of a model name such as `llama3:latest`
_OF_GEMINI = re.compile(r"/v1beta(/.*)?|/v1/[^/]+/[^/]+:[a-z]+[A-Z][A-Za-z]*|/v1/tunedModels/.*")
_GOOGLE = ("x-goog-api-key", "x-goog-api-client")
_OF_ANTHROPIC = re.compile(r"/v1/(messages|complete)(/.*)?")
_OF_OLLAMA = re.compile(
    r"/api/(chat|tags|generate|show|ps|embed|embeddings|version|pull|push|create|copy|delete)"
)
_OF_OPENAI = re.compile(r"/v1(/.*)?")


def error_reply(path: str, headers: Mapping[str, str], problem: HttpProblem) -> RouteResponse:
    """The reply for a problem, in the form of the API."""
    api = _api(path, headers)
    if not api:
        return router.problem_reply(path, headers, problem)
    return _reply_of(api)(problem)


def _api(path: str, headers: Mapping[str, str]) -> str:
    """The package of the API; empty for the host's own form."""
    if _OF_GEMINI.fullmatch(path):
        return "gemini"
    if _OF_ANTHROPIC.fullmatch(path):
        return "anthropic"
    if _OF_OPENAI.fullmatch(path):
        if any(name in headers for name in _GOOGLE):
            return "gemini"
        return "anthropic" if "anthropic-version" in headers else "openai"
    return "ollama" if _OF_OLLAMA.fullmatch(path) else ""


@cache
def _reply_of(api: str) -> Callable[[HttpProblem], RouteResponse]:
    module = importlib.import_module(f"genai_host.server.{api}.replies")
    return cast(Callable[[HttpProblem], RouteResponse], module.problem_reply)
