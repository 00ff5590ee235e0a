"""Responses and Conversations, which came after the Assistants API.

A thread is a conversation, a run is the responses in it up to one that asks for no function.
Assistants the service has none: the configuration's `definitions` keep them, and what one is
made of is sent with each run.

Source: OpenAI's OpenAPI document 2.3.0, the paths below `/conversations` and `/responses`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import cast

import attrs

from genai_feature_assistants.agents.assistants_form import assistant_request
from genai_feature_assistants.agents.client import ServiceClient, path_of
from genai_feature_assistants.agents.content import AgentDelta, AgentMessage
from genai_feature_assistants.agents.definition import OpenAIAssistantDefinition
from genai_feature_assistants.agents.polling import Pace
from genai_feature_assistants.agents.responses_form import (
    read_item,
    read_thread,
    thread_metadata,
    written_item,
)
from genai_feature_assistants.agents.responses_run import StreamedRun, WholeRun
from genai_feature_assistants.agents.run_settings import RunOrder, ThreadSettings
from genai_feature_assistants.agents.thread_options import OpenAIThreadCreationOptions
from genai_host.api import Message
from genai_host.api.dialects import list_in, malformed, string_in
from genai_host.errors import BadRequest

_MOST_ITEMS = 20  # that are added at once


class ResponsesBackend:
    """Assistants on this side, threads and runs as the service has them."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._kept = client.configuration.kept_definitions

    def create(self, definition: OpenAIAssistantDefinition) -> OpenAIAssistantDefinition:
        assistant_request(definition)  # refuses what the other API would refuse
        files, store = definition.code_interpreter_file_ids, definition.vector_store_id
        made = attrs.evolve(
            definition,
            id=f"asst_{uuid.uuid4().hex}",
            enable_code_interpreter=definition.enable_code_interpreter or bool(files),
            enable_file_search=definition.enable_file_search or bool(store),
        )
        self._kept.save(made)
        return made

    def definitions(self) -> Iterator[OpenAIAssistantDefinition]:
        return iter(self._kept.all())

    def definition(self, id: str) -> OpenAIAssistantDefinition:
        found = self._kept.get(id)
        if found is None:
            raise BadRequest(
                f"there is no assistant {id}",
                status=404,
                hint="the Responses API keeps none: give `definitions` that do",
            )
        return found

    def delete(self, id: str) -> bool:
        self._kept.remove(id)
        return True

    def create_thread(self, options: OpenAIThreadCreationOptions) -> str:
        items = [written_item(each) for each in options.messages]
        body = {"metadata": thread_metadata(options), "items": items[:_MOST_ITEMS]}
        made = string_in(self._client.post("conversations", body), "id")
        if not made:
            raise malformed("the conversation has no id")
        for at in range(_MOST_ITEMS, len(items), _MOST_ITEMS):
            path = path_of("conversations", made, "items")
            self._client.post(path, {"items": items[at : at + _MOST_ITEMS]})
        return made

    def thread(self, thread_id: str) -> ThreadSettings:
        return read_thread(self._client.get(path_of("conversations", thread_id)))

    def delete_thread(self, thread_id: str) -> bool:
        return self._client.delete(path_of("conversations", thread_id)).get("deleted") is True

    def check(self, message: Message) -> None:
        written_item(message)

    def add_message(self, thread_id: str, message: Message) -> AgentMessage:
        body = {"items": [written_item(message)]}
        added = list_in(
            self._client.post(path_of("conversations", thread_id, "items"), body), "data"
        )
        read = read_item(added[0], thread_id) if added and isinstance(added[0], dict) else None
        if read is None:
            raise malformed("the message is not what was added")
        return read

    def messages(self, thread_id: str) -> Iterator[AgentMessage]:
        """Whose a message is, the service does not say: agents have no names here."""
        for item in self._client.pages(path_of("conversations", thread_id, "items")):
            read = read_item(item, thread_id)
            if read is not None:
                yield read

    def run(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage]:
        return cast("Iterator[AgentMessage]", WholeRun(self._client, order, pace).told())

    def stream(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage | AgentDelta]:
        return StreamedRun(self._client, order, pace).told()
