"""The models that there are, as OpenAI's API lists them.

Source: OpenAI API reference, "List models".
"""

from __future__ import annotations

from typing import Any

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.host import Host
from genai_host.server.models import ServedModel, name_in, served_model, served_models


def listed(request: RouteRequest, host: Host) -> RouteReply:
    """All of them."""
    return json_reply({"object": "list", "data": [_wire(each) for each in served_models(host)]})


def one(request: RouteRequest, host: Host) -> RouteReply:
    """One, by its name. Raises `NotFound`."""
    return json_reply(_wire(served_model(host, name_in(request.parameters))))


def _wire(model: ServedModel) -> dict[str, Any]:
    # when it came, no provider says
    return {"id": model.name, "object": "model", "created": 0, "owned_by": model.owner}
