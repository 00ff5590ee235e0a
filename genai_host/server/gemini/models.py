"""The models that there are, as the Gemini API lists them.

Source: Gemini API reference, "Models".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Operation, RouteReply, RouteRequest, json_reply
from genai_host.errors import InvalidData, NotFound
from genai_host.host import Host
from genai_host.server.gemini.names import PREFIX, model_named
from genai_host.server.models import ServedModel, served_model, served_models

_METHODS: Mapping[Operation, list[str]] = {
    "chat": ["generateContent", "streamGenerateContent", "countTokens"],
    "embed": ["embedContent", "batchEmbedContents"],
}
_USUAL_SIZE, _MOST = 50, 1000


def listed(request: RouteRequest, host: Host) -> RouteReply:
    """A page of them: `pageSize`, and `pageToken` for where it begins."""
    size = min(_number(request, "pageSize") or _USUAL_SIZE, _MOST)
    at = _number(request, "pageToken")
    found = [each for each in served_models(host) if each.operation in _METHODS]
    page: dict[str, Any] = {"models": [_wire(each) for each in found[at : at + size]]}
    if at + size < len(found):
        page["nextPageToken"] = str(at + size)
    return json_reply(page)


def one(request: RouteRequest, host: Host) -> RouteReply:
    model = served_model(host, model_named(request.parameters))
    if model.operation not in _METHODS:
        raise NotFound(f"{model.name} answers no method of this API")
    return json_reply(_wire(model))


def _wire(model: ServedModel) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "name": f"{PREFIX}{model.name}",
        "version": "1",
        "displayName": model.name,
        "description": model.help,
        "supportedGenerationMethods": _METHODS[model.operation],
    }
    if model.window is not None:
        wire["inputTokenLimit"] = model.window
    if "reasoning" in model.capabilities:
        wire["thinking"] = True
    return wire


def _number(request: RouteRequest, name: str) -> int:
    text = request.query.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidData(f"{name}: {text!r} is no number")
    return int(text)
