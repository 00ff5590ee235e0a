"""OpenAI's chat completions: requests and replies.

Most services and servers use this format.

Source: OpenAI API reference, "Create chat completion", "The chat completion object" and
"... chunk object", OpenAPI document 2.3.0; `reasoning_content` as in DeepSeek, vLLM and llama.cpp,
`reasoning` as in OpenRouter, Groq and Ollama.

The format does not support reasoning and vendor parts, so they are not sent. Some services have a
field for reasoning, which the variant `reasoning` names. Results of tools are texts; their images
are sent in a user message after them. A stream ends with `[DONE]`, or at some services with a
finish reason. Forms that are not in the reference are accepted, too: services differ in finish
reasons, in how they separate tool calls, and in fields that are not part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Delta,
    Dialect,
    DialectEndpoint,
    File,
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
    details_in,
    list_in,
    malformed,
    object_in,
    string_in,
    text_in,
)
from genai_host.api.finish_reasons import finish_word, read_finish, weightier
from genai_host.api.json_text import write_json
from genai_host.api.tool_calls import (
    ToolCallAssembler,
    arguments_as_text,
    distinct_calls,
    read_tool_call,
)
from genai_host.dialects.openai_common import (
    PARAMETERS,
    UnwrappingDecoder,
    add_tools,
    answer_format,
    arguments_text,
    data_url,
    error_in,
    explain_error,
    file_name,
    fit,
    may_be_wrapped,
    read_event_object,
    read_object,
    unwrapped,
    wire_parameters,
)
from genai_host.errors import GenaiError, GenerationError, IncompleteReply, UnsupportedPart

_THOUGHTS = ("thinking", "reasoning")
"""Types of parts with reasoning, and their fields."""


def read_completion(body: bytes) -> Completion:
    """Read a complete reply.

    Raises:
        MalformedReply: It is not valid.
        GenerationError: It contains no answer.
    """
    data = read_object(body)
    choice = _first_choice(data)
    if choice.get("message") is None:
        raise malformed("a choice has no message")
    said = _read_said(object_in(choice, "message"))
    calls = [
        read_tool_call(each.id, each.name, each.arguments) for each in _read_calls(said.message)
    ]
    return _completion(
        text=said.text,
        refused=said.refused,
        reasoning=said.reasoning,
        calls=distinct_calls(calls),
        finish=finish_word(choice.get("finish_reason")),
        usage=read_usage(data.get("usage") or choice.get("usage")),
    )


class ChatDecoder:
    """Assembles a streamed reply.

    Attributes:
        ended: Whether the answer has ended: some services send a finish reason, but no `[DONE]`.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refused = False
        self._calls = ToolCallAssembler()
        self._has_begun = False
        self._finish = ""
        self._usage = Usage()
        self.done = False

    @property
    def ended(self) -> bool:
        return self.done or bool(self._finish)

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.data == b"[DONE]":
            self.done = True
            return ()
        data = read_event_object(event)
        choice = _first_choice(data) if data.get("choices") else {}
        usage = data.get("usage") or choice.get("usage")
        if usage:
            self._usage = read_usage(usage)
        if not choice:
            return ()
        is_whole = choice.get("delta") is None and not self._has_begun  # sent by some proxies
        said = _read_said(object_in(choice, "message" if is_whole else "delta"))
        has_calls = bool(said.message.get("tool_calls"))
        self._has_begun = self._has_begun or bool(said.text or said.reasoning or has_calls)
        if said.text:
            self._text.append(said.text)
        if said.reasoning:
            self._reasoning.append(said.reasoning)
        self._refused = self._refused or said.refused
        for call in _read_calls(said.message):
            self._calls.add(
                index=call.at,
                id=call.id,
                name=call.name,
                arguments=arguments_as_text(call.arguments),
            )
        self._finish = weightier(self._finish, finish_word(choice.get("finish_reason")))
        pieces = [Delta(said.text, said.reasoning)] if said.text or said.reasoning else []
        if self._finish:
            pieces += [Delta(tool_call=call) for call in self._calls.new_calls()]
        return pieces

    def finish(self) -> Completion:
        if not self.ended:
            raise IncompleteReply(
                "the reply was interrupted before its end", text="".join(self._text)
            )
        return _completion(
            text="".join(self._text),
            refused=self._refused,
            reasoning="".join(self._reasoning),
            calls=self._calls.calls(),
            finish=self._finish,
            usage=self._usage,
        )


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
    normal = read_finish(finish, calls=bool(calls), text=text)
    if refused:
        normal = "content_filter"
    return Completion(Message("assistant", content), normal, usage, vendor_finish=finish)


class _Said(NamedTuple):
    """The content of a message or of a chunk."""

    message: Mapping[str, Any]
    text: str
    reasoning: str
    refused: bool


def _read_said(message: Mapping[str, Any]) -> _Said:
    """The content is a string, or a list of parts, among which some services include reasoning."""
    content = message.get("content")
    thoughts: list[Any] = []
    if isinstance(content, list):
        thoughts = [part for part in content if _is_thought(part)]
        content = [part for part in content if not _is_thought(part)]
    refusal = string_in(message, "refusal")
    text = text_in({"content": content}, "content")
    names = ("reasoning_content", "reasoning", "reasoning_details")
    reasoning = next(filter(None, (_thoughts_in(message.get(name)) for name in names)), "")
    return _Said(message, text + refusal, reasoning + _thoughts_in(thoughts), bool(refusal))


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _THOUGHTS


