"""Formats errors for the command line: what failed, where, and the next step."""

from __future__ import annotations

import math

from genai_host.cli.log import log_cause
from genai_host.cli.terminal import note
from genai_host.errors import (
    AuthenticationFailed,
    CircuitOpen,
    GenaiError,
    RateLimited,
    ServiceUnavailable,
)


def show_error(error: GenaiError) -> None:
    """Print an error: the message and its place, the reasons, and the next step; with -v, first the
    cause."""
    log_cause(error)
    note(f"error: {error}{_place(error)}", fg="red")
    for reason in getattr(error, "reasons", ()):
        if reason not in str(error):
            note(f"  - {reason}")
    hint = error.hint or _usual_hint(error)
    if hint:
        note(f"  {hint}")


def _place(error: GenaiError) -> str:
    """Model and provider of the error, unless the message names them."""
    names = [name for name in (error.model, error.provider) if name]
    if all(name in str(error) for name in names):
        return ""
    return f" ({'@'.join(names)})"


def _usual_hint(error: GenaiError) -> str:
    """The next step for an error without a hint."""
    after = getattr(error, "retry_after", None)
    wait = "wait a while" if after is None else f"wait {math.ceil(after)} s"
    if isinstance(error, AuthenticationFailed):
        return "check the key: genai-host doctor"
    if isinstance(error, (RateLimited, CircuitOpen)):
        return f"{wait}, then try again"
    if isinstance(error, ServiceUnavailable) and error.provider:
        return f"try again, or check its settings: genai-host config show {error.provider}"
    return ""
