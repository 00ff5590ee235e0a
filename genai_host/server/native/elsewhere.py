"""Turns that other servers of the same store are at: other workers, or other machines."""

from __future__ import annotations

from genai_host.conversation import Conversation
from genai_host.errors import Conflict, ConversationBusy
from genai_host.host import Host

_TRIES = 5


def must_not_run_elsewhere(host: Host, user: str, conversation: Conversation) -> None:
    """Of a conversation with a turn that has not ended: whether it was cut off, or somebody is
    at it. Raises `ConversationBusy`."""
    if conversation.status == "pending" and host.kept(user).runs_elsewhere(conversation.id):
        raise ConversationBusy(
            "a turn is under way, on another server of this store",
            hint="wait for it, or cancel it",
        )


def cancel_elsewhere(host: Host, user: str, id: str) -> bool:
    """End the turn that another server is at, on record: whoever is at it finds that out with its
    next step, and stops. Whether there was one."""
    store = host.kept(user)
    for last in reversed(range(_TRIES)):
        if not store.runs_elsewhere(id):
            return False
        with host.conversation(id, owner=user) as conversation:
            try:
                conversation.drop()
            except Conflict:  # it took a step meanwhile
                if last:
                    continue
                raise
            return True
    return False
