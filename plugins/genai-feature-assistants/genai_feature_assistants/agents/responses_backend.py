"""The backend over Responses and Conversations, the successor of the Assistants API.

A thread is a conversation. A run is the responses in it, up to the first one that asks for no
function. The service has no assistants: the `definitions` of the configuration store them, and
each run sends the content of the definition.

Source: OpenAI's OpenAPI document 2.3.0: `CreateConversationBody`, `CreateResponse`, `Response`,
`OutputItem`, `ResponseStreamEvent`, and the paths below `/conversations` and `/responses`.
"""

from __future__ import annotations

import base64
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import attrs

from genai_feature_assistants.agents.client import ServiceClient, path_of
from genai_feature_assistants.agents.content import (
    AgentDelta,
    AgentMessage,
    Code,
    FileImage,
    Wire,
    check_role,
    read_code,
    read_text,
)
from genai_feature_assistants.agents.definitions import (
    OpenAIAssistantDefinition,
    assistant_request,
)
from genai_feature_assistants.agents.errors import RunIncomplete
from genai_feature_assistants.agents.functions import function_json, output_text
from genai_feature_assistants.agents.options import (
    OpenAIThreadCreationOptions,
    Pace,
)
from genai_feature_assistants.agents.runs import (
    CANCELLING,
    BackendRun,
    RunOrder,
    RunSettings,
    RunUpdate,
    ThreadSettings,
    conversation_metadata,
    conversation_settings,
    run_error,
    stream_error,
)
from genai_host.api import (
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    count_in,
    details_in,
    list_in,
    malformed,
    object_in,
    objects_in,
    read_tool_call,
    string_in,
)
from genai_host.errors import (
    BadRequest,
    GenaiError,
    IncompleteReply,
    InvalidParameter,
    UnsupportedPart,
    ValidationError,
)

_ROLES = ("user", "assistant")


def written_item(message: Message) -> Wire:
    """Return a message as an item of a conversation.

    Raises:
        ValidationError: The role is neither user nor assistant, or the message is empty.
        UnsupportedPart: A conversation cannot have a part of the message.
    """
    check_role(message)
    parts = [each for part in message.content for each in _written_part(part, message.role)]
    if not parts:
        raise ValidationError("a message of a thread must have content", path="$.content")
    content: Any = parts
    if message.role == "assistant":  # its parts are the service's own, with ids
        content = "".join(each["text"] for each in parts)
    return {"type": "message", "role": message.role, "content": content}


def _written_part(part: Part, role: str) -> list[Wire]:
    text = part.text if isinstance(part, Text) else part.code if isinstance(part, Code) else None
    if text is not None:
        return [{"type": "input_text", "text": text}] if text else []
    if isinstance(part, Reasoning):
        return []  # of another model; no service accepts it
    if role == "user" and isinstance(part, Image):
        return [{"type": "input_image", "image_url": _address(part), "detail": "auto"}]
    if role == "user" and isinstance(part, FileImage):
        return [{"type": "input_image", "file_id": part.file_id, "detail": part.detail}]
    raise UnsupportedPart(
        f"a message of role {role} in a conversation cannot contain parts of type {part.type}",
        part=part.type,
    )


def _address(image: Image) -> str:
    if image.url:
        return image.url
    data = base64.b64encode(image.data).decode()
    return f"data:{image.media_type or 'image/png'};base64,{data}"


def read_item(item: Mapping[str, Any], thread_id: str) -> AgentMessage | None:
    """Return the message of an item; None for another kind of item."""
    role = item.get("role")
    if item.get("type") != "message" or role not in _ROLES:
        return None
    return AgentMessage(
        "user" if role == "user" else "assistant",
        tuple(read_parts(item)),
        id=string_in(item, "id"),
        thread_id=thread_id,
    )


