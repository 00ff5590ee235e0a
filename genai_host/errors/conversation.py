"""What ends or keeps a turn, and what goes wrong with the record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_host.errors.base import GenaiError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors.base import ErrorContext


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

    limit   `round_trips`, `steps`, `seconds` or `cost`; a feature may have more
    """

    code = "limit_exceeded"

    def __init__(self, message: str, *, limit: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.limit = limit


class BudgetExceeded(LimitExceeded):
    """What may be spent is spent: no call was made.

    budget        which one, as `users.ann.day`; empty if it is that the cost of the call is
                  not known
    spent, most   US dollars, or tokens
    renews        when it begins anew (ISO 8601)
    retry_after   seconds until then
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
    """Somebody cancelled it."""

    code = "cancelled"


class Interrupted(Cancelled):
    """It was cut off by the end of the process that did it, and can be gone on with."""

    code = "interrupted"


class ConversationBusy(GenaiError):
    """A turn of this conversation is under way already."""

    code = "conversation_busy"


class ConversationClosed(GenaiError):
    """The conversation was closed."""

    code = "conversation_closed"


class TurnPaused(GenaiError):
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
