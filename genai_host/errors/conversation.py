"""Errors that end or pause a turn, and errors of the store and the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_host.errors.base import GenaiError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors.base import ErrorContext


class FunctionFailed(GenaiError):
    """A function that a feature called raised an exception.

    Args:
        exception: Name of the exception class, for example `ValueError`.
    """

    code = "function_failed"

    def __init__(
        self, message: str, *, exception: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.exception = exception


class LimitExceeded(GenaiError):
    """A turn reached one of its limits.

    Args:
        limit: Name of the limit: `max_model_calls`, `steps`, `seconds` or `cost`; features can
            define others.
    """

    code = "limit_exceeded"

    def __init__(self, message: str, *, limit: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.limit = limit


class BudgetExceeded(LimitExceeded):
    """A budget is spent; no call was made.

    Args:
        budget: Name of the budget, for example `users.ann.day`; empty if the cost of the call is
            unknown.
        spent: Amount spent in the period, in US dollars or tokens.
        most: Amount of the budget, in US dollars or tokens.
        renews: When the period ends (ISO 8601).
        retry_after: Seconds until the period ends.
    """

    code = "budget_exceeded"

    def __init__(
        self,
        message: str,
        *,
        budget: str = "",
        spent: float | None = None,
        most: float | None = None,
        renews: str = "",
        retry_after: float | None = None,
        limit: str = "",
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, limit=limit, **context)
        self.budget = budget
        self.spent = spent
        self.most = most
        self.renews = renews
        self.retry_after = retry_after


class Cancelled(GenaiError):
    """The turn or request was cancelled."""

    code = "cancelled"


class Interrupted(Cancelled):
    """The process ended while the turn was running; it can be resumed."""

    code = "interrupted"


class ConversationBusy(GenaiError):
    """Another turn of this conversation is running or paused."""

    code = "conversation_busy"


class ConversationClosed(GenaiError):
    """The conversation was closed."""

    code = "conversation_closed"


class TurnPaused(GenaiError):
    """The turn waits for a result; give it to `Conversation.resume`.

    Args:
        kind: Kind of result, for example `approval`; see `Pause`.
    """

    code = "turn_paused"

    def __init__(self, message: str, *, kind: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.kind = kind


class StoreError(GenaiError):
    """The store cannot be read or written.

    Args:
        file: Path of the file, or URL of the database.
    """

    code = "store"

    def __init__(self, message: str, *, file: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.file = file


class NotRecorded(StoreError):
    """A step that must not run twice did not run, since it could not be recorded; the turn can be
    resumed."""

    code = "not_recorded"


class Conflict(GenaiError):
    """The data was changed since it was read; nothing was written."""

    code = "conflict"


class NotFound(GenaiError):
    """The store has no such conversation, document or blob, or not for this owner."""

    code = "not_found"


class ReplayError(GenaiError):
    """An event log does not match the feature that replays it."""

    code = "replay"


class StepChanged(ReplayError):
    """The feature now yields another step than the event log has."""

    code = "step_changed"


class StepInterrupted(ReplayError):
    """A step that must not run twice was running when the process ended."""

    code = "step_interrupted"
