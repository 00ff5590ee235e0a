"""The status of the reply to a problem, in the APIs of others."""

from __future__ import annotations

from genai_host.api import Problem

_CLIENTS_FAULT = frozenset({"context_overflow", "request_refused", "unsupported_part"})
"""What a service refuses is no gateway's failure: the request has to be another one."""


def status_of(problem: Problem) -> int:
    return 400 if problem.code in _CLIENTS_FAULT else problem.status
