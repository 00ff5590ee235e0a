"""The errors of genai-host: one tree, told apart by class and read by field.

GenaiError
├── ConfigurationError          a setting, flag or file is wrong
├── InvalidData                 data does not fit the form it should have
├── PluginError                 a plugin is broken, or failed where it must not
├── NoRoute                     nothing can run that model as asked
├── InvalidParameter            an unknown model parameter, or a bad value
├── UnsupportedPart             a dialect cannot write a part of a message
├── ProviderError               the service, or the way to it, failed
│   ├── AuthenticationFailed    401, 403, or no key
│   ├── RequestRefused          400, 404, 422: sending it again is no use
│   │   └── ContextOverflow     the prompt is longer than the model's window
│   ├── RateLimited             429
│   ├── Unavailable             refused, reset, 5xx
│   │   └── CircuitOpen         it failed too often lately: not called
│   ├── DeadlineExceeded        it took too long
│   ├── MalformedReply          not what the dialect says a reply is
│   ├── IncompleteReply         cut before its end; what came is kept
│   └── ProviderRemoved         the instance was removed, disabled or closed
├── GenerationError             the model answered, but not usably
│   ├── UnexpectedFinish        it stopped for another reason than being done
│   └── DeserializationError    its answer is not the JSON that was asked for
├── FunctionFailed              a function called by a feature raised
├── LimitExceeded               round trips, steps or time of a turn
├── Cancelled                   somebody cancelled it
├── ConversationBusy            a turn is under way already
├── ConversationClosed          the conversation was closed
├── TurnWaiting                 the turn waits for a result from outside
├── StoreError                  the store cannot be read or written
├── Conflict                    another process has changed it meanwhile
├── NotFound                    the store has no such thing
└── ReplayError                 a record does not fit the feature that replays it
    ├── StepChanged             the feature now does something else at that point
    └── StepInterrupted         it may have run before, and must not run twice

Errors compare by value (class, message, fields), so that a recorded failure
replays as an equal one, and pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ErrorContext(TypedDict, total=False):
    """The fields that every error may carry; see `GenaiError`."""

    hint: str
    plugin: str
    provider: str
    model: str
    status: int
    retryable: bool


class GenaiError(Exception):
    """Base of all expected errors: the user can act on it; a bug is never one.

    message    one line, for people
    hint       the next step to take, a sentence or a command; empty if none
    plugin     name of the plugin concerned
    provider   name of the provider instance concerned
    model      name of the model concerned
    status     HTTP status of the reply, if there was one
    retryable  whether the same call may succeed when repeated
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        plugin: str = "",
        provider: str = "",
        model: str = "",
        status: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.plugin = plugin
        self.provider = provider
        self.model = model
        self.status = status
        self.retryable = retryable

    @property
    def message(self) -> str:
        return str(self.args[0])

    def fields(self) -> dict[str, Any]:
        """The fields that are known, the message left out."""
        return {
            name: value
            for name, value in vars(self).items()
            if not name.startswith("_") and value is not None and value not in ("", ())
        }

    def located(self, *, plugin: str = "", provider: str = "", model: str = "") -> Self:
        """Fill in where it happened, as far as that is not known yet."""
        self.plugin = self.plugin or plugin
        self.provider = self.provider or provider
        self.model = self.model or model
        return self

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.message == other.message and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((type(self), self.message))


class ConfigurationError(GenaiError):
    """A setting, an option or the configuration file is wrong.

    file, line   where it stands, if it stands in a file (lines from 1)
    setting      the name of the setting that is wrong, if it is one that was given
    """

    code = "configuration"

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int | None = None,
        setting: str = "",
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.file = file
        self.line = line
        self.setting = setting


