"""OpenAI's chat completions: requests written, replies read.

Most services and servers use this format.

Source: OpenAI API reference, "Create chat completion", "The chat completion object" and
"... chunk object", OpenAPI document 2.3.0; `reasoning_content` as in DeepSeek, vLLM and llama.cpp,
`reasoning` as in OpenRouter, Groq and Ollama.

The format has no place for reasoning and vendor parts, so they are not sent. Some services have a
field for reasoning: the variant `reasoning` names it. A stream ends with `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Delta,
    Dialect,
    DialectEndpoint,
    File,
    FinishReason,
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
    standard_parameters,
)
from genai_host.api.dialects import (
    count_in,
    list_in,
    malformed,
    object_in,
    read_tool_call,
    string_in,
)
from genai_host.api.json_text import write_json
from genai_host.dialects.openai_common import (
    PARAMETERS,
    UnwrappingDecoder,
    add_tools,
    answer_format,
    arguments_text,
    data_url,
    explain_error,
    file_name,
    fit,
    may_be_wrapped,
    read_object,
    unwrapped,
    wire_parameters,
)
from genai_host.errors import GenaiError, GenerationError, IncompleteReply, UnsupportedPart

_FINISHES: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def read_completion(body: bytes) -> Completion:
    """A whole reply. Raises `MalformedReply`, and `GenerationError` if it holds no
    answer."""
    data = read_object(body)
    choice = _first_choice(data)
    message = object_in(choice, "message")
    refusal = string_in(message, "refusal")
    calls = [_read_tool_call(each, at) for at, each in enumerate(list_in(message, "tool_calls"))]
    return _completion(
        text=string_in(message, "content") + refusal,
        refused=bool(refusal),
        reasoning=_reasoning(message),
        calls=calls,
        finish=string_in(choice, "finish_reason"),
        usage=read_usage(data.get("usage")),
    )


class ChatDecoder:
    """Puts the pieces of a streamed reply together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refused = False
        self._calls: dict[int, dict[str, str]] = {}
        self._finish = ""
        self._usage = Usage()
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.data == b"[DONE]":
            self.done = True
            return ()
        data = read_object(event.data)
        if data.get("usage"):
            self._usage = read_usage(data["usage"])
        if not data.get("choices"):
            return ()
        choice = _first_choice(data)
        delta = object_in(choice, "delta")
        refusal = string_in(delta, "refusal")
        text = string_in(delta, "content") + refusal
        reasoning = _reasoning(delta)
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if refusal:
            self._refused = True
        for call in list_in(delta, "tool_calls"):
            self._add_tool_call(call)
        finish = string_in(choice, "finish_reason")
        pieces = [Delta(text, reasoning)] if text or reasoning else []
        if finish:
            self._finish = finish
            pieces += [Delta(tool_call=call) for call in self._tool_calls()]
        return pieces

    def finish(self) -> Completion:
        if not self.done:
            raise IncompleteReply("the reply was cut before its end", text="".join(self._text))
        return _completion(
            text="".join(self._text),
            refused=self._refused,
            reasoning="".join(self._reasoning),
            calls=self._tool_calls(),
            finish=self._finish,
            usage=self._usage,
        )

    def _add_tool_call(self, piece: Any) -> None:
        """Its id and name come with its first piece, its arguments bit by bit."""
        if not isinstance(piece, dict):
            raise malformed("a tool call is not an object")
        index = piece.get("index")
        if index is None:  # then a new one comes with an id, and what has none goes on
            index = len(self._calls) - (bool(self._calls) and not piece.get("id"))
        if type(index) is not int:
            raise malformed("the index of a tool call is not a number")
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = object_in(piece, "function")
        call["id"] = call["id"] or string_in(piece, "id")
        call["name"] += string_in(function, "name")
        call["arguments"] += string_in(function, "arguments")

    def _tool_calls(self) -> list[ToolCall]:
        return [
            read_tool_call(call["id"] or f"call_{at}", call["name"], call["arguments"])
            for at, call in sorted(self._calls.items())
        ]


