"""The turns that are under way, so that others can reach them: to cancel, or to learn that
a conversation is busy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.api import Limits
from genai_host.conversation import Conversation
from genai_host.errors import ConversationBusy
from genai_host.server.endings import ended_by


class Live:
    """Of one server. May be used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[str, Conversation] = {}

    @contextmanager
    def turn(self, conversation: Conversation, limits: Limits) -> Iterator[None]:
        """Have a conversation to oneself, until it is left: then it is closed.

        limits   close it when they end, with what they end with

        Raises `ConversationBusy` if a turn of it is under way.
        """
        id = conversation.id
        with self._lock:
            if id in self._turns:
                raise ConversationBusy("a turn is under way", hint="wait for it, or cancel it")
            self._turns[id] = conversation
        try:
            with ended_by(limits, conversation):
                yield
        finally:
            with self._lock:
                del self._turns[id]

    def cancel(self, id: str) -> bool:
        """End the turn under way; whether there was one."""
        with self._lock:
            conversation = self._turns.get(id)
        if conversation is None:
            return False
        conversation.close()
        return True

    def is_busy(self, id: str) -> bool:
        with self._lock:
            return id in self._turns
