"""The APIs of the server: which one a request belongs to, and errors in its form.

An error of a request that belongs to no API has the form

    {"error": {"code": "invalid_data", "message": "...", "hint": "...", "path": "$.message"}}
"""

from __future__ import annotations

import importlib
import logging
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from attrs import evolve

from genai_host.api import HttpApi, HttpProblem, RouteResponse, json_response
from genai_host.host import Host
from genai_host.util.names import HTTP_REFERENCE, wires_hint
from genai_host.util.text import short_repr

_CLIENTS_FAULT = frozenset({"context_overflow", "request_refused", "unsupported_part"})
"""Codes of errors that services report and the client must correct."""

REQUEST_ID = "x-request-id"
"""Header with the id of a request, in requests and replies."""

_log = logging.getLogger(__name__)
_compiled = lru_cache(re.compile)  # `re` has a cache, too, at a third of the speed


def api_of(apis: Iterable[HttpApi], path: str, headers: Mapping[str, str]) -> HttpApi | None:
    """The API that a request belongs to; None if it belongs to none."""
    shared, usual = None, None
    for api in apis:
        if api.paths and _compiled(api.paths).fullmatch(path):
            return api
        if api.shared_paths and _compiled(api.shared_paths).fullmatch(path):
            if not api.headers.isdisjoint(headers):
                shared = shared or api
            elif not api.headers:
                usual = usual or api
    return shared or usual


def unknown_path(host: Host, path: str) -> HttpProblem:
    hint = f"the paths are in {HTTP_REFERENCE}" if host.registry.http_apis else wires_hint()
    return HttpProblem(404, "not_found", f"unknown path {short_repr(path)}", hint)


def request_id_headers(
    host: Host, path: str, headers: Mapping[str, str], id: str
) -> dict[str, str]:
    """Headers of a reply with the id of the request."""
    api = api_of(host.registry.http_apis.values(), path, headers)
    if api is None or not api.request_id_header:
        return {REQUEST_ID: id}
    return {REQUEST_ID: id, api.request_id_header: id}


def error_reply(
    host: Host, path: str, headers: Mapping[str, str], problem: HttpProblem, request_id: str = ""
) -> RouteResponse:
    """The reply for a problem, in the form of the API that the request belongs to."""
    problem = evolve(problem, request_id=request_id)
    api = api_of(host.registry.http_apis.values(), path, headers)
    if api is not None:
        try:
            reply = load(api.write_error)(problem)
            if isinstance(reply, RouteResponse):
                return reply
            _log.error("%s returned %s, no RouteResponse", api.write_error, short_repr(reply))
        except Exception:  # noqa: BLE001 - a faulty plugin must not end the server
            _log.exception("the API %s cannot write an error", api.name)
    return problem_reply(problem)


def load(address: str) -> Any:
    """Import the object of an address, `package.module:name`."""
    module, _, name = address.partition(":")
    return getattr(importlib.import_module(module), name)


def problem_reply(problem: HttpProblem) -> RouteResponse:
    """A problem in the host's own form."""
    error = {
        "code": problem.code,
        "message": problem.message,
        **({"hint": problem.hint} if problem.hint else {}),
        **({"path": problem.path} if problem.path else {}),
    }
    return json_response({"error": error}, problem.status, with_retry_after(problem))


def with_retry_after(problem: HttpProblem) -> dict[str, str]:
    """Headers of the reply to a problem; `retry-after` is in whole seconds (RFC 9110)."""
    if problem.retry_after is None:
        return dict(problem.headers)
    return {**problem.headers, "retry-after": str(math.ceil(problem.retry_after))}


def status_of(problem: HttpProblem) -> int:
    """The status of a problem; 400 for errors that services report and the client must correct."""
    return 400 if problem.code in _CLIENTS_FAULT else problem.status