def read_parts(item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of a message. Unknown kinds are left out."""
    for each in objects_in(item, "content"):
        kind = each.get("type")
        if kind in ("input_text", "output_text", "text"):
            yield read_text(string_in(each, "text"), list_in(each, "annotations"))
        elif kind == "refusal":
            yield Text(string_in(each, "refusal"))
        elif kind == "input_image" and string_in(each, "image_url"):
            yield Image(url=string_in(each, "image_url"))
        elif kind == "input_image":
            yield FileImage(string_in(each, "file_id"), string_in(each, "detail") or "auto")


def response_request(order: RunOrder) -> Wire:
    """Return the body of the first response of a run.

    It contains the whole definition, since the service stores none. Raises `InvalidParameter`: the
    Responses API has no counterpart of an option."""
    settings = order.settings
    _check(settings)
    instructions = "\n\n".join(
        filter(None, (settings.instructions, settings.additional_instructions))
    )
    body: Wire = {
        "model": settings.model_name,
        "conversation": order.thread_id,
        "instructions": instructions or None,
        "input": [written_item(each) for each in settings.additional_messages] or None,
        "tools": _tools(order) or None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_completion_tokens,
        "parallel_tool_calls": settings.parallel_tool_calls_enabled,
        "metadata": dict(settings.metadata) or None,
        "text": {"format": {"type": "json_object"}} if settings.enable_json_response else None,
        "include": ["code_interpreter_call.outputs"] if settings.enable_code_interpreter else None,
    }
    return {name: value for name, value in body.items() if value is not None}


def output_items(results: Sequence[ToolResult]) -> list[Wire]:
    """Return the results of functions as items."""
    return [
        {"type": "function_call_output", "call_id": each.id, "output": output_text(each)}
        for each in results
    ]


def _check(settings: RunSettings) -> None:
    for name in ("max_prompt_tokens", "truncation_message_count"):
        if getattr(settings, name) is not None:
            raise InvalidParameter(
                f"the Responses API does not support {name}",
                parameter=name,
                hint="omit it, or use the Assistants API",
            )
    if settings.enable_file_search and not settings.vector_store_id:
        raise InvalidParameter(
            "file search requires a vector store",
            parameter="vector_store_id",
            hint="set vector_store_id of the definition or the thread",
        )


def _tools(order: RunOrder) -> list[Wire]:
    settings = order.settings
    tools: list[Wire] = []
    if settings.enable_code_interpreter:
        container: Wire = {"type": "auto"}
        if settings.code_interpreter_file_ids:
            container["file_ids"] = list(settings.code_interpreter_file_ids)
        tools.append({"type": "code_interpreter", "container": container})
    if settings.enable_file_search:
        tools.append({"type": "file_search", "vector_store_ids": [settings.vector_store_id]})
    for each in order.functions.offered:
        tools.append({"type": "function", **function_json(each.schema), "strict": False})
    return tools


_OPEN = ("queued", "in_progress")
_DELTAS: Mapping[str, Literal["text", "code"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.code_interpreter_call_code.delta": "code",
}
_ENDS = ("response.completed", "response.failed", "response.incomplete")


class _Run(BackendRun):
    """One run: responses until one calls no function."""

    def __init__(self, client: ServiceClient, order: RunOrder, pace: Pace) -> None:
        super().__init__(client, order, pace)
        self._pending: list[ToolCall] = []  # that no response has been given the results of

    def updates(self) -> Iterator[RunUpdate]:
        body = response_request(self.order)
        for _ in range(self.pace.options.round_trips):
            yield from self._answered(body)
            if self.state.get("status") != "completed":
                raise run_error(self.state, self.order)
            calls = self._pending = self._calls()
            yield from self._messages(calls)
            if not calls:
                return
            results = self.order.functions.call(calls)
            for each in results:
                yield self.message([each], visible=False, role="tool")
            body = {**body, "input": output_items(results), **self._left(body)}
        raise self.stuck(f"it called functions {self.pace.options.round_trips} times")

    def leave(self) -> None:
        if self.state.get("status") in _OPEN:
            self.cancel()
        elif self._pending:
            self._give_up()

    @abstractmethod
    def _answered(self, body: Wire) -> Iterator[RunUpdate]:
        """Get a response, and yield its deltas."""

    def update(self, state: Wire) -> None:
        self.state = self.client.without_key(state)
        self._pending = []
        self.run_id = string_in(state, "id")
        if not self.run_id:
            raise malformed("the response has no id")

    def path(self, *more: str) -> str:
        return path_of("responses", self.run_id, *more)

    def _calls(self) -> list[ToolCall]:
        return [
            read_tool_call(
                string_in(each, "call_id"), string_in(each, "name"), each.get("arguments")
            )
            for each in objects_in(self.state, "output")
            if each.get("type") == "function_call"
        ]

    def _messages(self, calls: list[ToolCall]) -> Iterator[AgentMessage]:
        """Yield calls, code and messages, in this order."""
        if calls:
            yield self.asked(calls)
        for item in objects_in(self.state, "output"):
            if item.get("type") == "code_interpreter_call":
                yield self.message([read_code(item, "code", _url)], id=string_in(item, "id"))
        for item in objects_in(self.state, "output"):
            if item.get("type") == "message":
                parts = list(read_parts(item))
                yield self.message(parts, id=string_in(item, "id"))

    def _left(self, body: Wire) -> Wire:
        """Return how many of the tokens of the run the next response may use. Raises
        `RunIncomplete`: none are left."""
        if "max_output_tokens" not in body:
            return {}
        used = count_in(details_in(self.state, "usage"), "output_tokens")
        left = body["max_output_tokens"] - used
        if left <= 0:
            incomplete = {
                **self.state,
                "status": "incomplete",
                "incomplete_details": {"reason": "max_completion_tokens"},
            }
            raise run_error(incomplete, self.order, RunIncomplete)
        return {"max_output_tokens": left}

    def _give_up(self) -> None:
        """Answer the open calls with an error, if possible.

        The service makes no response in a conversation with unanswered calls.
        """
        results = [
            ToolResult(each.id, each.name, "Error: the run was abandoned", True)
            for each in self._pending
        ]
        with suppress(GenaiError):
            path = path_of("conversations", self.order.thread_id, "items")
            self.client.post(path, {"items": output_items(results)}, seconds=CANCELLING)


class WholeRun(_Run):
    """A run whose responses are not streamed. A response in the background is polled."""

    def _answered(self, body: Wire) -> Iterator[RunUpdate]:
        self.update(self.client.post("responses", body, seconds=self.pace.options.timeout or None))
        self.wait(_OPEN)
        yield from ()


class ResponsesStreamedRun(_Run):
    """A run whose responses are streamed."""

    def _answered(self, body: Wire) -> Iterator[RunUpdate]:
        ended = False
        try:
            for _, data in self.events("responses", body):
                ended = ended or data.get("type") in _ENDS
                yield from self._of_event(string_in(data, "type"), data)
        except IncompleteReply:
            if not ended:
                raise
        if not ended:
            text = "".join(self.text)
            raise IncompleteReply("the stream ended before the response was complete", text=text)

    def _of_event(self, kind: str, data: Wire) -> Iterator[AgentDelta]:
        """Yield the deltas of an event. Unknown kinds are ignored."""
        if kind == "error":
            raise stream_error(self.client.without_key(data))
        if kind in ("response.created", "response.in_progress", *_ENDS):
            self.update(dict(object_in(data, "response")))
        elif kind in _DELTAS and string_in(data, "delta"):
            yield self.delta(string_in(data, "delta"), _DELTAS[kind], string_in(data, "item_id"))


_MAX_ITEMS = 20  # per request


class ResponsesBackend:
    """Assistants stored by the client; threads and runs of the service. The methods are those of
    `AssistantsBackend`."""

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
                f"unknown assistant {id}",
                status=404,
                hint="the Responses API stores no assistants: set `definitions`",
            )
        return found

    def delete(self, id: str) -> bool:
        self._kept.remove(id)
        return True

    def create_thread(self, options: OpenAIThreadCreationOptions) -> str:
        items = [written_item(each) for each in options.messages]
        body = {"metadata": conversation_metadata(options), "items": items[:_MAX_ITEMS]}
        made = string_in(self._client.post("conversations", body), "id")
        if not made:
            raise malformed("the conversation has no id")
        for at in range(_MAX_ITEMS, len(items), _MAX_ITEMS):
            path = path_of("conversations", made, "items")
            self._client.post(path, {"items": items[at : at + _MAX_ITEMS]})
        return made

    def thread(self, thread_id: str) -> ThreadSettings:
        return conversation_settings(self._client.get(path_of("conversations", thread_id)))

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
            raise malformed("the service returned another message than the added one")
        return read

    def messages(self, thread_id: str) -> Iterator[AgentMessage]:
        """Yield the messages. The service has no names of agents."""
        for item in self._client.pages(path_of("conversations", thread_id, "items")):
            read = read_item(item, thread_id)
            if read is not None:
                yield read

    def run(self, order: RunOrder, pace: Pace, *, streamed: bool) -> Iterator[RunUpdate]:
        kind = ResponsesStreamedRun if streamed else WholeRun
        return kind(self._client, order, pace).execute()


def _url(output: Mapping[str, Any]) -> str:
    return string_in(output, "url")
