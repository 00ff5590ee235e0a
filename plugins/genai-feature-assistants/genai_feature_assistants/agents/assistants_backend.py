"""The Assistants API, version 2.

Source: OpenAI's OpenAPI document 2.3.0, the paths below `/assistants` and `/threads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from genai_feature_assistants.agents.assistants_form import (
    assistant_request,
    read_definition,
    read_thread,
    thread_request,
)
from genai_feature_assistants.agents.assistants_run import PolledRun, StreamedRun
from genai_feature_assistants.agents.client import ServiceClient, path_of
from genai_feature_assistants.agents.content import AgentDelta, AgentMessage
from genai_feature_assistants.agents.definition import OpenAIAssistantDefinition
from genai_feature_assistants.agents.messages_form import read_message, written_message
from genai_feature_assistants.agents.polling import Pace
from genai_feature_assistants.agents.run_settings import RunOrder, ThreadSettings
from genai_feature_assistants.agents.thread_options import OpenAIThreadCreationOptions
from genai_host.api import Message
from genai_host.api.dialects import malformed, string_in
from genai_host.errors import ProviderError


class AssistantsBackend:
    """Assistants, threads and runs as the service has them."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    def create(self, definition: OpenAIAssistantDefinition) -> OpenAIAssistantDefinition:
        return read_definition(self._client.post("assistants", assistant_request(definition)))

    def definitions(self) -> Iterator[OpenAIAssistantDefinition]:
        return map(read_definition, self._client.pages("assistants", order="desc"))

    def definition(self, id: str) -> OpenAIAssistantDefinition:
        return read_definition(self._client.get(path_of("assistants", id)))

    def delete(self, id: str) -> bool:
        return self._deleted(path_of("assistants", id))

    def create_thread(self, options: OpenAIThreadCreationOptions) -> str:
        made = string_in(self._client.post("threads", thread_request(options)), "id")
        if not made:
            raise malformed("the thread has no id")
        return made

    def thread(self, thread_id: str) -> ThreadSettings:
        return read_thread(self._client.get(path_of("threads", thread_id)))

    def delete_thread(self, thread_id: str) -> bool:
        return self._client.delete(path_of("threads", thread_id)).get("deleted") is True

    def check(self, message: Message) -> None:
        written_message(message)

    def add_message(self, thread_id: str, message: Message) -> AgentMessage:
        body = written_message(message)
        return read_message(self._client.post(path_of("threads", thread_id, "messages"), body))

    def messages(self, thread_id: str) -> Iterator[AgentMessage]:
        names: dict[str, str] = {}
        for data in self._client.pages(path_of("threads", thread_id, "messages")):
            id = string_in(data, "assistant_id")
            if id and id not in names:
                names[id] = self._name_of(id)
            yield read_message(data, names.get(id, ""))

    def run(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage]:
        return cast("Iterator[AgentMessage]", PolledRun(self._client, order, pace).told())

    def stream(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage | AgentDelta]:
        return StreamedRun(self._client, order, pace).told()

    def _name_of(self, id: str) -> str:
        """An assistant's; its id where it has none, or is gone."""
        try:
            return string_in(self._client.get(path_of("assistants", id)), "name") or id
        except ProviderError as error:
            if error.status != 404:
                raise
            return id

    def _deleted(self, path: str) -> bool:
        """One that somebody else has deleted is gone as well."""
        try:
            return self._client.delete(path).get("deleted") is True
        except ProviderError as error:
            if error.status != 404:
                raise
            return True
