"""Errors of assistants and their runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_host.errors import GenaiError, GenerationError, ValidationError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors import ErrorContext


class BrokenDefinition(ValidationError):
    """The definition of an assistant at the service cannot be read."""

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
    """The assistant of the agent was deleted."""

    code = "assistant_deleted"

    def __init__(
        self, message: str, *, assistant_id: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.assistant_id = assistant_id


class RunError(GenerationError):
    """A run did not complete.

    Attributes:
        run_id: Id of the run.
        thread_id: Id of its thread.
        assistant_id: Id of its assistant.
        run_status: Last known status of the run; `status` is that of an HTTP response.
        last_error: The error that the service reports, with `code` and `message`.
        incomplete_reason: Why the run is incomplete, for example `max_completion_tokens`.
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
    """The service reports that the run failed."""

    code = "assistant_run_failed"


class RunCancelled(RunError):
    """The run was cancelled."""

    code = "assistant_run_cancelled"


class RunExpired(RunError):
    """The run waited too long for outputs of functions."""

    code = "assistant_run_expired"


class RunIncomplete(RunError):
    """The run reached a limit of tokens, or a content filter stopped it."""

    code = "assistant_run_incomplete"


class RunTimedOut(RunError):
    """The run took longer than the polling options allow, and was cancelled."""

    code = "assistant_run_timed_out"


class RunStuck(RunError):
    """The run cannot continue.

    It requires an action without naming calls, calls functions without end, or has an unknown
    status.
    """

    code = "assistant_run_stuck"
