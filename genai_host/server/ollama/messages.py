"""What was said, from the messages of a request.

Source: Ollama's `docs/api.md`, "Generate a chat completion"; `api/types.go`, which has ids of
calls, as newer clients send them; `ollama` 0.6, which sends none: then results belong to calls
by the names of their tools and by their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from genai_host.api import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult, ToolSchema
from genai_host.api.given import Given, bytes_of
from genai_host.attachments import part_of
from genai_host.errors import InvalidData
from genai_host.server.offered import each_once, offered_tool
from genai_host.server.pairing import Pairing, together

_ROLES = ("system", "user", "assistant", "tool")


def messages_in(body: Given) -> list[Message]:
    """Oldest first; results that follow each other are one message. Raises `InvalidData`."""
    pairing = Pairing()
    said = [_message(given, pairing) for given in body.objects("messages")]
    return together((message for message in said if message.content), "tool")


def images_in(given: Given) -> list[Image]:
    """Pictures in base64. Raises `InvalidData`."""
    found = []
    for number, text in enumerate(given.texts("images")):
        path = f"{given.at('images')}[{number}]"
        part = part_of(bytes_of(text, path))
        if not isinstance(part, Image):
            raise InvalidData("this is no picture of a kind that is known here", path=path)
        found.append(part)
    return found


def tools_in(body: Given) -> list[ToolSchema]:
    """Raises `InvalidData`."""
    return each_once(map(_tool, body.objects("tools")), body.at("tools"))


def _message(given: Given, pairing: Pairing) -> Message:
    role = given.choice("role", _ROLES)
    text = given.text("content")
    images = images_in(given)
    calls = list(_calls(given, pairing))
    thinking = given.text("thinking")
    if calls and role != "assistant":
        raise InvalidData("only the assistant calls tools", path=given.at("tool_calls"))
    if role == "tool":
        name = given.text("tool_name") or given.text("name")
        id, name = pairing.result(given.text("tool_call_id"), name, given.path)
        return Message("tool", [ToolResult(id, name, [Text(text), *images])])
    if role == "assistant":
        thoughts = [Reasoning(thinking)] if thinking else []
        return Message("assistant", [*thoughts, *_texts(text), *images, *calls])
    if role == "system" and images:
        raise InvalidData("the system shows no pictures", path=given.at("images"))
    if role == "user":
        return Message("user", [*_texts(text), *images] or [Text("")])
    if role == "system":
        return Message("system", _texts(text))
    raise InvalidData("a message has a role", path=given.at("role"))


def _texts(text: str) -> list[Part]:
    return [Text(text)] if text else []


def _calls(given: Given, pairing: Pairing) -> Iterator[ToolCall]:
    for call in given.objects("tool_calls"):
        function = call.object("function")
        name = "" if function is None else function.text("name")
        if function is None or not name:
            raise InvalidData("a call has a function with a name", path=call.path)
        arguments = function.mapping("arguments") or {}
        yield ToolCall(pairing.call(call.text("id"), name), name, arguments)


def _tool(given: Given) -> ToolSchema:
    given.choice("type", ("function",))
    function = given.object("function")
    if function is None:
        raise InvalidData("a tool is a function", path=given.path)
    return offered_tool(
        function.text("name"),
        function.text("description"),
        function.mapping("parameters"),
        function.at("parameters"),
    )
