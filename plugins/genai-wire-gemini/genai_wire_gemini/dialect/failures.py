"""Replies of Google's services: objects and errors.

Source: google.rpc.Status, ErrorInfo and RetryInfo (googleapis, `google/rpc`), and "Gemini
API troubleshooting", as of November 2026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from genai_host.api import (
    ProviderReply,
    explain_reply,
    list_in,
    malformed,
    message_in,
    read_json,
    read_reply,
    service_error,
    write_json,
)
from genai_host.errors import AuthenticationFailed, GenaiError

ANSWER = ("candidates", "embeddings", "promptFeedback", "totalTokens", "usageMetadata")
"""Fields of replies that are no errors."""

_NO_STATUS = 500
_BAD_KEYS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED"})  # sent with status 400
_STATUS_OF_NAME: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def read_object(data: bytes) -> dict[str, Any]:
    """Parse a reply or an event. Raises the error that it contains, and `MalformedReply`."""
    return read_reply(data, error_in, ANSWER)


def read_objects(data: bytes) -> list[dict[str, Any]]:
    """Parse a stream that is a JSON array, the format of the service without server-sent events."""
    try:
        values = read_json(data)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error
    return [read_object(write_json(value)) for value in values]


def objects_in(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects; empty if it is missing. Raises `MalformedReply`."""
    value = list_in(data, name)
    if not all(isinstance(each, dict) for each in value):
        raise malformed(f"{name} is not a list of objects")
    return value


def explain_error(reply: ProviderReply) -> GenaiError | None:
    """Return the error for a reply with status 400 or more."""
    return explain_reply(reply, error_in)


def error_in(data: Mapping[str, Any], status: int | None = None) -> GenaiError | None:
    """Return the error in an object; None if there is none.

    Args:
        data: The object.
        status: HTTP status; None for a success.
    """
    error = data.get("error")
    if not error:
        return None
    if not isinstance(error, dict):
        return service_error(status or _NO_STATUS, message_in(error))
    message = message_in(error.get("message") or error.get("status") or error)
    details = error.get("details")
    details = [each for each in details if isinstance(each, dict)] if type(details) is list else []
    status = status or _status_of(error)
    if any(str(each.get("reason")) in _BAD_KEYS for each in details):
        return AuthenticationFailed(message, status=status)
    return service_error(status, message, retry_after=_retry_after(details))


def _status_of(error: Mapping[str, Any]) -> int:
    code, name = error.get("code"), error.get("status")
    if type(code) is int and 400 <= code < 600:
        return code
    return _STATUS_OF_NAME.get(name, _NO_STATUS) if isinstance(name, str) else _NO_STATUS


def _retry_after(details: list[dict[str, Any]]) -> float | None:
    """Return the seconds in `{"@type": ".../google.rpc.RetryInfo", "retryDelay": "37.5s"}`."""
    for each in details:
        delay = each.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                seconds = float(delay[:-1])
            except ValueError:
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    return None
