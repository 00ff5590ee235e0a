"""Conversion between the message format of the agent's front end and that of the host:

    {"role": "user", "content": "..."}
    {"role": "assistant", "content": "...", "tool-calls": [{"id", "name", "arguments"}]}
    {"role": "tool", "tool-call-id": "...", "content": "..."}

Additional keys preserve everything else, so that a history sent back unmodified is unchanged:
`parts` has the content in the host's format, for images and vendor-specific parts; `error` is true
for the output of a failed tool.

Source: Metabot V3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api import Codec, Image, Message, Part, Text, ToolCall, ToolResult, read_json
from genai_host.errors import ValidationError

ROLES = ("user", "assistant", "tool")


def to_wire(messages: Sequence[Message], codec: Codec) -> list[dict[str, Any]]:
    """Convert messages; a message with tool results becomes one message per result."""
    return [wire for message in messages for wire in _to_wire(message, codec)]


def from_wire(history: Any, codec: Codec) -> tuple[Message, ...]:
    """Parse the history of a request. Raises `ValidationError`: a message or role is invalid, an
    output has no call, or a call has no output before the next message. The error has the path."""
    if not isinstance(history, (list, tuple)):
        raise ValidationError(f"the history must be a list, not {_kind(history)}", path="$.history")
    messages: list[Message] = []
    results: list[ToolResult] = []  # results of the message being read
    open_calls: dict[str, str] = {}  # unanswered calls of that message: id to name
    for number, wire in enumerate(history):
        path = f"$.history[{number}]"
        role = _role(wire, path)
        if role == "tool":
            results.append(_result(wire, open_calls, path, codec))
            continue
        if open_calls:
            raise ValidationError(
                f"the call {next(iter(open_calls))!r:.40} before this message has no output",
                path=path,
            )
        if results:
            messages.append(Message("tool", results))
            results = []
        messages.append(Message(role, _content(wire, role, path, codec)))
        open_calls = _open_calls(messages[-1], path)
    if results:
        messages.append(Message("tool", results))
    return tuple(messages)


def _to_wire(message: Message, codec: Codec) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        for part in message.content:
            if isinstance(part, ToolResult):
                yield _of_result(part, codec)
        return
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        wire["tool-calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.malformed or dict(call.arguments)}
            for call in message.tool_calls
        ]
    if tuple(_plain_content(wire, "$")) != message.content:
        wire["parts"] = codec.to_json(message)["content"]
    yield wire


def _of_result(result: ToolResult, codec: Codec) -> dict[str, Any]:
    text = "\n".join(part.text for part in result.content if isinstance(part, Text))
    wire: dict[str, Any] = {"role": "tool", "tool-call-id": result.id, "content": text}
    if result.error:
        wire["error"] = True
    if result.content != _texts(text):
        wire["parts"] = codec.to_json(Message("tool", result.content))["content"]
    return wire


def _role(wire: Any, path: str) -> Any:
    if not isinstance(wire, Mapping):
        raise ValidationError(f"a message must be an object, not {_kind(wire)}", path=path)
    role = wire.get("role")
    if role not in ROLES:
        raise ValidationError(
            f"unknown role {role!r:.40}: choose from {', '.join(ROLES)}", path=f"{path}.role"
        )
    return role


def _content(wire: Mapping[str, Any], role: str, path: str, codec: Codec) -> Sequence[Part]:
    parts = _parts(wire, path, codec) if "parts" in wire else tuple(_plain_content(wire, path))
    for part in parts:
        if isinstance(part, ToolResult) or (isinstance(part, ToolCall) and role != "assistant"):
            raise ValidationError(
                f"a message with role {role} cannot contain {part.type}", path=path
            )
    return parts


def _plain_content(wire: Mapping[str, Any], path: str) -> Iterator[Part]:
    calls = wire.get("tool-calls") or ()
    if not isinstance(calls, (list, tuple)):
        raise ValidationError(
            f"tool-calls must be a list, not {_kind(calls)}", path=f"{path}.tool-calls"
        )
    text = _text(wire, path, optional=bool(calls))
    if text or not calls:
        yield Text(text)
    for number, call in enumerate(calls):
        yield _call(call, f"{path}.tool-calls[{number}]")


def _call(wire: Any, path: str) -> ToolCall:
    if not isinstance(wire, Mapping):
        raise ValidationError(f"a call must be an object, not {_kind(wire)}", path=path)
    for name in ("id", "name"):
        if not isinstance(wire.get(name), str) or not wire[name]:
            raise ValidationError(f"{name} must be a non-empty string", path=f"{path}.{name}")
    arguments = wire.get("arguments")
    if isinstance(arguments, str):  # JSON, or malformed text from a model
        arguments = _object_in(arguments)
    if isinstance(arguments, str):
        return ToolCall(wire["id"], wire["name"], {}, arguments)
    if not isinstance(arguments, Mapping):
        raise ValidationError(
            f"arguments must be an object, not {_kind(arguments)}", path=f"{path}.arguments"
        )
    try:
        return ToolCall(wire["id"], wire["name"], dict(arguments))
    except ValidationError as error:
        raise ValidationError(f"{error}", path=f"{path}.arguments") from error


def _object_in(text: str) -> Any:
    """Return the JSON object in a text, or the text itself if it is not one."""
    try:
        found = read_json(text or "{}")
    except ValueError:
        return text
    return found if isinstance(found, dict) else text


def _result(
    wire: Mapping[str, Any], open_calls: dict[str, str], path: str, codec: Codec
) -> ToolResult:
    id = wire.get("tool-call-id")
    if not isinstance(id, str) or id not in open_calls:
        raise ValidationError(
            f"no open call with id {id!r:.40} before this message",
            path=f"{path}.tool-call-id",
        )
    error = wire.get("error", False)
    if not isinstance(error, bool):
        raise ValidationError(
            f"error must be true or false, not {_kind(error)}", path=f"{path}.error"
        )
    content: list[Any]
    if "parts" in wire:
        content = list(_parts(wire, path, codec))
        for part in content:
            if not isinstance(part, (Text, Image)):
                raise ValidationError(
                    f"the output of a tool cannot contain {part.type}", path=f"{path}.parts"
                )
    else:
        content = list(_texts(_text(wire, path, optional=True)))
    return ToolResult(id, open_calls.pop(id), content, error)


def _open_calls(message: Message, path: str) -> dict[str, str]:
    named = {call.id: call.name for call in message.tool_calls}
    if len(named) < len(message.tool_calls) or "" in named:
        raise ValidationError("each call must have a unique id", path=f"{path}.tool-calls")
    return named


def _text(wire: Mapping[str, Any], path: str, *, optional: bool) -> str:
    text = wire.get("content")
    if text is None and optional:
        return ""
    if not isinstance(text, str):
        raise ValidationError(
            f"content must be a string, not {_kind(text)}", path=f"{path}.content"
        )
    return text


def _texts(text: str) -> tuple[Text, ...]:
    return (Text(text),) if text else ()


def _parts(wire: Mapping[str, Any], path: str, codec: Codec) -> tuple[Part, ...]:
    try:
        message: Message = codec.from_json({"role": "user", "content": wire["parts"]}, Message)
    except ValidationError as error:
        raise ValidationError(f"invalid parts: {error}", path=f"{path}.parts") from error
    return message.content


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", type(None): "nothing"}.get(
        type(value), type(value).__name__
    )
