"""What goes wrong with assistants and their runs, beyond what goes wrong with any service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_host.errors import GenaiError, GenerationError, ValidationError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors import ErrorContext


class BrokenDefinition(ValidationError):
    """What a service has of an assistant is not what one is.

    assistant_id   which
    """

    code = "assistant_definition"

    def __init__(
        self,
        message: str,
        *,
        assistant_id: str = "",
        path: str = "",
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, path=path, **context)
        self.assistant_id = assistant_id


class AgentDeleted(GenaiError):
    """The agent's assistant was deleted: it does nothing any more.

    assistant_id   which
    """

    code = "assistant_deleted"

    def __init__(
        self, message: str, *, assistant_id: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.assistant_id = assistant_id


class RunError(GenerationError):
    """A run did not come to its end.

    run_id, thread_id, assistant_id   which
    run_status          the last that is known of it; `status` is that of an HTTP reply
    last_error          what the service says went wrong, with `code` and `message`
    incomplete_reason   why it was not done, as `max_completion_tokens`
    """

    code = "assistant_run"

    def __init__(
        self,
        message: str,
        *,
        run_id: str = "",
        thread_id: str = "",
        assistant_id: str = "",
        run_status: str = "",
        last_error: Mapping[str, Any] | None = None,
        incomplete_reason: str = "",
        reason: str = "",
        detail: str = "",
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, reason=reason, detail=detail, **context)
        self.run_id = run_id
        self.thread_id = thread_id
        self.assistant_id = assistant_id
        self.run_status = run_status
        self.last_error = None if last_error is None else dict(last_error)
        self.incomplete_reason = incomplete_reason


class RunFailed(RunError):
    """The service says that it failed."""

    code = "assistant_run_failed"


class RunCancelled(RunError):
    """Somebody cancelled it."""

    code = "assistant_run_cancelled"


class RunExpired(RunError):
    """It waited for results for too long."""

    code = "assistant_run_expired"


class RunIncomplete(RunError):
    """It used up what it may use, or was stopped by a filter."""

    code = "assistant_run_incomplete"


class RunTimedOut(RunError):
    """It took longer than the polling options allow, and was cancelled for that."""

    code = "assistant_run_timed_out"


class RunStuck(RunError):
    """It waits for what nobody can give: it wants an action, and names none, or asks for
    functions without an end, or is in a state that nobody knows."""

    code = "assistant_run_stuck"
