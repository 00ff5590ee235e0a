"""What the errors of Amazon Bedrock mean, whole replies and exceptions amid a stream.

Source: Amazon Bedrock API reference, "Converse", "InvokeModel", "Common errors", and the
user guide, "Troubleshooting Amazon Bedrock API error codes"; as of November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping

from genai_host.api import ProviderReply
from genai_host.api.dialects import one_line
from genai_host.api.json_text import read_json
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    RateLimited,
    ServiceUnavailable,
    error_of_status,
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
    "requestexpired": "is the clock of this machine right?",
    "unrecognizedclient": "are the keys right, and for this partition?",
    "invalidsignature": "is the secret key right, and the clock of this machine?",
    "accessdenied": "is the model enabled for the account, in this region?",
}
_OF_THE_MODEL = frozenset({"modelerror", "modelnotready", "modelstreamerror", "modeltimeout"})
"""They may pass, whatever their status."""

_OVERFLOWS = (
    "input is too long for requested model",
    "prompt is too long",
    "input length and `max_tokens` exceed context limit",
    "input tokens exceeded",
    "maximum context length",
    "too many input tokens",
)
"""What messages say of a prompt beyond the window, each model in the words of its maker:
nothing else tells them from other requests that are refused."""
_NEEDS_A_PROFILE = "on-demand throughput"


def explain_error(reply: ProviderReply) -> GenaiError | None:
    """The error of a reply; None if it is none of Amazon's."""
    try:
        data = read_json(reply.body)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    headers = {name.lower(): value for name, value in reply.headers.items()}
    kind = headers.get("x-amzn-errortype") or data.get("__type") or data.get("code")
    message = data.get("message") or data.get("Message")
    if not isinstance(message, str) or not isinstance(kind or "", str):
        return None
    return error_of_kind(kind or "", message, reply.status)


def error_of_kind(kind: str, message: str, status: int | None = None) -> GenaiError:
    """The error that a type of exception means, as `ThrottlingException`.

    status   of the reply; None for one amid a stream
    """
    name = kind.partition(":")[0].rpartition("#")[2].lower().removesuffix("exception")
    told = one_line(message) or f"the service ended with {one_line(kind) or 'an error'}"
    known = _STATUS_OF_KIND.get(name)
    status = status or known or _NO_STATUS
    if name == "throttling":
        return RateLimited(told, status=status)
    if name in _OF_THE_MODEL:
        return ServiceUnavailable(told, status=status)
    if name in _OF_CREDENTIALS:
        return AuthenticationFailed(told, status=status, hint=_OF_CREDENTIALS[name])
    if status == 400 and any(each in told.lower() for each in _OVERFLOWS):
        return ContextOverflow(told, status=status)
    if status == 400 and _NEEDS_A_PROFILE in told.lower():
        hint = "put an inference profile before the id: us., eu., apac., global."
        return BadRequest(told, status=status, hint=hint)
    return error_of_status(status, told)
