"""Errors of Amazon Bedrock, as replies and as exceptions in a stream.

Source: Amazon Bedrock API reference, "Converse", "InvokeModel", "Common errors", and the
user guide, "Troubleshooting Amazon Bedrock API error codes"; as of November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from genai_host.api import ProviderReply, explain_reply, one_line, service_error
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    GenaiError,
    RateLimited,
    ServiceUnavailable,
)

_NO_STATUS = 500
_STATUS_OF_KIND: Mapping[str, int] = {
    "accessdenied": 403,
    "expiredtoken": 403,
    "incompletesignature": 403,
    "internalserver": 500,
    "invalidsignature": 403,
    "missingauthenticationtoken": 403,
    "modelerror": 424,
    "modelnotready": 429,
    "modelstreamerror": 424,
    "modeltimeout": 408,
    "requestexpired": 403,
    "resourcenotfound": 404,
    "servicequotaexceeded": 400,
    "serviceunavailable": 503,
    "throttling": 429,
    "unrecognizedclient": 403,
    "validation": 400,
}
_OF_CREDENTIALS: Mapping[str, str] = {
    "expiredtoken": "sign in again: aws sso login, or new keys",
    "requestexpired": "check the clock of this machine",
    "unrecognizedclient": "check the keys and their partition",
    "invalidsignature": "check the secret key and the clock of this machine",
    "accessdenied": "check that the model is enabled for the account in this region",
}
_OF_THE_MODEL = frozenset({"modelerror", "modelnotready", "modelstreamerror", "modeltimeout"})
"""Errors that are temporary regardless of their status."""

_NEEDS_A_PROFILE = "on-demand throughput"


def explain_error(reply: ProviderReply) -> GenaiError | None:
    """Return the error for a reply with status 400 or more."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    return explain_reply(reply, partial(error_in, kind=headers.get("x-amzn-errortype", "")))


def error_in(data: Mapping[str, Any], status: int | None, kind: str = "") -> GenaiError | None:
    """The error in an object; see `ErrorIn`. `kind` is the type of exception, empty if only the
    object may have it."""
    error = data.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    if not isinstance(message, str):
        return None
    named = kind or data.get("__type") or data.get("code")
    return error_of_kind(named if isinstance(named, str) else "", message, status)


def error_of_kind(kind: str, message: str, status: int | None = None) -> GenaiError:
    """Return the error for a type of exception, for example `ThrottlingException`."""
    name = kind.partition(":")[0].rpartition("#")[2].lower().removesuffix("exception")
    text = one_line(message) or f"the service returned {one_line(kind) or 'an error'}"
    known = _STATUS_OF_KIND.get(name)
    status = status or known or _NO_STATUS
    if name == "throttling":
        return RateLimited(text, status=status)
    if name in _OF_THE_MODEL:
        return ServiceUnavailable(text, status=status)
    if name in _OF_CREDENTIALS:
        return AuthenticationFailed(text, status=status, hint=_OF_CREDENTIALS[name])
    if status == 400 and _NEEDS_A_PROFILE in text.lower():
        hint = "add the prefix of an inference profile to the id: us., eu., apac., global."
        return BadRequest(text, status=status, hint=hint)
    return service_error(status, text)
