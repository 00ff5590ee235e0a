"""The models that there are, as Anthropic's API lists them.

Source: Claude API reference, "List Models".
"""

from __future__ import annotations

from typing import Any

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.errors import InvalidData, NotFound
from genai_host.host import Host
from genai_host.server.models import ServedModel, name_in, served_model, served_models

_PAGE, _MOST = 20, 1000
_UNKNOWN = "1970-01-01T00:00:00Z"  # when a model was made, no provider says


def listed(request: RouteRequest, host: Host) -> RouteReply:
    """A page of them: `limit`, and `after_id` or `before_id`."""
    found = [each for each in served_models(host) if each.operation == "chat"]
    names = [each.name for each in found]
    limit = _limit(request)
    after, before = request.query.get("after_id"), request.query.get("before_id")
    for name in (after, before):
        if name and name not in names:
            raise InvalidData(f"there is no model {name!r}", path="?after_id")
    if before:
        found = found[: names.index(before)]
        page, has_more = found[-limit:], len(found) > limit
    else:
        found = found[names.index(after) + 1 :] if after else found
        page, has_more = found[:limit], len(found) > limit
    return json_reply(
        {
            "data": [_wire(each) for each in page],
            "has_more": has_more,
            "first_id": page[0].name if page else None,
            "last_id": page[-1].name if page else None,
        }
    )


def one(request: RouteRequest, host: Host) -> RouteReply:
    """One, by its name. Raises `NotFound`."""
    model = served_model(host, name_in(request.parameters))
    if model.operation != "chat":
        raise NotFound(f"{model.name} answers no messages")
    return json_reply(_wire(model))


def _limit(request: RouteRequest) -> int:
    text = request.query.get("limit") or str(_PAGE)
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= _MOST:
        raise InvalidData(f"limit is a number from 1 to {_MOST}", path="?limit")
    return int(text)


def _wire(model: ServedModel) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": _UNKNOWN,
    }
