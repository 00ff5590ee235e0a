"""Errors before the first piece of an answer, in the form of each API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fronts import FRONTS, JSON, MODEL, Front
from openai_form import Api

from genai_host.api import write_json
from genai_host.errors import (
    AuthenticationFailed,
    ContextOverflow,
    GenaiError,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)

pytestmark = pytest.mark.part

MISSING = ("nobody", "feature:nobody")
ERRORS: Mapping[str, GenaiError] = {
    "limit": RateLimited("slowly", retry_after=2.5), "length": ContextOverflow("too long"),
    "service": ServiceUnavailable("gone"), "time": ProviderTimeout("too slow"),
    "key": AuthenticationFailed("no key"),
}  # fmt: skip
FORMS: Mapping[str, Mapping[str, tuple[int, Mapping[str, Any]]]] = {
    "openai": {
        "limit": (429, {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
        "length": (400, {"type": "invalid_request_error", "code": "context_length_exceeded"}),
        "service": (503, {"type": "server_error", "code": "unavailable"}),
        "model": (404, {"code": "model_not_found"})},
    "responses": {
        "limit": (429, {"code": "rate_limit_exceeded"}),
        "length": (400, {"code": "context_length_exceeded"}),
        "service": (503, {"code": "unavailable"}),
        "model": (404, {"code": "model_not_found"})},
    "anthropic": {
        "limit": (429, {"type": "rate_limit_error"}),
        "length": (400, {"type": "invalid_request_error"}),
        "service": (529, {"type": "overloaded_error"}),
        "model": (404, {"type": "not_found_error"})},
    "gemini": {
        "limit": (429, {"code": 429, "status": "RESOURCE_EXHAUSTED"}),
        "length": (400, {"code": 400, "status": "INVALID_ARGUMENT"}),
        "service": (503, {"code": 503, "status": "UNAVAILABLE"}),
        "time": (504, {"code": 504, "status": "DEADLINE_EXCEEDED"}),
        "key": (502, {"code": 502, "status": "UNAVAILABLE"}),
        "model": (404, {"code": 404, "status": "NOT_FOUND"})},
    "ollama": {"limit": (429, {}), "length": (400, {}), "model": (404, {})},
}  # fmt: skip
ROWS = [
    pytest.param(front, problem, status, fields, id=f"{front}-{problem}")
    for front in FRONTS if front.name in FORMS
    for problem, (status, fields) in FORMS[front.name].items()
]  # fmt: skip


def post(api: Api, front: Front, stream: bool, model: str = "fake") -> Any:
    """Send a request to a model."""
    path, body = front.stream if stream else front.plain
    named = {**body, "model": model} if "model" in body else body
    url = f"{api.url}{path.replace(MODEL, model)}"
    return api.client.post(url, write_json(named), headers=JSON, timeout=60)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("front", "problem", "status", "fields"), ROWS)
def test_a_failure_has_the_form_of_the_api(
    api: Api, front: Front, problem: str, status: int, fields: Any, stream: bool
) -> None:
    if problem in ERRORS:
        api.fake.faults[0] = ERRORS[problem]
        replies = [post(api, front, stream)]
    else:
        replies = [post(api, front, stream, model) for model in MISSING]
    for reply in replies:
        error = reply.json()["error"]
        assert reply.status_code == status, reply.text
        assert front.name == "ollama" or fields.items() <= error.items()
        message = error if isinstance(error, str) else error["message"]
        assert problem not in ERRORS or message.startswith(ERRORS[problem].message)
        assert reply.headers.get("retry-after") == ("3" if problem == "limit" else None)
        if front.name == "anthropic":
            assert reply.headers["request-id"] == reply.json()["request_id"]
        if front.name == "gemini":
            assert error["details"][0]["domain"] == "genai-host"
            if problem == "limit":
                assert error["details"][-1]["retryDelay"] == "2.5s"
