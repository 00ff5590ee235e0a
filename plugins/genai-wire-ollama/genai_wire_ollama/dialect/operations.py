"""The dialects for Ollama's chat, `/api/chat`, for texts with a suffix, `/api/generate`, and for
embeddings, `/api/embed`.

Source: Ollama's `docs/api.md`, `docs/openapi.yaml` and `api/types.go`, of August 2026.

Opaque parts of other dialects are not sent. The texts of a message are joined, by line ends except
those of the model, and its images are a separate list, because the format has one text and one list
of images per message.

A stream of a reply consists of the same objects, each with a chunk of the answer, up to one with
`"done": true`. A complete reply is read as a stream of one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import evolve

from genai_host.api import (
    ChatCall,
    CompleteCall,
    Completion,
    Delta,
    Dialect,
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    Image,
    Message,
    Part,
    ProviderReply,
    ProviderRequest,
    Reasoning,
    StreamDecoder,
    StreamEvent,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
    VendorPart,
    count_in,
    decode_base64,
    extra_of,
    finish_word,
    id_in,
    interrupted,
    list_in,
    malformed,
    merged_extra,
    must_be_vectors,
    object_in,
    objects_in,
    parameter,
    picture_in_words,
    read_finish,
    read_tool_call,
    read_vector,
    string_in,
    text_in,
    unknown_fields,
    unsupported,
    weightier,
    with_extra,
    with_tool_names,
    write_long_json,
)
from genai_host.errors import InvalidParameter, UnsupportedPart
from genai_wire_ollama.dialect.form import (
    BESIDE,
    OPTIONS,
    PARAMETERS,
    VARIANT,
    WithErrors,
    add_parameters,
    read_event_object,
    read_object,
    wire_image,
)


class OllamaDecoder:
    """Assembles a streamed reply. Ids of tool calls in the messages of the call are taken."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._ids = {each.id for message in messages for each in message.tool_calls}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._images: list[Image] = []
        self._calls: dict[str, ToolCall] = {}
        self.has_begun = False
        self._finish = ""
        self._usage = Usage()
        self._unknown: dict[str, Any] = {}  # fields, by the name of the object
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.is_done:  # sent by some compatible servers
            self.done = True
            return ()
        data = read_event_object(event)
        message = self.message_in(data)
        text, reasoning = text_in(message, "content"), _thinking_in(message)
        calls = list(self._new_calls(message))
        self._images += [_read_image(each) for each in list_in(message, "images")]
        self.has_begun = True
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if data.get("done", True) is True:
            self._finish = weightier(self._finish, finish_word(data.get("done_reason")))
        if data.get("done") is True:
            self._usage = Usage(count_in(data, "prompt_eval_count"), count_in(data, "eval_count"))
            self.done = True
        unknown = {
            name: fields
            for name, each in (("reply", data), ("message", message))
            if (fields := unknown_fields(each, _KNOWN[name]))
        }
        extra = extra_of(NAME, unknown)
        self._unknown = merged_extra(unknown, self._unknown)
        pieces = [Delta(text, reasoning, extra=extra)] if text or reasoning or extra else []
        return [*pieces, *(Delta(tool_call=call) for call in calls)]

    def finish(self) -> Completion:
        text = "".join(self._text)
        if not self.done and not self._finish:
            raise interrupted(text)
        content: list[Part] = []
        if self._reasoning:
            content.append(Reasoning("".join(self._reasoning)))
        if text:
            content.append(Text(text))
        content += [*self._images, *self._calls.values()]
        finish = read_finish(self._finish, calls=bool(self._calls), text=text)
        message = Message("assistant", content)
        extra = extra_of(NAME, self._unknown) or {}
        return Completion(message, finish, self._usage, vendor_finish=self._finish, extra=extra)

    def message_in(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The message of an object of the reply. Raises `MalformedReply`."""
        if data.get("done") is True and self.has_begun:  # the stream can be complete here
            data = {"message": {}, **data}
        if "message" not in data:
            raise malformed("it has no message")
        return object_in(data, "message")

    def _new_calls(self, message: Mapping[str, Any]) -> Iterator[ToolCall]:
        for data in objects_in(message, "tool_calls"):
            function = data if "name" in data else object_in(data, "function")
            name, arguments = string_in(function, "name"), function.get("arguments")
            unknown = unknown_fields(data, _IN_CALL)
            if inner := unknown_fields(function, _IN_CALL) if function is not data else None:
                unknown["function"] = inner
            call = read_tool_call(id_in(data, "id"), name, arguments, extra_of(NAME, unknown))
            before = self._calls.get(call.id)
            if before == call:  # a repeated call
                continue
            if not call.id or before is not None:
                call = evolve(call, id=self._free_id())
            self._ids.add(call.id)
            self._calls[call.id] = call
            yield call

    def _free_id(self) -> str:
        """Return a conversation-wide unique id for a call from an older server without ids."""
        return next(id for at in count(len(self._ids)) if (id := f"call_{at}") not in self._ids)


def _read_whole(decoder: OllamaDecoder, reply: ProviderReply) -> Completion:
    decoder.feed(StreamEvent(reply.body))
    return decoder.finish()


_KNOWN: Mapping[str, frozenset[str]] = {
    "reply": frozenset(
        {
            "context", "created_at", "done", "done_reason", "error", "eval_count",
            "eval_duration", "load_duration", "message", "model", "prompt_eval_count",
            "prompt_eval_duration", "remote_host", "remote_model", "response", "thinking",
            "total_duration",
        }
    ),
    "message": frozenset({"content", "images", "role", "thinking", "tool_calls", "tool_name"}),
}  # fmt: skip
"""Fields of objects in replies. Others are passed on to clients, in `extra`."""
_IN_CALL = frozenset({"arguments", "function", "id", "index", "name", "type"})


def _thinking_in(message: Mapping[str, Any]) -> str:
    """The reasoning; ignored in other forms, since it is not part of the answer."""
    value = message.get("thinking")
    return value if isinstance(value, str) else ""


def _read_image(data: Any) -> Image:
    try:
        content = decode_base64(data)
    except (AttributeError, ValueError) as error:
        raise malformed("an image is not base64") from error
    if not content:
        raise malformed("an image is empty")
    return Image(content)


NAME = "ollama-chat"


class OllamaChat(WithErrors, Dialect[ChatCall, Completion]):
    """Dialect for `/api/chat`. For the variant, see `form.VARIANT`."""

    name = NAME
    endpoint = DialectEndpoint(path="/api/chat")
    images_in_answers = True
    capabilities = frozenset({"stream", "tools", "schema", "images", "reasoning"})
    parameters = PARAMETERS
    variant = VARIANT

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        body: dict[str, Any] = {
            "model": call.model_id,
            "messages": with_tool_names(call).written(self.name, _write),
        }
        tools = _offered(call)
        if tools:
            body["tools"] = [_wire_tool(tool) for tool in tools]
        if call.schema is not None:
            body["format"] = call.schema
        add_parameters(body, call, {**self.variant, **call.variant})
        body["stream"] = call.stream
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return _read_whole(OllamaDecoder(call.messages), reply)

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        return OllamaDecoder(call.messages)


_TEXT_MESSAGE = b'{"role":"%b","content":%b}'


def _write(message: Message) -> bytes:
    text = message.plain_text
    if text is not None and message.role != "tool":
        return _TEXT_MESSAGE % (message.role.encode(), write_long_json(text))
    return b",".join(write_long_json(each) for each in _messages(message))


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    """The messages on the wire; a tool message becomes one per result."""
    if message.role != "tool":
        yield _wire_message(message)
        return
    for part in message.content:
        if not isinstance(part, ToolResult):
            raise unsupported(part, "in a tool message", NAME)
        yield _wire_result(part)


def _wire_result(result: ToolResult) -> dict[str, Any]:
    """Newer servers match a result by call id, older ones by the tool's name. Servers do not fetch
    images."""
    content = [
        picture_in_words(part) if isinstance(part, Image) and not part.data else part
        for part in result.content
    ]
    text = "\n".join(part.text for part in content if isinstance(part, Text))
    wire: dict[str, Any] = {
        "role": "tool",
        "content": f"error: {text}" if result.error else text,
        "tool_name": result.name,
        "tool_call_id": result.id,
    }
    images = [part for part in content if isinstance(part, Image)]
    if images:
        wire["images"] = [wire_image(image, NAME) for image in images]
    return with_extra(wire, result, NAME)


def _wire_message(message: Message) -> dict[str, Any]:
    texts, thoughts, images, calls = [], [], [], []
    for part in message.content:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, Image) and message.role != "system":
            images.append(wire_image(part, NAME))
        elif isinstance(part, ToolCall) and message.role == "assistant":
            calls.append(wire_tool_call(part))
        elif isinstance(part, Reasoning):
            thoughts.append(part.text)
        elif not isinstance(part, VendorPart):
            raise unsupported(part, f"in a message of role {message.role}", NAME)
    between = "" if message.role == "assistant" else "\n"  # a model writes one text
    wire: dict[str, Any] = {"role": message.role, "content": between.join(texts)}
    if thoughts and message.role == "assistant":
        wire["thinking"] = "".join(thoughts)
    if images:
        wire["images"] = images
    if calls:
        wire["tool_calls"] = calls
    return with_extra(wire, message, NAME)


def wire_tool_call(call: ToolCall) -> dict[str, Any]:
    """Return a tool call. Arguments must be an object, so malformed ones are put into one."""
    arguments = {"malformed": call.malformed} if call.malformed else call.arguments
    function = {"name": call.name, "arguments": arguments}
    return with_extra({"id": call.id, "function": function}, call, NAME)


def _offered(call: ChatCall) -> tuple[ToolSchema, ...]:
    """Return the tools. Raises `InvalidParameter` for a required tool, which has no form."""
    if call.tools and call.tool_choice not in (None, "auto", "none"):
        raise InvalidParameter(
            f"{NAME} cannot force a tool call: tool_choice {call.tool_choice!r}",
            parameter="tool_choice",
            valid=("auto", "none"),
            hint="use auto",
        )
    return () if call.tool_choice == "none" else tuple(call.tools)


def _wire_tool(tool: ToolSchema) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", "properties": {}, **tool.parameters},
    }
    return with_extra({"type": "function", "function": function}, tool, NAME)


class OllamaGenerate(WithErrors, Dialect[CompleteCall, Completion]):
    """Dialect for `/api/generate`. For the variant, see `form.VARIANT`.

    Ollama puts the text into the template of the model. Models without the capability `insert`
    refuse a suffix.
    """

    name = "ollama-generate"
    operation = "complete"
    endpoint = DialectEndpoint(path="/api/generate")
    capabilities = frozenset({"stream"})
    parameters = {**OPTIONS, **BESIDE}
    variant = VARIANT

    @property
    def models_of(self) -> str:
        return OllamaChat.name

    def prepare_request(self, call: CompleteCall) -> ProviderRequest:
        if len(call.prompts) != 1 or not isinstance(call.prompts[0], str):
            raise UnsupportedPart(
                f"{self.name} supports only one text", part="prompts", dialect=self.name
            )
        body: dict[str, Any] = {"model": call.model_id, "prompt": call.prompts[0]}
        if call.suffix:
            body["suffix"] = call.suffix
        add_parameters(body, call, {**self.variant, **call.variant})
        body["stream"] = call.stream
        return ProviderRequest("complete", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: CompleteCall, reply: ProviderReply) -> Completion:
        return _read_whole(_Decoder(), reply)

    def decoder(self, call: CompleteCall) -> _Decoder:
        return _Decoder()


class _Decoder(OllamaDecoder):
    """Assembles a streamed reply, whose objects have the text instead of a message."""

    def message_in(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if "response" not in data and not (data.get("done") is True and self.has_begun):
            raise malformed("it has no response")
        return {"content": data.get("response"), "thinking": data.get("thinking")}


_LOADING = ("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap")


class OllamaEmbed(WithErrors, Dialect[EmbedCall, Embeddings]):
    """Dialect for `/api/embed`. The variant is that of `form.VARIANT`, and:
    - `query`: prefix of a search query, for models that require one
    - `document`: prefix of a document
    """

    name = "ollama-embed"
    operation = "embed"
    endpoint = DialectEndpoint(path="/api/embed")
    parameters = {
        "dimensions": parameter(
            "integer", "size of the vectors, if the model supports it", minimum=1
        ),
        **{name: OPTIONS[name] for name in _LOADING},
        **BESIDE,
    }
    variant = {**VARIANT, "query": "", "document": ""}

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        before = variant[call.purpose] if call.purpose else ""
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": [f"{before}{text}" for text in call.texts],
        }
        add_parameters(body, call, variant)
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        data = read_object(reply.body, "embeddings")
        vectors = [read_vector(each) for each in list_in(data, "embeddings")]
        must_be_vectors(vectors, len(call.texts))
        usage = Usage(input_tokens=count_in(data, "prompt_eval_count"))
        return Embeddings(vectors, string_in(data, "model"), usage)
