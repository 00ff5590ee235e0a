"""How a chat is answered."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from attrs import field, frozen
from attrs import validators as must

from genai_feature_chat.history import visible
from genai_host.api import Answer, Completion, Message, Prompt, Step, Story, Turn, about
from genai_host.errors import UnexpectedFinish

_EXTRACT = (
    "Take the data that is asked for from the text of the user. Use only what it says, "
    "and do not answer it."
)


@frozen
class Settings:
    system_prompt: str = field(
        default="You are a helpful assistant.",
        metadata=about("what the model is told before all else; empty for nothing"),
    )
    history_turns: int | None = field(
        default=None,
        validator=must.optional(must.ge(0)),
        metadata=about("how many of the last turns the model is shown; all unless set, 0 for none"),
    )
    keep_history: bool = field(
        default=True, metadata=about("whether what is said enters the history")
    )


def respond(turn: Turn[Settings]) -> Story:
    """Prompt the model with the system prompt, the history and the message.

    Where JSON is asked for, the model gives it, or the support model takes it from
    the answer, if there is one.
    """
    settings = turn.settings
    extract = turn.schema is not None and "support" in turn.roles
    messages = [*visible(turn.history, settings.history_turns), turn.message]
    if settings.system_prompt:
        messages.insert(0, Message("system", settings.system_prompt))
    completion = yield from Prompt(messages, schema=None if extract else turn.schema)
    _must_be_done(completion)
    value = completion.value
    if extract and turn.schema is not None:
        value = yield from _extracted(completion.text, turn.schema)
    return Answer(completion.text, data=value, adds=None if settings.keep_history else ())


def _must_be_done(completion: Completion) -> None:
    """An answer that was cut at its token limit is still one; nothing else is."""
    if completion.finish not in ("stop", "length"):
        reason = completion.vendor_finish or completion.finish
        raise UnexpectedFinish(
            f"the model stopped because of {reason}", reason=reason, detail=completion.text
        )


def _extracted(text: str, schema: Mapping[str, Any]) -> Generator[Step[Any], Any, Any]:
    messages = [Message("system", _EXTRACT), Message("user", text)]
    completion = yield from Prompt(messages, role="support", schema=schema, show=False)
    _must_be_done(completion)
    return completion.value
