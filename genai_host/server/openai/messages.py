"""What was said, from the messages of a request.

Source: OpenAI API reference, "ChatCompletionRequestMessage"; `reasoning_content` as servers
have it whose models think.
"""

from __future__ import annotations

from collections.abc import Iterator

from genai_host.api import Message, Part, Reasoning, Text, ToolCall, ToolResult
from genai_host.api.given import Given
from genai_host.api.json_text import read_json
from genai_host.errors import InvalidData
from genai_host.server.openai.contents import parts_in, texts_in
from genai_host.server.pairing import together

_ROLES = ("assistant", "developer", "system", "tool", "user")


def messages_in(body: Given) -> list[Message]:
    """Oldest first; results of tools that follow each other are one message. Raises
    `InvalidData`."""
    given = body.objects("messages")
    if not given:
        raise InvalidData("there are no messages", path=body.at("messages"))
    names: dict[str, str] = {}
    return together((_message(each, names) for each in given), "tool")


def _message(given: Given, names: dict[str, str]) -> Message:
    """
    names   of the tools that were called so far, by the ids of the calls
    """
    role = given.choice("role", _ROLES)
    if role == "user":
        return Message("user", parts_in(given) or [Text("")])
    if role in ("system", "developer"):
        return Message("system", texts_in(given) or [Text("")])
    if role == "assistant":
        return Message("assistant", list(_said(given, names)))
    if role == "tool":
        id = given.text("tool_call_id")
        if id not in names:
            raise InvalidData("no tool was called by this id", path=given.at("tool_call_id"))
        return Message("tool", [ToolResult(id, names[id], texts_in(given))])
    raise InvalidData("a message has a role", path=given.at("role"))


def _said(given: Given, names: dict[str, str]) -> Iterator[Part]:
    given.refuse("audio", "function_call")
    thought = given.text("reasoning_content") or given.text("reasoning")
    if thought:
        yield Reasoning(thought)
    yield from texts_in(given)
    if given.text("refusal"):
        yield Text(given.text("refusal"))
    for each in given.objects("tool_calls"):
        call = _call(each)
        names[call.id] = call.name
        yield call


def _call(given: Given) -> ToolCall:
    given.choice("type", ("function",))
    function = given.object("function")
    id, name = given.text("id"), "" if function is None else function.text("name")
    if function is None or not id or not name:
        raise InvalidData("a call has an id, and a function with a name", path=given.path)
    text = function.text("arguments")
    try:
        arguments = read_json(text) if text.strip() else {}
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):  # as a model wrote it: it is to see that again
        return ToolCall(id, name, {}, malformed=text)
    return ToolCall(id, name, arguments)
