"""Content of messages of OpenAI's chat completions, and of chunks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.api import (
    ToolCall,
    extra_of,
    id_in,
    index_in,
    list_in,
    object_in,
    objects_in,
    read_tool_call,
    string_in,
    text_in,
    unknown_fields,
)
from genai_wire_openai.shared import INPUT

NAME = "openai-chat"

_THOUGHTS = ("thinking", "reasoning")
"""Types of parts with reasoning, and their fields."""
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_IN_CALL = frozenset({"custom", "function", "id", "index", "type"})
_IN_FUNCTION = frozenset({"arguments", "name"})
_IN_CUSTOM = frozenset({INPUT, "name"})
"""Fields of objects in replies. Others are passed on to clients, in `extra`."""


class WireCall(NamedTuple):
    """A tool call, or a chunk of one. The arguments of a call of a custom tool are its input."""

    at: int | None
    id: str
    name: str
    arguments: Any
    extra: Mapping[str, Any] | None = None
    is_custom: bool = False

    def whole(self) -> ToolCall:
        """Return the call, if it is complete."""
        arguments = {INPUT: self.arguments} if self.is_custom else self.arguments
        return read_tool_call(self.id, self.name, arguments, self.extra)


class Content(NamedTuple):
    """The content of a message or of a chunk."""

    text: str
    reasoning: str = ""
    refusal: str = ""
    calls: Sequence[WireCall] = ()


_OTHERS = (*_REASONING, "refusal", "tool_calls", "function_call")
"""Fields of a message or of a chunk with more than text."""


def read_content(message: Mapping[str, Any]) -> Content:
    """The content is a string, or a list of parts, among which some services include reasoning."""
    content = message.get("content")
    if isinstance(content, str) and not any(map(message.get, _OTHERS)):
        return Content(content)
    reasoning = ""
    for name in _REASONING:
        if not reasoning and message.get(name):
            reasoning = _thoughts_in(message[name])
    refusal = _text_of(message.get("refusal"))
    if isinstance(content, list):
        parts = list_in(message, "content")
        reasoning += _thoughts_in([part for part in parts if _is_thought(part)])
        refusal += "".join(_text_of(part.get("refusal")) for part in parts if _is_refusal(part))
        message = {**message, "content": [part for part in parts if not _is_thought(part)]}
    text = text_in(message, "content")
    return Content(text, reasoning, refusal, list(_read_calls(message)))


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _THOUGHTS


def _is_refusal(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "refusal"


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


def _read_calls(message: Mapping[str, Any]) -> Iterator[WireCall]:
    for call in objects_in(message, "tool_calls"):
        is_custom = bool(object_in(call, "custom"))
        is_custom = is_custom or (call.get("type") == "custom" and not call.get("function"))
        known = _IN_CUSTOM if is_custom else _IN_FUNCTION
        inner = object_in(call, "custom" if is_custom else "function")
        fields = {**call, **inner}  # some services send all fields in the call
        unknown = unknown_fields(call, _IN_CALL | known)
        if further := unknown_fields(inner, known):
            unknown["function"] = further
        yield WireCall(
            index_in(call, "index"),
            id_in(call, "id"),
            string_in(fields, "name"),
            string_in(fields, INPUT) if is_custom else fields.get("arguments"),
            extra_of(NAME, unknown),
            is_custom,
        )
    function = object_in(message, "function_call")  # legacy form with a single call
    if function:
        yield WireCall(0, "", string_in(function, "name"), function.get("arguments"))
