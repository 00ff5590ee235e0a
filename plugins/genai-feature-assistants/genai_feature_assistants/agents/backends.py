"""The interface between an agent and an API, and the choice of a backend.

`Backend` is the one interface between agents and the two APIs, the Assistants API and its
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


class Backend(Protocol):
    """An API with definitions, threads and runs. Every method raises the errors of
    `ServiceClient`, and `ValidationError` before anything is sent."""

    def create(self, definition: OpenAIAssistantDefinition) -> OpenAIAssistantDefinition:
        """Make an assistant; the definition, as it is then, has an id."""

    def definitions(self) -> Iterator[OpenAIAssistantDefinition]:
        """All that there are, the newest first."""

    def definition(self, id: str) -> OpenAIAssistantDefinition:
        """One of them. Raises an error of status 404 if there is none."""

    def delete(self, id: str) -> bool:
        """Delete one; whether it is gone."""

    def create_thread(self, options: OpenAIThreadCreationOptions) -> str:
        """Make a thread; its id."""

    def thread(self, thread_id: str) -> ThreadSettings:
        """What a thread has of its own. Raises an error of status 404 if it is gone."""

    def delete_thread(self, thread_id: str) -> bool:
        """Delete one; whether it is gone."""

    def check(self, message: Message) -> None:
        """Raises `ValidationError` and `UnsupportedPart` for a message that no thread can have."""

    def add_message(self, thread_id: str, message: Message) -> AgentMessage:
        """Add a message to a thread; what the thread has then."""

    def messages(self, thread_id: str) -> Iterator[AgentMessage]:
        """The messages of a thread, oldest first."""

    def run(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage]:
        """Run an assistant on a thread; what it does and says, hidden messages too.

        Raises a `RunError`. A run that is still under way when the iterator ends is
        cancelled: it would lock its thread.
        """

    def stream(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage | AgentDelta]:
        """The same as it comes: the pieces of a message before the message."""


def backend_of(client: ServiceClient) -> Backend:
    """The one that the configuration of a client names."""
    made: dict[str, type[AssistantsBackend] | type[ResponsesBackend]] = {
        "assistants": AssistantsBackend,
        "responses": ResponsesBackend,
    }
    return made[client.configuration.api](client)
