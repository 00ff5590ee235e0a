"""How an answer has ended, and whether it is one."""

from __future__ import annotations

from collections.abc import Collection

from genai_host.api import Completion, FinishReason
from genai_host.errors import GenerationError, UnexpectedFinish


def must_be_done(
    completion: Completion, expected: Collection[FinishReason] = ("stop", "length")
) -> None:
    """Raises `UnexpectedFinish` for any other end than the expected: unless said
    otherwise, an answer that was cut at its token limit is still one."""
    if completion.finish not in expected:
        raise UnexpectedFinish(
            f"the model stopped because of {completion.reason}",
            reason=completion.reason,
            detail=completion.text,
            **completion.place,
        )


def must_say_something(completion: Completion) -> None:
    """Raises `GenerationError` for an answer without text."""
    if not completion.text.strip():
        raise GenerationError(
            "the model said nothing", reason=completion.reason, **completion.place
        )