def _completion(
    *,
    text: str,
    refused: bool,
    reasoning: str,
    calls: Sequence[ToolCall],
    finish: str,
    usage: Usage,
) -> Completion:
    content: list[Part] = []
    if reasoning:
        content.append(Reasoning(reasoning))
    if text:
        content.append(Text(text))
    content.extend(calls)
    normal: FinishReason = _FINISHES.get(finish, "other")
    if calls and normal == "stop":  # as some servers say it
        normal = "tool_calls"
    if refused:
        normal = "content_filter"
    return Completion(Message("assistant", content), normal, usage, vendor_finish=finish)


def _reasoning(message: Mapping[str, Any]) -> str:
    return string_in(message, "reasoning_content") or string_in(message, "reasoning")


def _read_tool_call(data: Any, at: int) -> ToolCall:
    if not isinstance(data, dict):
        raise malformed("a tool call is not an object")
    function = object_in(data, "function")
    id = string_in(data, "id") or f"call_{at}"
    return read_tool_call(id, string_in(function, "name"), string_in(function, "arguments"))


def read_usage(data: Any) -> Usage:
    """The tokens used, as far as a reply tells."""
    if not isinstance(data, dict):
        return Usage()
    prompt = object_in(data, "prompt_tokens_details")
    completion = object_in(data, "completion_tokens_details")
    return Usage(
        input=count_in(data, "prompt_tokens"),
        output=count_in(data, "completion_tokens"),
        cached_input=count_in(prompt, "cached_tokens"),
        reasoning=count_in(completion, "reasoning_tokens"),
    )


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = list_in(data, "choices")
    if not choices:
        raise GenerationError("the model gave no answer", reason="no choices")
    if not isinstance(choices[0], dict):
        raise malformed("a choice is not an object")
    return choices[0]


