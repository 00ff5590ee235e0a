"""Checks of the finish reason and the text of an answer."""

from __future__ import annotations

from collections.abc import Collection

from genai_host.api import Completion, FinishReason
from genai_host.errors import GenerationError, UnexpectedFinish


def must_be_done(
    completion: Completion, expected: Collection[FinishReason] = ("stop", "length")
) -> None:
    """Raise `UnexpectedFinish` for a finish reason that is not expected. By default, an answer
    truncated at its token limit is accepted.
    """
    if completion.finish not in expected:
        raise UnexpectedFinish(
            f"the model stopped because of {completion.reason}",
            reason=completion.reason,
            detail=completion.text,
            **completion.place,
        )


def must_have_text(completion: Completion) -> None:
    """Raise `GenerationError` for an answer without text."""
    if not completion.text.strip():
        raise GenerationError(
            "the model returned an empty answer", reason=completion.reason, **completion.place
        )
