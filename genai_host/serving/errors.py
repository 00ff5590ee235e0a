"""Errors in the form of the API that a request is for.

The path and the headers of a request decide which API that is.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import cast

from genai_host.api import HttpProblem, RouteResponse
from genai_host.serving import router

_CLIENTS_FAULT = frozenset({"context_overflow", "request_refused", "unsupported_part"})
"""What a service refuses is no gateway's failure: the request has to be another one."""


def status_of(problem: HttpProblem) -> int:
    return 400 if problem.code in _CLIENTS_FAULT else problem.status


# what stands after a colon may be part of a model's name, as `llama3:latest`
_OF_GEMINI = re.compile(r"/v1beta(/.*)?|/v1/[^/]+/[^/]+:[a-z]+[A-Z][A-Za-z]*|/v1/tunedModels/.*")
_GOOGLE = ("x-goog-api-key", "x-goog-api-client")
_OF_ANTHROPIC = re.compile(r"/v1/(messages|complete)(/.*)?")
_OF_OLLAMA = re.compile(
    r"/api/(chat|tags|generate|show|ps|embed|embeddings|version|pull|push|create|copy|delete)"
)
_OF_OPENAI = re.compile(r"/v1(/.*)?")


def error_reply(path: str, headers: Mapping[str, str], problem: HttpProblem) -> RouteResponse:
    """The reply to a request that has a problem."""
    api = _api(path, headers)
    if not api:
        return router.problem_reply(path, headers, problem)
    return _reply_of(api)(problem)


def _api(path: str, headers: Mapping[str, str]) -> str:
    """The package of the API; empty where there is no other form than the host's own."""
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