class InvalidData(GenaiError):
    """Data does not fit the form it should have.

    path   where in the data, as `$.content[0].type`
    """

    code = "invalid_data"

    def __init__(self, message: str, *, path: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.path = path


class PluginError(GenaiError):
    """A plugin is broken, or raised where it must not."""

    code = "plugin"


class NoRoute(GenaiError):
    """Nothing can run that model as asked.

    reasons       one line for each way that was considered
    suggestions   names that may have been meant
    """

    code = "no_route"

    def __init__(
        self,
        message: str,
        *,
        reasons: Sequence[str] = (),
        suggestions: Sequence[str] = (),
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.reasons = tuple(reasons)
        self.suggestions = tuple(suggestions)


class InvalidParameter(GenaiError):
    """An unknown model parameter, or a value that it does not take.

    parameter   its name
    valid       the names that are accepted on this route
    """

    code = "invalid_parameter"

    def __init__(
        self,
        message: str,
        *,
        parameter: str = "",
        valid: Sequence[str] = (),
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.parameter = parameter
        self.valid = tuple(valid)


class UnsupportedPart(GenaiError):
    """A dialect cannot write a part of a message; nothing was sent.

    part      type of the part, as `image`
    dialect   name of the dialect
    """

    code = "unsupported_part"

    def __init__(
        self, message: str, *, part: str = "", dialect: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.part = part
        self.dialect = dialect


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


class RequestRefused(ProviderError):
    """The service refused the request; sending it again is no use."""

    code = "request_refused"


class ContextOverflow(RequestRefused):
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


class Unavailable(ProviderError):
    """The service cannot be reached, or says that it cannot serve now."""

    code = "unavailable"

    def __init__(
        self, message: str, *, retry_after: float | None = None, **context: Unpack[ErrorContext]
    ) -> None:
        context.setdefault("retryable", True)
        super().__init__(message, retry_after=retry_after, **context)


class CircuitOpen(Unavailable):
    """The provider failed too often lately, so that it was not called.

    retry_after   seconds until it is tried again
    """

    code = "circuit_open"


class DeadlineExceeded(ProviderError):
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
        return Unavailable(message, status=status, retry_after=retry_after)
    return RequestRefused(message, status=status)


class GenerationError(GenaiError):
    """The model answered, but not usably.

    reason   the model's own word for why, as `SAFETY`
    detail   whatever more is known
    """

    code = "generation"

    def __init__(
        self, message: str, *, reason: str = "", detail: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.reason = reason
        self.detail = detail


class UnexpectedFinish(GenerationError):
    """The model stopped for another reason than being done."""

    code = "unexpected_finish"


class DeserializationError(GenerationError):
    """The answer is not the JSON, or not the class, that was asked for."""

    code = "deserialization"


class FunctionFailed(GenaiError):
    """A function that a feature called raised an exception.

    exception   its class, as `ValueError`
    """

    code = "function_failed"

    def __init__(
        self, message: str, *, exception: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.exception = exception


class LimitExceeded(GenaiError):
    """A turn used up what it may use.

    limit   `round_trips`, `steps` or `seconds`
    """

    code = "limit_exceeded"

    def __init__(self, message: str, *, limit: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.limit = limit


class Cancelled(GenaiError):
    """Somebody cancelled it."""

    code = "cancelled"


class ConversationBusy(GenaiError):
    """A turn of this conversation is under way already."""

    code = "conversation_busy"


class ConversationClosed(GenaiError):
    """The conversation was closed."""

    code = "conversation_closed"


class TurnWaiting(GenaiError):
    """The turn waits for a result from outside: give it to `Conversation.resume`.

    kind   what it waits for, as the feature names it
    """

    code = "turn_waiting"

    def __init__(self, message: str, *, kind: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.kind = kind


class StoreError(GenaiError):
    """The store cannot be read or written.

    file   where it is: a file, or the address of a database
    """

    code = "store"

    def __init__(self, message: str, *, file: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.file = file


class Conflict(GenaiError):
    """Somebody else has changed it since it was read: nothing was written."""

    code = "conflict"


class NotFound(GenaiError):
    """The store has no such conversation, document or blob, or not for this owner."""

    code = "not_found"


class ReplayError(GenaiError):
    """A record does not fit the feature that replays it."""

    code = "replay"


class StepChanged(ReplayError):
    """The feature does something else now at a point that is on record."""

    code = "step_changed"


class StepInterrupted(ReplayError):
    """A step was under way when the process ended, and must not run twice."""

    code = "step_interrupted"
