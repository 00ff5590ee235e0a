"""How runs end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_feature_assistants.agents.errors import (
    RunCancelled,
    RunError,
    RunExpired,
    RunFailed,
    RunIncomplete,
    RunStuck,
    RunTimedOut,
)
from genai_feature_assistants.agents.run_settings import RunOrder
from genai_host.api.dialects import object_in, one_line, string_in
from genai_host.errors import ProviderError, error_of_status

OPEN = ("queued", "in_progress", "cancelling")
"""What a run is that is to be waited for."""

ENDED: Mapping[str, type[RunError]] = {
    "failed": RunFailed,
    "cancelled": RunCancelled,
    "expired": RunExpired,
    "incomplete": RunIncomplete,
}
"""What is raised for a run that ended otherwise than completed."""

FINAL = ("completed", *ENDED)

CANCELLING = 5.0
"""Seconds that a run which is left waits for the service to hear of it."""


def run_error(
    run: Mapping[str, Any], order: RunOrder, kind: type[RunError] | None = None, why: str = ""
) -> RunError:
    """The error that a run tells of.

    run   a run of the Assistants API, or a response: both have an `id`, a `status` and
          `incomplete_details`; the former a `last_error`, the latter an `error`
    """
    status = string_in(run, "status")
    id = string_in(run, "id")
    last = object_in(run, "last_error") or object_in(run, "error")
    reason = string_in(object_in(run, "incomplete_details"), "reason")
    known = kind or ENDED.get(status, RunStuck)
    said = why or one_line(string_in(last, "message")) or reason
    ended = f"the run {id or 'without an id'} is {status or 'in no state'}"
    return known(
        f"{ended}: {said}" if said else ended,
        run_id=id,
        thread_id=order.thread_id,
        assistant_id=order.assistant_id,
        run_status=status,
        last_error=last or None,
        incomplete_reason=reason,
        reason=string_in(last, "code") or reason or status,
        retryable=last.get("code") in ("server_error", "rate_limit_exceeded"),
    )


def stream_error(data: Mapping[str, Any]) -> ProviderError:
    """The error that an `error` event of a stream is, or has within."""
    error = object_in(data, "error") or data
    said = one_line(string_in(error, "message"))
    return error_of_status(500, said or "the stream tells of an error")


def timed_out(run: Mapping[str, Any], order: RunOrder, seconds: float) -> RunError:
    return run_error(run, order, RunTimedOut, f"not done within {seconds:g} s")


def no_calls(run: Mapping[str, Any], order: RunOrder) -> RunError:
    return run_error(run, order, RunStuck, "it wants an action, and names no calls")


def endless(run: Mapping[str, Any], order: RunOrder, times: int) -> RunError:
    return run_error(run, order, RunStuck, f"it asked for functions {times} times")
