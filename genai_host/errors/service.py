"""Errors of a service, of the connection to it, and of a model's answer."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from genai_host.errors.base import GenaiError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self, Unpack

    from genai_host.errors.base import ErrorContext


class ProviderError(GenaiError):
    """The service, or the connection to it, failed.

    Args:
        retry_after: Seconds to wait, as requested by the service; None if it requested none.
    """

    code = "provider"
    _extra: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, message: str, *, retry_after: float | None = None, **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.retry_after = retry_after

    @property
    def extra(self) -> Mapping[str, Any]:
        """Fields of the service's error that only its API format knows, by the name of the format.
        They are not recorded; a server gives them to clients of the format."""
        return self._extra

    def with_extra(self, name: str, fields: Mapping[str, Any]) -> Self:
        """Add fields of the service's error.

        Args:
            name: Name of the format.
            fields: The fields, which must be short.

        Returns:
            The same error.
        """
        self._extra = {**self._extra, name: fields}
        return self


class AuthenticationFailed(ProviderError):
    """The key is missing, invalid, or lacks permission."""

    code = "authentication"


class BadRequest(ProviderError):
    """The service rejected the request; do not send it again."""

    code = "request_refused"


class ContextOverflow(BadRequest):
    """The prompt and the maximum output exceed the model's context window."""

    code = "context_overflow"


class RateLimited(ProviderError):
    """The rate limit of requests or tokens is reached."""

    code = "rate_limited"
    usually_retryable = True


class ServiceUnavailable(ProviderError):
    """The service is unreachable or temporarily unavailable."""

    code = "unavailable"
    usually_retryable = True


class CircuitOpen(ServiceUnavailable):
    """The circuit is open after repeated failures; no call was made.

    Attributes:
        retry_after: Seconds until the circuit allows another call.
    """

    code = "circuit_open"


class ProviderTimeout(ProviderError):
    """The service exceeded a timeout.

    Args:
        deadline: Name of the limit: `connect_timeout`, `first_token_timeout`, `read_timeout` or
            `timeout`.
        text: Text of the answer received so far.
    """

    code = "deadline_exceeded"

    def __init__(
        self, message: str, *, deadline: str = "", text: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        context.setdefault("retryable", deadline != "timeout")
        super().__init__(message, **context)
        self.deadline = deadline
        self.text = text


class MalformedReply(ProviderError):
    """The reply is not valid in its dialect."""

    code = "malformed_reply"


class IncompleteReply(ProviderError):
    """The reply was interrupted before its end; it never counts as an answer.

    Args:
        text: Text of the answer received so far.
    """

    code = "incomplete_reply"
    usually_retryable = True

    def __init__(self, message: str, *, text: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.text = text


class ProviderRemoved(ProviderError):
    """The provider instance was removed, disabled or closed."""

    code = "provider_removed"


def error_of_status(
    status: int, message: str, *, retry_after: float | None = None
) -> ProviderError:
    """The error of an HTTP status (RFC 9110, RFC 6585).

    Args:
        status: HTTP status, 400 or more.
        message: Message of the error.
        retry_after: Seconds to wait, as requested by the service.
    """
    if status in (401, 403):
        return AuthenticationFailed(message, status=status)
    if status == 429:
        return RateLimited(message, status=status, retry_after=retry_after)
    if status >= 500 or status in (408, 409):
        return ServiceUnavailable(message, status=status, retry_after=retry_after)
    return BadRequest(message, status=status)


class GenerationError(GenaiError):
    """The model answered, but the answer is not usable.

    Args:
        reason: Finish reason in the service's words, for example `SAFETY`.
        detail: Further information.
    """

    code = "generation"

    def __init__(
        self, message: str, *, reason: str = "", detail: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.reason = reason
        self.detail = detail


class UnexpectedFinish(GenerationError):
    """The model stopped before the answer was complete."""

    code = "unexpected_finish"


class OutputValidationError(GenerationError):
    """The answer does not match the requested schema or class."""

    code = "deserialization"
