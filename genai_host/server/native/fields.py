"""What several requests have in common: a conversation that is described, a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Codec, Message, RouteRequest, Text
from genai_host.api.messages import Part
from genai_host.errors import InvalidData, NotFound
from genai_host.host import Host
from genai_host.server.given import Given

OPENED = ("model", "provider", "models", "parameters", "settings", "tools")
"""What a conversation is opened with, beside the feature, and can be changed later."""


def opened_with(given: Given) -> dict[str, Any]:
    """The arguments of `Host.open` and `Host.conversation`. Raises `InvalidData`."""
    models = given.mapping("models")
    for role, name in (models or {}).items():
        if not isinstance(name, str):
            raise InvalidData("a model has a name", path=f"{given.at('models')}.{role}")
    found = {
        "model": given.text("model") or None,
        "provider": given.text("provider") or None,
        "models": models,
        "parameters": given.mapping("parameters"),
        "settings": given.mapping("settings"),
        "tools": list(given.texts("tools")) if "tools" in given else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def feature_in(given: Given, host: Host) -> str | None:
    """Raises `NotFound` for one that is not there."""
    name = given.text("feature") or None
    if name is not None and name not in host.registry.features:
        raise NotFound(f"there is no feature {name!r}", hint="GET /api/v1/features lists them")
    return name


def message_in(given: Given, codec: Codec) -> Message | None:
    """A text, a list of parts, or a message in its JSON form; None if there is none. Raises
    `InvalidData`."""
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
    except InvalidData as error:
        place = error.path.removeprefix("$")
        raise InvalidData(error.message, path=given.at("message") + place) from error
    if message.role != "user" or all(part == Text("") for part in message.content):
        raise InvalidData("a message is the user's, and says something", path=given.at("message"))
    return message


def context_in(given: Given) -> Mapping[str, Any] | None:
    return given.mapping("context")


def number_in(request: RouteRequest, name: str, usual: int, most: int) -> int:
    """A number from 1 on, from the query. Raises `InvalidData`."""
    text = request.query.get(name, "")
    if not text:
        return usual
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise InvalidData(f"{name} is a number from 1 to {most}", path=f"?{name}")
    return int(text)


def flag_in(request: RouteRequest, name: str) -> bool:
    """Whether the query says so: `true` or `1`. Raises `InvalidData`."""
    text = request.query.get(name, "").lower()
    if text not in ("", "0", "1", "false", "true"):
        raise InvalidData(f"{name} is true or false", path=f"?{name}")
    return text in ("1", "true")
