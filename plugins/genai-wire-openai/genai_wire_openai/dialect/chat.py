"""OpenAI's chat completions: requests and token counting.

Most services and servers use this format. `chat_replies` reads the replies.

Source: OpenAI API reference, "Create chat completion", OpenAPI document 2.3.0.

The format does not support reasoning and vendor parts, so they are not sent. Some services have a
field for reasoning, which the variant `reasoning` names. Results of tools are texts; their images
are sent in a user message after them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
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
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
    merge_consecutive,
    parameter,
    standard_parameters,
    with_extra,
    write_long_json,
)
from genai_host.errors import InvalidParameter, UnsupportedPart
from genai_wire_openai.dialect.chat_content import NAME
from genai_wire_openai.dialect.chat_replies import ChatDecoder, read_completion
from genai_wire_openai.dialect.common import (
    PARAMETERS,
    TOOL_NAMES,
    UnwrappingDecoder,
    WithErrors,
    add_tools,
    answer_format,
    data_url,
    fit_tool,
    inline_file,
    may_be_wrapped,
    unwrapped,
    with_json_instruction,
)
from genai_wire_openai.shared import detail_of, is_refusal, refusals_in, wire_tool_call


class OpenAIChat(WithErrors, Dialect[ChatCall, Completion]):
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
    - `json_object`: whether the service has a format for any JSON object, without a schema
    - `image_detail`: resolution of images, for example `low`; empty for the default
    - `reasoning`: field in which reasoning is sent back, for example `reasoning_content`; empty for
      none
    """

    name = NAME
    endpoint = DialectEndpoint(path="/chat/completions")
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard_parameters(
            "temperature", "top_p", "max_tokens", "stop", "seed", "presence_penalty",
            "frequency_penalty",
        ),
        **PARAMETERS,
        "n": parameter("integer", "number of answers", minimum=1),
        "logprobs": parameter("boolean", "return the log probability of each token"),
        "top_logprobs": parameter(
            "integer", "number of most likely tokens with their log probabilities", minimum=0
        ),
    }  # fmt: skip
    price_parameters = frozenset({"service_tier"})
    tool_names = TOOL_NAMES
    reserved = frozenset(
        {"function_call", "functions", "messages", "model", "n", "stream", "tools"}
    )
    extensible = frozenset({"tool_choice"})
    variant = {
        "max_tokens": "max_tokens",
        "system_role": "system",
        "stream_usage": True,
        "strict": False,
        "object_root": False,
        "json_object": True,
        "image_detail": "",
        "reasoning": "",
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        if _answers(call) > 1 and may_be_wrapped(call, self.variant):
            raise InvalidParameter(
                "n must be 1 for a schema of anything but an object", parameter="n"
            )
        form = _Form(variant["system_role"], variant["image_detail"], variant["reasoning"])
        call = with_json_instruction(call, variant)
        body: dict[str, Any] = {
            "model": call.model_id,
            "messages": _with_joined_results(call).written((self.name, form), form.write),
        }
        for name, value in call.parameters.items():
            body[variant["max_tokens"] if name == "max_tokens" else name] = value
        add_tools(body, call, partial(_wire_tool, strict=variant["strict"]), _wire_choice)
        if call.schema is not None:
            wanted = answer_format(call, variant)
            kind = wanted.pop("type")
            body["response_format"] = {"type": kind, **({kind: wanted} if wanted else {})}
        if call.stream:
            body["stream"] = True
            if variant["stream_usage"]:
                body["stream_options"] = {"include_usage": True}
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        completion = read_completion(reply.body, _answers(call))
        return unwrapped(completion) if may_be_wrapped(call, self.variant) else completion

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        decoder = ChatDecoder(_answers(call), logprobs=bool(call.parameters.get("logprobs")))
        return UnwrappingDecoder(decoder) if may_be_wrapped(call, self.variant) else decoder


def _answers(call: ChatCall) -> int:
    answers = call.parameters.get("n", 1)
    return answers if isinstance(answers, int) else 1


def _with_joined_results(call: ChatCall) -> ChatCall:
    """The results of parallel calls must be adjacent."""
    roles = [message.role for message in call.messages]
    if roles.count("tool") < 2 or ("tool", "tool") not in pairwise(roles):
        return call
    return evolve(call, messages=merge_consecutive(call.messages, "tool"))


_AUDIO = {
    **dict.fromkeys(("audio/mp3", "audio/mpeg"), "mp3"),
    **dict.fromkeys(("audio/wav", "audio/wave", "audio/x-wav"), "wav"),
}
"""Formats of recordings, by media type."""
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
        text = message.plain_text
        if text is not None and message.role != "tool":
            role = self.system_role if message.role == "system" else message.role
            return _TEXT_MESSAGE % (role.encode(), write_long_json(text))
        return b",".join(write_long_json(each) for each in self._messages(message))

    def _messages(self, message: Message) -> Iterator[dict[str, Any]]:
        """A tool message becomes one message per result, and one for their images."""
        if message.role == "tool":
            shown: list[Part] = []
            for part in message.content:
                if not isinstance(part, ToolResult):
                    raise _unsupported(part, "in a tool message")
                wire = {"role": "tool", "tool_call_id": part.id, "content": self._result(part)}
                yield with_extra(wire, part, NAME)
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
            wire = {"role": role, **_name(message), "content": self._content(parts, message)}
            yield with_extra(wire, message, NAME)

    def _assistant_message(self, message: Message) -> dict[str, Any]:
        calls = [wire_tool_call(call) for call in message.tool_calls]
        parts = [
            part
            for part in message.content
            if not isinstance(part, (Reasoning, VendorPart, ToolCall)) and not is_refusal(part)
        ]
        wire: dict[str, Any] = {"role": "assistant", **_name(message)}
        if calls:
            wire["tool_calls"] = calls
        refusal = refusals_in(message.content)
        usual = None if calls or refusal else ""
        wire["content"] = self._content(parts, message) if parts else usual
        if refusal:
            wire["refusal"] = refusal
        thoughts = [part.text for part in message.content if isinstance(part, Reasoning)]
        if self.reasoning and thoughts:
            wire[self.reasoning] = "".join(thoughts)
        return with_extra(wire, message, NAME)

    def _content(self, parts: list[Part], message: Message) -> Any:
        if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].extra is None:
            return parts[0].text
        return [with_extra(self._part(part, message), part, NAME) for part in parts]

    def _result(self, result: ToolResult) -> Any:
        """A text; a list of texts if they have further fields."""
        texts = [part for part in result.content if isinstance(part, Text)]
        failed = "error: " if result.error else ""
        if all(text.extra is None for text in texts):
            return failed + "\n".join(text.text for text in texts)
        parts = [with_extra({"type": "text", "text": each.text}, each, NAME) for each in texts]
        return [{"type": "text", "text": failed}, *parts] if failed else parts

    def _part(self, part: Part, message: Message) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if message.role == "user":
            if isinstance(part, Image):
                image = {"url": part.url or data_url(part, "image/png")}
                if detail := detail_of(part, NAME, self.image_detail):
                    image["detail"] = detail
                return {"type": "image_url", "image_url": image}
            if isinstance(part, File) and not part.url:
                form = _AUDIO.get(part.media_type.partition(";")[0].lower())
                if form:
                    audio = {"data": base64.b64encode(part.data).decode(), "format": form}
                    return {"type": "input_audio", "input_audio": audio}
                return {"type": "file", "file": inline_file(part, NAME)}
        raise _unsupported(part, f"in a message of role {message.role}")


def _name(message: Message) -> dict[str, str]:
    return {"name": message.name} if message.name else {}


def _wire_tool(tool: ToolSchema, strict: bool) -> dict[str, Any]:
    fitted = fit_tool(tool, strict)
    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": fitted.schema,
    }
    if fitted.strict:
        function["strict"] = True
    return with_extra({"type": "function", "function": function}, tool, NAME)


def _unsupported(part: Part, where: str) -> UnsupportedPart:
    what = f"a {part.type} with a URL" if getattr(part, "url", "") else f"type {part.type}"
    return UnsupportedPart(
        f"openai-chat does not support a part of {what} {where}", part=part.type, dialect=NAME
    )


def _wire_choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
