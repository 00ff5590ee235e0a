"""What replies in JSON are made of: their fields, each of the kind that it has to be; and
what else is read alike in formats that have little else in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api.json_text import read_json
from genai_host.api.messages import ToolCall
from genai_host.errors import MalformedReply

_LONGEST_MESSAGE = 1000


def object_in(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field; empty if it is not there or null. Raises `MalformedReply`."""
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"{name} is no object")
    return value


def list_in(data: Mapping[str, Any], name: str) -> list[Any]:
    """The same for a list."""
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"{name} is no list")
    return value


def string_in(data: Mapping[str, Any], name: str) -> str:
    """The same for a string."""
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise malformed(f"{name} is no string")
    return value


def count_in(data: Mapping[str, Any], name: str) -> int:
    """A number of something; 0 for whatever is no number."""
    value = data.get(name)
    return value if type(value) is int else 0


def malformed(why: str) -> MalformedReply:
    return MalformedReply(f"the reply is malformed: {why}")


def read_tool_call(id: str, name: str, arguments: str) -> ToolCall:
    """A tool call whose arguments come as the text of a JSON object."""
    try:
        value = read_json(arguments or "{}")
    except ValueError:
        value = None
    if isinstance(value, dict):
        return ToolCall(id, name, value)
    return ToolCall(id, name, malformed=arguments)


def one_line(text: str) -> str:
    """What a service says of an error, fit to be shown."""
    return " ".join(text[: 2 * _LONGEST_MESSAGE].split())[:_LONGEST_MESSAGE]
