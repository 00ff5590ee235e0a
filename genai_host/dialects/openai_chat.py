"""OpenAI's chat completions, which most services and servers speak.

Source: OpenAI API reference, "Create chat completion", OpenAPI document 2.3.0.

Reasoning, and opaque parts of other dialects, are left out of what is sent: the
format has no place for them. `openai_replies` reads what comes back.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from genai_host.api import (
    ChatCall,
    Completion,
    Dialect,
    Image,
    Message,
    Opaque,
    Part,
    ProviderReply,
    ProviderRequest,
    Reasoning,
    Serve,
    Text,
    ToolCall,
    ToolResult,
    standard,
)
from genai_host.api.json_text import write_json
from genai_host.dialects.openai_replies import ChatDecoder, explain_error, read_completion
from genai_host.errors import GenaiError, UnsupportedPart


class OpenAIChat(Dialect[ChatCall, Completion]):
    """variant:

    max_tokens     name of the field that bounds the answer; reasoning models want
                   `max_completion_tokens`
    system_role    role of system messages; some models want `developer`
    stream_usage   whether to ask for the usage of a streamed reply
    strict         whether schemas and tools are in OpenAI's strict subset
    """

    name = "openai-chat"
    endpoint = Serve(path="/chat/completions")
    capabilities = frozenset({"stream", "tools", "schema", "images", "reasoning"})
    parameters = standard(
        "temperature",
        "top_p",
        "max_tokens",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
    )
    variant = {
        "max_tokens": "max_tokens",
        "system_role": "system",
        "stream_usage": True,
        "strict": False,
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        system = variant["system_role"]
        body: dict[str, Any] = {
            "model": call.model_id,
            "messages": call.written(
                (self.name, system), lambda message: _write_message(message, system)
            ),
        }
        for name, value in call.parameters.items():
            body[variant["max_tokens"] if name == "max_tokens" else name] = value
        if call.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                        **({"strict": True} if variant["strict"] else {}),
                    },
                }
                for tool in call.tools
            ]
        if call.tool_choice is not None:
            body["tool_choice"] = _tool_choice(call.tool_choice)
        if call.schema is not None:
            schema = {"name": "answer", "schema": call.schema, "strict": variant["strict"]}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if call.stream:
            body["stream"] = True
            if variant["stream_usage"]:
                body["stream_options"] = {"include_usage": True}
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return read_completion(reply.body)

    def decoder(self, call: ChatCall) -> ChatDecoder:
        return ChatDecoder()

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _write_message(message: Message, system_role: str) -> bytes:
    written = (write_json(each) for each in _wire_messages(message, system_role))
    return b",".join(written)


def _wire_messages(message: Message, system_role: str) -> Iterator[dict[str, Any]]:
    """A tool message is one on the wire for each result that it holds."""
    if message.role == "tool":
        for part in message.content:
            if not isinstance(part, ToolResult):
                raise _unsupported(part, "in a tool message")
            yield {"role": "tool", "tool_call_id": part.id, "content": _result_text(part)}
        return
    parts = [part for part in message.content if not isinstance(part, (Reasoning, Opaque))]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    content = [part for part in parts if not isinstance(part, ToolCall)]
    wire: dict[str, Any] = {"role": system_role if message.role == "system" else message.role}
    if message.role == "assistant" and calls:
        wire["tool_calls"] = [_wire_tool_call(call) for call in calls]
    elif calls:
        raise _unsupported(calls[0], f"in a message of role {message.role}")
    if message.role == "assistant" and not content:
        wire["content"] = None if calls else ""
    elif len(content) == 1 and isinstance(content[0], Text):
        wire["content"] = content[0].text
    else:
        wire["content"] = [_wire_part(part, message) for part in content]
    yield wire


def _wire_part(part: Part, message: Message) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image) and message.role == "user":
        url = part.url
        if not url:
            data = base64.b64encode(part.data).decode()
            url = f"data:{part.media_type or 'image/png'};base64,{data}"
        return {"type": "image_url", "image_url": {"url": url}}
    raise _unsupported(part, f"in a message of role {message.role}")


def _wire_tool_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.malformed or write_json(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _result_text(result: ToolResult) -> str:
    for part in result.content:
        if not isinstance(part, Text):
            raise _unsupported(part, "in the result of a tool")
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    return f"error: {text}" if result.error else text


def _unsupported(part: Part, where: str) -> UnsupportedPart:
    return UnsupportedPart(
        f"openai-chat has no place for a part of type {part.type} {where}",
        part=part.type,
        dialect=OpenAIChat.name,
    )


def _tool_choice(choice: str) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}
