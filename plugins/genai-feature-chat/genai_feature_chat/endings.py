"""How an answer has ended, and whether it is one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from genai_host.api import Completion, Finish
from genai_host.errors import GenerationError, UnexpectedFinish


def must_be_done(completion: Completion, expected: Collection[Finish] = ("stop", "length")) -> None:
    """Raises `UnexpectedFinish` for any other end than the expected: unless said
    otherwise, an answer that was cut at its token limit is still one."""
    if completion.finish not in expected:
        reason = completion.vendor_finish or completion.finish
        raise UnexpectedFinish(
            f"the model stopped because of {reason}",
            reason=reason,
            detail=completion.text,
            **_place(completion),
        )


def must_say_something(completion: Completion) -> None:
    """Raises `GenerationError` for an answer without text."""
    if not completion.text.strip():
        reason = completion.vendor_finish or completion.finish
        raise GenerationError("the model said nothing", reason=reason, **_place(completion))


def _place(completion: Completion) -> dict[str, Any]:
    route = completion.route
    place = {"raw_reply": completion.raw_reply}
    return {**place, "provider": route.provider, "model": route.model} if route else place
