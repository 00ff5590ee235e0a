"""Functions that features call, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from genai_host.apart import apart
from genai_host.api import CallFunction
from genai_host.api.cancellation import Cancellation
from genai_host.errors import FunctionFailed, GenaiError, InvalidData, TurnWaiting
from genai_host.telling import told

Fit = Callable[[CallFunction[Any], Any], Any]
"""A result as it can be put on record; raises `InvalidData` if it cannot."""


def call_function(step: CallFunction[Any], fit: Fit, cancellation: Cancellation) -> Any:
    """Call it and wait for its result; being cancelled need not wait.

    Raises a `GenaiError` as the function raised it, and `FunctionFailed` for all else.
    """
    ended: Any = apart(
        step.function.__qualname__,
        lambda: _result(step, fit),
        lambda error: _failure(step, error),
        cancellation,
    )
    if isinstance(ended, GenaiError):
        raise ended
    return ended


def _result(step: CallFunction[Any], fit: Fit) -> Any:
    result = step.function(**step.arguments)
    try:
        return fit(step, result)
    except InvalidData as error:
        raise FunctionFailed(
            f"{step.function.__qualname__} gave what cannot be put on record: {error}"
        ) from error


def _failure(step: CallFunction[Any], error: BaseException) -> GenaiError:
    if isinstance(error, GenaiError) and not isinstance(error, TurnWaiting):
        return error  # another conversation's turn waits: this one does not
    failed = FunctionFailed(
        f"{step.function.__qualname__} failed: {told(error)}",
        exception=type(error).__name__,
    )
    failed.__cause__ = error
    return failed
