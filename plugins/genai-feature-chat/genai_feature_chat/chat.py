"""The turn of a chat: the check of its answer, and the extraction of data from a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen, validators as must

from genai_host.api import (
    Answer,
    FeatureSteps,
    Message,
    Prompt,
    Turn,
    setting,
)

_EXTRACT = (
    "Take the data that is asked for from the text of the user. Use only what it says, "
    "and do not answer it."
)


def extraction(text: str, schema: Mapping[str, Any]) -> Prompt:
    """Return a prompt with the text only, without the history."""
    messages = [Message("system", _EXTRACT), Message("user", text)]
    return Prompt(messages, role="support", schema=schema, stream=False)


def visible(history: Sequence[Message], turns: int | None) -> Sequence[Message]:
    """Return the last turns of a history, oldest first; all for None.

    A turn starts with a message of the user, so that each tool result has its call. System messages
    are always included.
    """
    if turns is None:
        return history
    starts = [number for number, message in enumerate(history) if message.role == "user"]
    if turns and turns >= len(starts):
        return history
    first = starts[-turns] if turns else len(history)
    kept = [message for message in history[:first] if message.role == "system"]
    return [*kept, *history[first:]]


@frozen
class Settings:
    system_prompt: str = setting("You are a helpful assistant.", "system prompt; empty for none")
    history_turns: int | None = setting(
        None,
        "number of last turns sent to the model; all if not set, 0 for none",
        validator=must.optional(must.ge(0)),
    )
    keep_history: bool = setting(True, "add messages to the history")


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """Prompt the model with the system prompt, the history and the message.

    If JSON is requested, the model returns it, or the support model, if there is one, extracts it
    from the answer.
    """
    settings = turn.settings
    extract = turn.schema is not None and "support" in turn.roles
    messages = [*visible(turn.history, settings.history_turns), turn.message]
    if settings.system_prompt:
        messages.insert(0, Message("system", settings.system_prompt))
    completion = yield from Prompt(messages, schema=None if extract else turn.schema)
    completion.check_finish("stop", "length")  # it may be truncated at its token limit
    value = completion.value
    if extract and turn.schema is not None:
        found = yield from extraction(completion.text, turn.schema)
        found.check_finish("stop", "length")
        value = found.value
    return Answer(completion.text, data=value, new_messages=None if settings.keep_history else ())
