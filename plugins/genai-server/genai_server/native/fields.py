"""Fields that several requests share, and JSON forms of answers."""

from __future__ import annotations

import re
from typing import Any

from genai_host.api import (
    Answer,
    Codec,
    File,
    HttpProblem,
    Image,
    Message,
    Reasoning,
    RouteRequest,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
)
from genai_host.api.json_reader import JsonReader
from genai_host.api.messages import Part
from genai_host.conversations.record import Opened
from genai_host.errors import GenaiError, NotFound, ValidationError
from genai_host.host import Host
from genai_host.serializers.conversations import answer_row
from genai_host.util.text import short_repr

_LONGEST_TITLE = 500
# only from models, providers and tools
_NOT_FROM_USERS = (ToolCall, ToolResult, Reasoning, VendorPart)
_WEB = ("https://", "http://")  # a local service could read a file of this machine

_NO_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def opened_with(given: JsonReader) -> dict[str, Any]:
    """Read the fields that a conversation is opened with and that can be changed later, as
    arguments of `Host.open` and `Host.conversation`. Raises `ValidationError`."""
    models = given.mapping("models")
    for role, name in (models or {}).items():
        if not isinstance(name, str | None):
            raise ValidationError(
                "a model name must be a string", path=f"{given.at('models')}.{role}"
            )
    found = {
        "model": given.text("model") or None,
        "provider": given.text("provider") or None,
        "models": models,
        "parameters": given.mapping("parameters"),
        "settings": given.mapping("settings"),
        "tools": list(given.texts("tools")) if "tools" in given else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def changed_with(given: JsonReader, now: Opened) -> dict[str, Any]:
    """Read the fields that change a conversation, as arguments of `Host.conversation`. As in a JSON
    Merge Patch (RFC 7396), null resets a field to its default. Raises `ValidationError`."""
    arguments = opened_with(given)
    removed = {name for name, value in given.value.items() if value is None}
    for name in removed & {"models", "parameters", "settings"}:
        arguments[name] = dict.fromkeys(getattr(now, name))
    if "model" in removed:
        arguments["models"] = {"main": None, **arguments.get("models", {})}
    if "tools" in removed:
        arguments["tools"] = ["*"]
    return arguments


def feature_in(given: JsonReader, host: Host) -> str | None:
    """Read the name of a feature. Raises `NotFound` if the feature is unknown."""
    name = given.text("feature") or None
    if name is not None and name not in host.registry.features:
        raise NotFound(f"unknown feature {name!r}", hint="GET /api/v1/features lists them")
    return name


def conversation_in(request: RouteRequest, host: Host) -> str:
    """Return the id in the path. Raises `NotFound` if the user has no such conversation."""
    return whole_id(request.parameters["id"], request, host)


def whole_id(id: str, request: RouteRequest, host: Host) -> str:
    """Check that an id is complete. Unlike on the command line, a prefix is not accepted, because
    it can become ambiguous."""
    if host.store_for(request.user).find(id) != id:
        raise NotFound(f"unknown conversation {short_repr(id)}")
    return id


def title_in(given: JsonReader) -> str | None:
    """Read a title: None if missing, empty to remove it. Raises `ValidationError`."""
    title = given.text("title")
    if len(title) > _LONGEST_TITLE or _NO_LINE.search(title):
        why = f"the title must be one line of at most {_LONGEST_TITLE} characters"
        raise ValidationError(why, path=given.at("title"))
    return title if "title" in given else None


def message_in(given: JsonReader, codec: Codec) -> Message | None:
    """Read a message: a text, a list of parts, or a message in JSON form; None if missing. Raises
    `ValidationError`."""
    value = given.raw("message")
    if value is None:
        return None
    try:
        if isinstance(value, str):
            message = Message("user", value)
        elif isinstance(value, list):
            message = Message("user", codec.from_json(value, list[Part]))
        else:
            message = codec.from_json(value, Message)
    except ValidationError as error:
        place = error.path.removeprefix("$")
        raise ValidationError(error.message, path=given.at("message") + place) from error
    path = given.at("message")
    if message.role != "user" or all(part == Text("") for part in message.content):
        raise ValidationError(
            "the message must have the role user and must not be empty", path=path
        )
    for part in message.content:
        if isinstance(part, _NOT_FROM_USERS):
            raise ValidationError(
                f"a user message cannot contain a part of type {part.type}", path=path
            )
        if isinstance(part, (Image, File)) and part.url and not part.url.startswith(_WEB):
            raise ValidationError("the URL must begin with https:// or http://", path=path)
    return message


def flag_in(request: RouteRequest, name: str) -> bool:
    """Read a flag of the query: `true` or `1`. Raises `ValidationError` if the value is not a
    boolean."""
    text = request.query.get(name, "").lower()
    if text not in ("", "0", "1", "false", "true"):
        raise ValidationError(f"{name} must be true or false", path=f"?{name}")
    return text in ("1", "true")


def answered(
    answer: Answer, codec: Codec, turn: int, record_error: GenaiError | None = None
) -> dict[str, Any]:
    """Return the JSON form of an answer. Its images are fetched separately."""
    row = answer_row(answer, codec)
    row["images"] = [{"media_type": each.media_type or "image/png"} for each in answer.images]
    if record_error is not None:
        row["record_error"] = failed(record_error)
    return {"turn": turn, **row}


def failed(error: GenaiError) -> dict[str, Any]:
    """Return the JSON form of an error in a stream or a turn."""
    problem = HttpProblem.of(error)
    row = {"code": problem.code, "message": problem.message}
    for name in ("hint", "path"):
        if getattr(problem, name):
            row[name] = getattr(problem, name)
    return row
