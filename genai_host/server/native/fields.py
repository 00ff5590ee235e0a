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
    Pause,
    Reasoning,
    RouteRequest,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
)
from genai_host.api.http_routes import JsonReader
from genai_host.api.messages import Part
from genai_host.errors import GenaiError, NotFound, ValidationError
from genai_host.host import Host
from genai_host.serializers.conversations import answer_row, wait_row
from genai_host.util.text import short_repr

_LONGEST_TITLE = 500
_NOT_SAID = (ToolCall, ToolResult, Reasoning, VendorPart)  # of models, services and tools
_WEB = ("https://", "http://")  # a service that is on this machine might read a file of it

_NO_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def opened_with(given: JsonReader) -> dict[str, Any]:
    """What a conversation is opened with, beside the feature, and can be changed later: the
    arguments of `Host.open` and `Host.conversation`. Raises `ValidationError`."""
    models = given.mapping("models")
    for role, name in (models or {}).items():
        if not isinstance(name, str):
            raise ValidationError("a model has a name", path=f"{given.at('models')}.{role}")
    found = {
        "model": given.text("model") or None,
        "provider": given.text("provider") or None,
        "models": models,
        "parameters": given.mapping("parameters"),
        "settings": given.mapping("settings"),
        "tools": list(given.texts("tools")) if "tools" in given else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def feature_in(given: JsonReader, host: Host) -> str | None:
    """Raises `NotFound` for one that is not there."""
    name = given.text("feature") or None
    if name is not None and name not in host.registry.features:
        raise NotFound(f"unknown feature {name!r}", hint="GET /api/v1/features lists them")
    return name


def conversation_in(request: RouteRequest, host: Host) -> str:
    """The id in the path, if it is that of a conversation of whoever asks. Raises
    `NotFound`."""
    return whole_id(request.parameters["id"], request, host)


def whole_id(id: str, request: RouteRequest, host: Host) -> str:
    """The beginning of an id is not enough here, as it is on the command line: what it
    stands for may be another conversation tomorrow."""
    if host.store_for(request.user).find(id) != id:
        raise NotFound(f"unknown conversation {short_repr(id)}")
    return id


def title_in(given: JsonReader) -> str | None:
    """None if there is none; empty to take it away. Raises `ValidationError`."""
    title = given.text("title")
    if len(title) > _LONGEST_TITLE or _NO_LINE.search(title):
        why = f"a title is one line of up to {_LONGEST_TITLE} characters"
        raise ValidationError(why, path=given.at("title"))
    return title if "title" in given else None


def message_in(given: JsonReader, codec: Codec) -> Message | None:
    """A text, a list of parts, or a message in its JSON form; None if there is none. Raises
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
        raise ValidationError("a message is the user's, and says something", path=path)
    for part in message.content:
        if isinstance(part, _NOT_SAID):
            raise ValidationError(f"a user says nothing of type {part.type}", path=path)
        if isinstance(part, (Image, File)) and part.url and not part.url.startswith(_WEB):
            raise ValidationError("an address begins with https:// or http://", path=path)
    return message


def flag_in(request: RouteRequest, name: str) -> bool:
    """Whether the query says so: `true` or `1`. Raises `ValidationError`."""
    text = request.query.get(name, "").lower()
    if text not in ("", "0", "1", "false", "true"):
        raise ValidationError(f"{name} is true or false", path=f"?{name}")
    return text in ("1", "true")


def answered(
    answer: Answer, codec: Codec, turn: int, unrecorded: GenaiError | None = None
) -> dict[str, Any]:
    """The answer to a turn; its pictures are fetched one by one.

    unrecorded   why it is not kept, if it is not
    """
    row = answer_row(answer, codec)
    row["summary"] = row.pop("text")
    row["pictures"] = [{"media_type": each.media_type or "image/png"} for each in answer.pictures]
    if unrecorded is not None:
        row["unrecorded"] = failed(unrecorded)
    return {"turn": turn, **row}


def waiting(wait: Pause[Any] | None) -> dict[str, Any] | None:
    """What a turn waits for."""
    return None if wait is None else wait_row(wait)


def failed(error: GenaiError) -> dict[str, Any]:
    """An error, as it stands in a stream and in a list of turns."""
    problem = HttpProblem.of(error)
    row = {"code": problem.code, "message": problem.message}
    for name in ("hint", "path"):
        if getattr(problem, name):
            row[name] = getattr(problem, name)
    return row