def _thoughts_in(value: Any) -> str:
    """Reasoning as text or as parts; other forms are ignored, so that the answer is not lost."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    found: list[str] = []
    for part in value:
        if isinstance(part, dict):
            names = ("text", "summary", *_THOUGHTS)
            given = next((part[name] for name in names if part.get(name)), "")
            inner = given if isinstance(given, list) else [given]
            part = "".join(filter(None, map(_text_of, inner)))
        found.append(_text_of(part))
    return "".join(found)


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


class _WireCall(NamedTuple):
    """A tool call, or a chunk of one."""

    at: int | None
    id: str
    name: str
    arguments: Any


def _read_calls(message: Mapping[str, Any]) -> Iterator[_WireCall]:
    for call in list_in(message, "tool_calls"):
        if not isinstance(call, dict):
            raise malformed("a tool call is not an object")
        index = call.get("index")
        if index is not None and type(index) is not int:
            raise malformed("the index of a tool call is not a number")
        function = object_in(call, "function")
        yield _WireCall(
            index, string_in(call, "id"), string_in(function, "name"), function.get("arguments")
        )
    function = object_in(message, "function_call")  # legacy form with a single call
    if function:
        yield _WireCall(0, "", string_in(function, "name"), function.get("arguments"))


def read_usage(data: Any) -> Usage:
    """Token usage, if reported."""
    if not isinstance(data, dict):
        return Usage()
    return Usage(
        input=count_in(data, "prompt_tokens"),
        output=count_in(data, "completion_tokens"),
        cached_input=count_in(details_in(data, "prompt_tokens_details"), "cached_tokens"),
        reasoning=count_in(details_in(data, "completion_tokens_details"), "reasoning_tokens"),
    )


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = list_in(data, "choices")
    if not choices:
        raise GenerationError("the model gave no answer", reason="no choices")
    choice = choices[0]
    if not isinstance(choice, dict):
        raise malformed("a choice is not an object")
    error = error_in(choice)
    if error is not None:  # finish reason of the upstream service
        raise error
    return choice


class OpenAIChat(Dialect[ChatCall, Completion]):
    """OpenAI's chat completions.

    `variant` has these options:

    - `max_tokens`: field for the maximum of output tokens; reasoning models require
      `max_completion_tokens`
    - `system_role`: role of system messages; some models require `developer`
    - `stream_usage`: whether to request the usage of a streamed reply
    - `strict`: whether the service enforces schemas and tools, if they are in its subset of JSON
      Schema
    - `object_root`: whether the outermost value of a schema must be an object; other values are
      wrapped in an object
    - `image_detail`: resolution of images, for example `low`; empty for the default
    - `reasoning`: field in which reasoning is sent back, for example `reasoning_content`; empty for
      none
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
    reserved = frozenset(
        {"function_call", "functions", "messages", "model", "n", "stream", "tool_choice", "tools"}
    )
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
            "messages": _with_joined_results(call).written((self.name, form), form.write),
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


def _with_joined_results(call: ChatCall) -> ChatCall:
    """The results of parallel calls must be adjacent."""
    roles = [message.role for message in call.messages]
    if not any(one == other == "tool" for one, other in pairwise(roles)):
        return call
    messages: list[Message] = []
    for role, alike in groupby(call.messages, key=lambda message: message.role):
        if role == "tool":
            parts = [part for message in alike for part in message.content]
            messages.append(Message(role, parts))
        else:
            messages += alike
    return evolve(call, messages=messages)


_TEXT_MESSAGE = b'{"role":"%b","content":%b}'


class OpenAIChatCount(CountDialect):
    """Token counting of llama.cpp's server: https://github.com/ggml-org/llama.cpp,
    `tools/server`."""

    name = "openai-chat-count"
    of = OpenAIChat
    endpoint = DialectEndpoint(path="/chat/completions/input_tokens")
    variant = OpenAIChat.variant
    fields = frozenset({"messages", "model", "response_format", "tool_choice", "tools"})
    tokens = "input_tokens"


class _Form(NamedTuple):
    """How messages are written, where services differ."""

    system_role: str
    image_detail: str
    reasoning: str

    def write(self, message: Message) -> bytes:
        content = message.content
        if len(content) == 1 and type(content[0]) is Text and message.role != "tool":
            role = self.system_role if message.role == "system" else message.role
            return _TEXT_MESSAGE % (role.encode(), write_json(content[0].text))  # in most cases
        return b",".join(write_json(each) for each in self._messages(message))

    def _messages(self, message: Message) -> Iterator[dict[str, Any]]:
        """A tool message becomes one message per result, and one for their images."""
        if message.role == "tool":
            shown: list[Part] = []
            for part in message.content:
                if not isinstance(part, ToolResult):
                    raise _unsupported(part, "in a tool message")
                yield {"role": "tool", "tool_call_id": part.id, "content": _result_text(part)}
                pictures = [each for each in part.content if isinstance(each, Image)]
                if pictures:
                    name = f"the tool {part.name}" if part.name else "a tool"
                    shown += [Text(f"(shown by {name}, call {part.id}:)"), *pictures]
            if shown:
                user = Message("user", shown)
                yield {"role": "user", "content": self._content(shown, user)}
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
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    return f"error: {text}" if result.error else text


def _unsupported(part: Part, where: str) -> UnsupportedPart:
    what = f"a {part.type} with a URL" if getattr(part, "url", "") else f"type {part.type}"
    return UnsupportedPart(
        f"openai-chat does not support a part of {what} {where}",
        part=part.type,
        dialect=OpenAIChat.name,
    )


def _wire_choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
