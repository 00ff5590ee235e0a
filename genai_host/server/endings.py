"""How a conversation ends with the request that it answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.api import Limits
from genai_host.conversation import Conversation
from genai_host.errors import Cancelled, ConversationClosed, GenaiError


@contextmanager
def ended_by(limits: Limits, conversation: Conversation) -> Iterator[None]:
    """Close a conversation when this is left, or once limits end: the turn under way raises
    what they end with, and one that is interrupted can be gone on with."""
    try:
        with conversation, limits.on_cancel(lambda: conversation.close(_end_of(limits))):
            yield
    except ConversationClosed as error:  # before the turn began
        raise (_end_of(limits) or Cancelled("cancelled")) from error


def _end_of(limits: Limits) -> GenaiError | None:
    """What limits ended with; None if they have not."""
    try:
        limits.check()
    except GenaiError as error:
        return error
    return None
