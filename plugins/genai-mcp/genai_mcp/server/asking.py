"""What a client is asked while it waits for an answer of its own (before 2026-07-28)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator

from genai_mcp import rpc
from genai_mcp.protocol import CANCELLED
from genai_mcp.rpc import Id
from genai_mcp.server import messages
from genai_mcp.server.messages import Outgoing
from genai_mcp.server.steps import Question
from genai_mcp.within import Within

SECONDS = 600.0
"""How long a human may take to decide."""


class _Asked:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: rpc.Answer | None = None


class Asking:
    """Of one session. May be used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[Id, _Asked] = {}

    def ask(self, question: Question, limits: Within) -> Generator[Outgoing, None, bool]:
        """Whether the answer is yes; what is yielded is to be sent. No answer is none, and
        the client is told that nobody waits for it any more."""
        asked = _Asked()
        id = f"ask-{next(self._numbers)}"
        with self._lock:
            self._open[id] = asked
        params = messages.elicitation(question)
        try:
            yield {"jsonrpc": "2.0", "id": id, "method": messages.ELICIT, "params": params}
            with limits.on_cancel(asked.done.set):
                asked.done.wait(SECONDS)
        finally:
            with self._lock:
                self._open.pop(id, None)
        if asked.answer is None:
            yield messages.notification(CANCELLED, {"requestId": id})
            return False
        return asked.answer.error is None and messages.is_allowed(asked.answer.result)

    def answered(self, answer: rpc.Answer) -> None:
        """What a client has answered; nothing, if it was not asked."""
        with self._lock:
            asked = self._open.pop(answer.id, None) if answer.id is not None else None
        if asked is not None:
            asked.answer = answer
            asked.done.set()
