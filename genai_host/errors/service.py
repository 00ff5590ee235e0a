"""What went wrong at a service, on the way to it, or with what its model answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_host.errors.base import GenaiError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors.base import ErrorContext


class ProviderError(GenaiError):
    """The service, or the way to it, failed.

    retry_after   seconds that the service asked to wait; None if it named none
    """

    code = "provider"

    def __init__(
        self, message: str, *, retry_after: float | None = None, **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.retry_after = retry_after


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""

    code = "authentication"


class BadRequest(ProviderError):
    """The service refused the request; sending it again is no use."""

    code = "request_refused"


class ContextOverflow(BadRequest):
    """The prompt and the room for the answer exceed the model's window."""

    code = "context_overflow"


class RateLimited(ProviderError):
    """Too many requests, or too many tokens, for now."""

    code = "rate_limited"

    def __init__(
        self, message: str, *, retry_after: float | None = None, **context: Unpack[ErrorContext]
    ) -> None:
        context.setdefault("retryable", True)
        super().__init__(message, retry_after=retry_after, **context)


class ServiceUnavailable(ProviderError):
    """The service cannot be reached, or says that it cannot serve now."""

    code = "unavailable"

    def __init__(
        self, message: str, *, retry_after: float | None = None, **context: Unpack[ErrorContext]
    ) -> None:
        context.setdefault("retryable", True)
        super().__init__(message, retry_after=retry_after, **context)


class CircuitOpen(ServiceUnavailable):
    """The provider failed too often lately, so that it was not called.

    retry_after   seconds until it is tried again
    """

    code = "circuit_open"


class ProviderTimeout(ProviderError):
    """The service took too long.

    deadline   `connect`, `first_token`, `idle` or `total`
    text       what of an answer had come
    """

    code = "deadline_exceeded"

    def __init__(
        self, message: str, *, deadline: str = "", text: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        context.setdefault("retryable", deadline != "total")
        super().__init__(message, **context)
        self.deadline = deadline
        self.text = text


class MalformedReply(ProviderError):
    """The reply is not what its dialect says a reply is."""

    code = "malformed_reply"


class IncompleteReply(ProviderError):
    """The reply was cut before its end; it never counts as an answer.

    text   what had come
    """

    code = "incomplete_reply"

    def __init__(self, message: str, *, text: str = "", **context: Unpack[ErrorContext]) -> None:
        context.setdefault("retryable", True)
        super().__init__(message, **context)
        self.text = text


class ProviderRemoved(ProviderError):
    """The provider instance was removed, disabled or closed."""

    code = "provider_removed"


def error_of_status(
    status: int, message: str, *, retry_after: float | None = None
) -> ProviderError:
    """The error that an HTTP status means by itself (RFC 9110, RFC 6585)."""
    if status in (401, 403):
        return AuthenticationFailed(message, status=status)
    if status == 429:
        return RateLimited(message, status=status, retry_after=retry_after)
    if status >= 500 or status in (408, 409):
        return ServiceUnavailable(message, status=status, retry_after=retry_after)
    return BadRequest(message, status=status)


class GenerationError(GenaiError):
    """The model answered, but not usably.

    reason   the model's own word for why, as `SAFETY`
    detail   whatever more is known
    """

    code = "generation"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        detail: str = "",
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.reason = reason
        self.detail = detail


class UnexpectedFinish(GenerationError):
    """The model stopped for another reason than being done."""

    code = "unexpected_finish"


class OutputValidationError(GenerationError):
    """The answer is not the JSON, or not the class, that was asked for."""

    code = "deserialization"
