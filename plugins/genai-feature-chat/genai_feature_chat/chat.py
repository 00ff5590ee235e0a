"""The turn of a chat."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen
from attrs import validators as must

from genai_feature_chat.endings import must_be_done
from genai_feature_chat.extraction import extraction
from genai_host.api import Answer, FeatureSteps, Message, Prompt, Turn, about


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
    system_prompt: str = field(
        default="You are a helpful assistant.",
        metadata=about("system prompt; empty for none"),
    )
    history_turns: int | None = field(
        default=None,
        validator=must.optional(must.ge(0)),
        metadata=about("number of last turns sent to the model; all if not set, 0 for none"),
    )
    keep_history: bool = field(default=True, metadata=about("add messages to the history"))


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
    must_be_done(completion)
    value = completion.value
    if extract and turn.schema is not None:
        found = yield from extraction(completion.text, turn.schema)
        must_be_done(found)
        value = found.value
    return Answer(completion.text, data=value, new_messages=None if settings.keep_history else ())
