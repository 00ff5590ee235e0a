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

_MAX_TITLE_LENGTH = 500
# only from models, providers and tools
_NOT_FROM_USERS = (ToolCall, ToolResult, Reasoning, VendorPart)
_URL_PREFIXES = ("https://", "http://")  # a local service could read a file of this machine

_NOT_ONE_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def read_open_arguments(body: JsonReader) -> dict[str, Any]:
    """Read the fields that a conversation is opened with and that can be changed later, as
    arguments of `Host.open` and `Host.conversation`. Raises `ValidationError`."""
    models = body.mapping("models")
    for role, name in (models or {}).items():
        if not isinstance(name, str | None):
            raise ValidationError(
                "a model name must be a string", path=f"{body.at('models')}.{role}"
            )
    found = {
        "model": body.text("model") or None,
        "provider": body.text("provider") or None,
        "models": models,
        "parameters": body.mapping("parameters"),
        "settings": body.mapping("settings"),
        "tools": list(body.texts("tools")) if "tools" in body else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def read_changes(body: JsonReader, now: Opened) -> dict[str, Any]:
    """Read the fields that change a conversation, as arguments of `Host.conversation`. As in a JSON
    Merge Patch (RFC 7396), null resets a field to its default. Raises `ValidationError`."""
    arguments = read_open_arguments(body)
    removed = {name for name, value in body.value.items() if value is None}
    for name in removed & {"models", "parameters", "settings"}:
        arguments[name] = dict.fromkeys(getattr(now, name))
    if "model" in removed:
        arguments["models"] = {"main": None, **arguments.get("models", {})}
    if "tools" in removed:
        arguments["tools"] = ["*"]
    return arguments


def read_feature(body: JsonReader, host: Host) -> str | None:
    """Read the name of a feature. Raises `NotFound` if the feature is unknown."""
    name = body.text("feature") or None
    if name is not None and name not in host.registry.features:
        raise NotFound(f"unknown feature {name!r}", hint="GET /api/v1/features lists them")
    return name


def conversation_id(request: RouteRequest, host: Host) -> str:
    """Return the id in the path. Raises `NotFound` if the user has no such conversation."""
    return complete_id(request.parameters["id"], request, host)


def complete_id(id: str, request: RouteRequest, host: Host) -> str:
    """Check that an id is complete. Unlike on the command line, a prefix is not accepted, because
    it can become ambiguous."""
    if host.store_for(request.user).find(id) != id:
        raise NotFound(f"unknown conversation {short_repr(id)}")
    return id


def read_title(body: JsonReader) -> str | None:
    """Read a title: None if missing, empty to remove it. Raises `ValidationError`."""
    title = body.text("title")
    if len(title) > _MAX_TITLE_LENGTH or _NOT_ONE_LINE.search(title):
        why = f"the title must be one line of at most {_MAX_TITLE_LENGTH} characters"
        raise ValidationError(why, path=body.at("title"))
    return title if "title" in body else None


def read_message(body: JsonReader, codec: Codec) -> Message | None:
    """Read a message: a text, a list of parts, or a message in JSON form; None if missing. Raises
    `ValidationError`."""
    value = body.raw("message")
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
        raise ValidationError(error.message, path=body.at("message") + place) from error
    path = body.at("message")
    if message.role != "user" or all(part == Text("") for part in message.content):
        raise ValidationError(
            "the message must have the role user and must not be empty", path=path
        )
    for part in message.content:
        if isinstance(part, _NOT_FROM_USERS):
            raise ValidationError(
                f"a user message cannot contain a part of type {part.type}", path=path
            )
        if isinstance(part, (Image, File)) and part.url and not part.url.startswith(_URL_PREFIXES):
            raise ValidationError("the URL must begin with https:// or http://", path=path)
    return message


def read_flag(request: RouteRequest, name: str) -> bool:
    """Read a flag of the query: `true` or `1`. Raises `ValidationError` if the value is not a
    boolean."""
    text = request.query.get(name, "").lower()
    if text not in ("", "0", "1", "false", "true"):
        raise ValidationError(f"{name} must be true or false", path=f"?{name}")
    return text in ("1", "true")


def answer_json(
    answer: Answer, codec: Codec, turn: int, record_error: GenaiError | None = None
) -> dict[str, Any]:
    """Return the JSON form of an answer. Its images are fetched separately."""
    row = answer_row(answer, codec)
    row["images"] = [{"media_type": each.media_type or "image/png"} for each in answer.images]
    if record_error is not None:
        row["record_error"] = error_json(record_error)
    return {"turn": turn, **row}


def error_json(error: GenaiError) -> dict[str, Any]:
    """Return the JSON form of an error in a stream or a turn."""
    problem = HttpProblem.of(error)
    row = {"code": problem.code, "message": problem.message}
    for name in ("hint", "path"):
        if getattr(problem, name):
            row[name] = getattr(problem, name)
    return row
