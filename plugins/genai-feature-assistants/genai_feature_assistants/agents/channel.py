"""A channel: what agents that talk with each other share of a thread."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs

from genai_feature_assistants.agents.content import AgentDelta, AgentMessage
from genai_host.api import Message, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from genai_feature_assistants.agents.agent import OpenAIAssistantAgent
    from genai_feature_assistants.agents.backend import Backend
    from genai_feature_assistants.agents.invocation_options import (
        OpenAIAssistantInvocationOptions,
    )

_INNER = (Reasoning, ToolCall, ToolResult)


def channel_hash(keys: Iterable[str]) -> str:
    """The keys of an agent's channel as one text: SHA-256 of them with colons between, in
    base64."""
    return base64.b64encode(hashlib.sha256(":".join(keys).encode()).digest()).decode()


class OpenAIAssistantChannel:
    """One thread of a service, for agents that are asked in turn; several may share it.

    Source: document 002, "Class inventory".
    """

    def __init__(self, backend: Backend, thread_id: str) -> None:
        self._backend = backend
        self.thread_id = thread_id

    def receive(self, history: Iterable[Message]) -> None:
        """Add what was said elsewhere, oldest first. What agents did among themselves, calls of
        functions and hidden messages, is left out.

        Raises `ValidationError` for messages of other roles, and `UnsupportedPart`, before any is
        added.
        """
        said = [each for each in map(_said, history) if each is not None]
        for message in said:
            self._backend.check(message)
        for message in said:
            self._backend.add_message(self.thread_id, message)

    def invoke(
        self, agent: OpenAIAssistantAgent, options: OpenAIAssistantInvocationOptions | None = None
    ) -> Generator[tuple[bool, AgentMessage], None, None]:
        """Let an agent answer; each message, hidden ones too, and whether it is for users."""
        told = agent.invoke(self.thread_id, options, hidden=True)
        return _seen(told)

    def invoke_stream(
        self, agent: OpenAIAssistantAgent, options: OpenAIAssistantInvocationOptions | None = None
    ) -> Generator[tuple[bool, AgentMessage | AgentDelta], None, None]:
        """The same as it comes: the pieces of each message, then the message."""
        told = agent.invoke_stream(self.thread_id, options, hidden=True)
        return _seen(told)

    def history(self) -> Iterator[AgentMessage]:
        """All that was said, oldest first."""
        return self._backend.messages(self.thread_id)


def _said(message: Message) -> Message | None:
    """What others are to know of a message; None if there is nothing."""
    if message.role == "tool" or not getattr(message, "visible", True):
        return None
    parts = tuple(
        each for each in message.content if not isinstance(each, _INNER) and each != Text("")
    )
    return attrs.evolve(message, content=parts) if parts else None


def _seen(told: Generator[Any, None, None]) -> Generator[tuple[bool, Any], None, None]:
    with closing(told):
        for each in told:
            yield each.visible, each
