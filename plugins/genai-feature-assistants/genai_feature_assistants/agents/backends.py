"""The APIs that an agent can work with, by name."""

from __future__ import annotations

from genai_feature_assistants.agents.assistants_backend import AssistantsBackend
from genai_feature_assistants.agents.backend import Backend
from genai_feature_assistants.agents.client import ServiceClient
from genai_feature_assistants.agents.responses_backend import ResponsesBackend


def backend_of(client: ServiceClient) -> Backend:
    """The one that the configuration of a client names."""
    made: dict[str, type[AssistantsBackend] | type[ResponsesBackend]] = {
        "assistants": AssistantsBackend,
        "responses": ResponsesBackend,
    }
    return made[client.configuration.api](client)
