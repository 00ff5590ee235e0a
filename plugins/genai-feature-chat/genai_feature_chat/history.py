"""Selection of the messages of a history for the model. The history itself is unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from genai_host.api import Message


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