class OpenAIChat(Dialect[ChatCall, Completion]):
    """variant:

    max_tokens     name of the field that bounds the answer; reasoning models want
                   `max_completion_tokens`
    system_role    role of system messages; some models want `developer`
    stream_usage   whether to ask for the usage of a streamed reply
    strict         whether the model is to be held to schemas and tools without exception,
                   where they are in the subset of JSON Schema for which that can be asked
    object_root    whether the outermost value of a schema has to be an object; another
                   one is asked for inside of an object, and taken out of it again
    image_detail   how closely pictures are looked at, as `low`; empty for the usual way
    reasoning      name of the field in which reasoning is sent back, with services that
                   want it, as `reasoning_content`; empty for those that do not
    """

    name = "openai-chat"
    endpoint = DialectEndpoint(path="/chat/completions")
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard_parameters(
            "temperature",
            "top_p",
            "max_tokens",
            "stop",
            "seed",
            "presence_penalty",
            "frequency_penalty",
        ),
        **PARAMETERS,
    }
    variant = {
        "max_tokens": "max_tokens",
        "system_role": "system",
        "stream_usage": True,
        "strict": False,
        "object_root": False,
        "image_detail": "",
        "reasoning": "",
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        form = _Form(variant["system_role"], variant["image_detail"], variant["reasoning"])
        body: dict[str, Any] = {
            "model": call.model_id,
            "messages": call.written((self.name, form), form.write),
        }
        for name, value in call.parameters.items():
            body[variant["max_tokens"] if name == "max_tokens" else name] = value
        add_tools(body, call, partial(_wire_tool, strict=variant["strict"]), _wire_choice)
        if call.schema is not None:
            schema = answer_format(call.schema, variant)
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if call.stream:
            body["stream"] = True
            if variant["stream_usage"]:
                body["stream_options"] = {"include_usage": True}
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        completion = read_completion(reply.body)
        return unwrapped(completion) if may_be_wrapped(call, self.variant) else completion

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        decoder = ChatDecoder()
        return UnwrappingDecoder(decoder) if may_be_wrapped(call, self.variant) else decoder

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


_TEXT_MESSAGE = b'{"role":"%b","content":%b}'


class OpenAIChatCount(CountDialect):
    """As llama.cpp's server counts: https://github.com/ggml-org/llama.cpp, `tools/server`."""

    name = "openai-chat-count"
    of = OpenAIChat
    endpoint = DialectEndpoint(path="/chat/completions/input_tokens")
    variant = OpenAIChat.variant
    fields = frozenset({"messages", "model", "response_format", "tool_choice", "tools"})
    tokens = "input_tokens"


class _Form(NamedTuple):
    """How messages are written, as far as that is not the same everywhere."""

    system_role: str
    image_detail: str
    reasoning: str

    def write(self, message: Message) -> bytes:
        content = message.content
        if len(content) == 1 and type(content[0]) is Text and message.role != "tool":
            role = self.system_role if message.role == "system" else message.role
            return _TEXT_MESSAGE % (role.encode(), write_json(content[0].text))  # as most are
        return b",".join(write_json(each) for each in self._messages(message))

    def _messages(self, message: Message) -> Iterator[dict[str, Any]]:
        """A tool message is one on the wire for each result that it holds."""
        if message.role == "tool":
            for part in message.content:
                if not isinstance(part, ToolResult):
                    raise _unsupported(part, "in a tool message")
                yield {"role": "tool", "tool_call_id": part.id, "content": _result_text(part)}
        elif message.role == "assistant":
            yield self._assistant_message(message)
        else:
            role = self.system_role if message.role == "system" else message.role
            parts = [
                part for part in message.content if not isinstance(part, (Reasoning, VendorPart))
            ]
            yield {"role": role, "content": self._content(parts, message)}

    def _assistant_message(self, message: Message) -> dict[str, Any]:
        calls = [_wire_tool_call(call) for call in message.tool_calls]
        spoken = [
            part
            for part in message.content
            if not isinstance(part, (Reasoning, VendorPart, ToolCall))
        ]
        wire: dict[str, Any] = {"role": "assistant"}
        if calls:
            wire["tool_calls"] = calls
        wire["content"] = self._content(spoken, message) if spoken else None if calls else ""
        thoughts = [part.text for part in message.content if isinstance(part, Reasoning)]
        if self.reasoning and thoughts:
            wire[self.reasoning] = "".join(thoughts)
        return wire

    def _content(self, parts: list[Part], message: Message) -> Any:
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text
        return [self._part(part, message) for part in parts]

    def _part(self, part: Part, message: Message) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if message.role == "user":
            if isinstance(part, Image):
                image = {"url": part.url or data_url(part, "image/png")}
                if self.image_detail:
                    image["detail"] = self.image_detail
                return {"type": "image_url", "image_url": image}
            if isinstance(part, File) and not part.url:
                data = data_url(part, "application/pdf")
                return {"type": "file", "file": {"filename": file_name(part), "file_data": data}}
        raise _unsupported(part, f"in a message of role {message.role}")


def _wire_tool(tool: ToolSchema, strict: bool) -> dict[str, Any]:
    fitted = fit(wire_parameters(tool.parameters), strict)
    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": fitted.schema,
    }
    if fitted.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _wire_tool_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments_text(call)},
    }


def _result_text(result: ToolResult) -> str:
    for part in result.content:
        if not isinstance(part, Text):
            raise _unsupported(part, "in the result of a tool")
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    return f"error: {text}" if result.error else text


def _unsupported(part: Part, where: str) -> UnsupportedPart:
    what = f"a {part.type} by its address" if getattr(part, "url", "") else f"type {part.type}"
    return UnsupportedPart(
        f"openai-chat has no place for a part of {what} {where}",
        part=part.type,
        dialect=OpenAIChat.name,
    )


def _wire_choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
