"""The interface between an agent and an API, and the choice of a backend.

`AgentBackend` is the one interface between agents and the two APIs, the Assistants API and its
successor. `backend_of` returns the backend that the configuration of a client names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from genai_feature_assistants.agents.assistants_backend import AssistantsBackend
from genai_feature_assistants.agents.client import ServiceClient
from genai_feature_assistants.agents.content import AgentDelta, AgentMessage
from genai_feature_assistants.agents.definitions import OpenAIAssistantDefinition
from genai_feature_assistants.agents.options import OpenAIThreadCreationOptions, Pace
from genai_feature_assistants.agents.responses_backend import ResponsesBackend
from genai_feature_assistants.agents.runs import RunOrder, ThreadSettings
from genai_host.api import Message


class AgentBackend(Protocol):
    """An API with definitions, threads and runs.

    Every method raises the errors of `ServiceClient`, and `ValidationError` before anything is
    sent.
    """

    def create(self, definition: OpenAIAssistantDefinition) -> OpenAIAssistantDefinition:
        """Make an assistant, and return its definition with its id."""

    def definitions(self) -> Iterator[OpenAIAssistantDefinition]:
        """Return all definitions, newest first."""

    def definition(self, id: str) -> OpenAIAssistantDefinition:
        """Return one definition. Raises an error of status 404 if it does not exist."""

    def delete(self, id: str) -> bool:
        """Delete an assistant, and return whether it was deleted."""

    def create_thread(self, options: OpenAIThreadCreationOptions) -> str:
        """Make a thread, and return its id."""

    def thread(self, thread_id: str) -> ThreadSettings:
        """Return the settings of a thread. Raises an error of status 404 if it was deleted."""

    def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread, and return whether it was deleted."""

    def check(self, message: Message) -> None:
        """Raise `ValidationError` or `UnsupportedPart` for a message that no thread can have."""

    def add_message(self, thread_id: str, message: Message) -> AgentMessage:
        """Add a message to a thread, and return it as the service stored it."""

    def messages(self, thread_id: str) -> Iterator[AgentMessage]:
        """Return the messages of a thread, oldest first."""

    def run(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage]:
        """Run an assistant on a thread, and yield its messages, hidden ones included.

        A run that is open when the iterator ends is cancelled: it would lock its thread.

        Raises:
            RunError: The run did not complete.
        """

    def stream(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage | AgentDelta]:
        """Like `run`, but yield the deltas of a message before the message."""


def backend_of(client: ServiceClient) -> AgentBackend:
    """Return the backend that the configuration of a client names."""
    made: dict[str, type[AssistantsBackend] | type[ResponsesBackend]] = {
        "assistants": AssistantsBackend,
        "responses": ResponsesBackend,
    }
    return made[client.configuration.api](client)
