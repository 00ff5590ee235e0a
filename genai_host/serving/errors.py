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


_V1 = re.compile(r"/v1(/.*)?")
_APIS: tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...] = (
    # a colon may be part of a model name such as `llama3:latest`
    (
        "gemini",
        re.compile(
            r"/v1beta(/.*)?|(/v1)?/models/[^/]+:[a-z]+[A-Z][A-Za-z]*"
            r"|/v1/[^/]+/[^/]+:[a-z]+[A-Z][A-Za-z]*|/v1/tunedModels/.*"
        ),
        (),
    ),
    ("anthropic", re.compile(r"/v1/(messages|complete)(/.*)?"), ()),
    ("gemini", _V1, ("x-goog-api-key", "x-goog-api-client")),
    ("anthropic", _V1, ("anthropic-version",)),
    ("openai", _V1, ()),
    (
        "ollama",
        re.compile(
            r"/api/(chat|tags|generate|show|ps|embed|embeddings|version|pull|push|create|copy|delete)"
        ),
        (),
    ),
)
"""APIs by path and headers, of which one is enough. The first that matches applies."""


def error_reply(path: str, headers: Mapping[str, str], problem: HttpProblem) -> RouteResponse:
    """The reply for a problem, in the form of the API."""
    api = _api(path, headers)
    if not api:
        return router.problem_reply(path, headers, problem)
    return _reply_of(api)(problem)


def _api(path: str, headers: Mapping[str, str]) -> str:
    """The package of the API; empty for the host's own form."""
    for api, pattern, names in _APIS:
        if pattern.fullmatch(path) and (not names or any(name in headers for name in names)):
            return api
    return ""


@cache
def _reply_of(api: str) -> Callable[[HttpProblem], RouteResponse]:
    module = importlib.import_module(f"genai_host.server.{api}.replies")
    return cast(Callable[[HttpProblem], RouteResponse], module.problem_reply)
