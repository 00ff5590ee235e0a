"""What replies in JSON are made of: their fields, each of the kind that it has to be; and
what else is read alike in formats that have little else in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from genai_host.api.exchange import ProviderReply
from genai_host.api.json_text import read_json
from genai_host.api.messages import ToolCall
from genai_host.errors import GenaiError, MalformedReply

_LONGEST_MESSAGE = 1000


ErrorIn = Callable[[Mapping[str, Any], int | None], GenaiError | None]
"""Gives the error that an object tells of, None if it tells of none. It gets the status of
the reply as well, None if that was a success."""


def read_object(data: bytes) -> dict[str, Any]:
    """The object that a reply is, or an event of it. Raises `MalformedReply`."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise malformed(f"it is a {type(value).__name__}")
    return value


def read_reply(data: bytes, error_in: ErrorIn) -> dict[str, Any]:
    """The same, where an error may come with status 200, or amid a stream: it is raised."""
    value = read_object(data)
    found = error_in(value, None)
    if found is not None:
        raise found
    return value


def explain_reply(reply: ProviderReply, error_in: ErrorIn) -> GenaiError | None:
    """The error that a reply of status 400 or more tells of, if it is an object."""
    try:
        data = read_json(reply.body)
    except ValueError:
        return None
    return error_in(data, reply.status) if isinstance(data, dict) else None


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
