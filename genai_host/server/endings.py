"""How a conversation ends with the request that it answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.api import Limits
from genai_host.api.cancellation import ended_with
from genai_host.conversation import Conversation
from genai_host.errors import Cancelled, ConversationClosed


@contextmanager
def ended_by(limits: Limits, conversation: Conversation) -> Iterator[None]:
    """Close a conversation when this is left, or once limits end: the turn under way raises
    what they end with, and one that is interrupted can be gone on with."""
    try:
        with conversation, limits.on_cancel(lambda: conversation.close(ended_with(limits))):
            yield
    except ConversationClosed as error:  # before the turn began
        raise (ended_with(limits) or Cancelled("cancelled")) from error
