"""The agent over HTTP, for front ends that keep the conversation: nothing of it is kept
here.

    answer   the reply as JSON; as server-sent events to a client that accepts them
    stream   the lines of the AI SDK

Source of the header: AI SDK 4, "Stream Protocols", section "Data Stream Protocol".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from genai_feature_agent.request import StatelessAgent, error_json
from genai_feature_agent.stream import Pieces, in_events, in_lines, pieces
from genai_host.api import RouteRequest, RouteResponse, http_status, json_response
from genai_host.errors import NoRoute

if TYPE_CHECKING:
    from genai_host.host import Host

_EVENTS = "text/event-stream"
_LINES = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-cache",
    "x-vercel-ai-data-stream": "v1",
}


def answer(request: RouteRequest, host: Host) -> RouteResponse:
    """The reply in one piece. Where the turn did not come to its end, it has the status of
    what went wrong, and says so beside what was said so far."""
    if _accepts_events(request):
        headers = {"content-type": _EVENTS, "cache-control": "no-cache"}
        return _streamed(request, host, in_events, headers)
    agent = StatelessAgent(host)
    asked = agent.read(request.json())
    try:
        reply = agent.reply(asked, request.limits)
    except NoRoute as error:
        return _without_model(error)
    return json_response(reply.to_json(), 200 if reply.error is None else http_status(reply.error))


def stream(request: RouteRequest, host: Host) -> RouteResponse:
    """The same, as it goes. What goes wrong once the turn has begun is in the stream."""
    return _streamed(request, host, in_lines, _LINES)


def _streamed(
    request: RouteRequest,
    host: Host,
    write: Callable[[Pieces], Generator[str, None, None]],
    headers: Mapping[str, str],
) -> RouteResponse:
    agent = StatelessAgent(host)
    asked = agent.read(request.json())
    body = _bytes(write(pieces(agent.stream(asked, request.limits), f"msg-{uuid.uuid4()}")))
    try:
        next(body)
    except NoRoute as error:
        return _without_model(error)
    return RouteResponse(body, headers=headers)


def _bytes(texts: Generator[str, None, None]) -> Generator[bytes, None, None]:
    """Nothing once the turn has begun, and then what is told of it. What keeps it from
    beginning is raised while there can be another reply."""
    with closing(texts):
        first = next(texts)
        yield b""
        yield first.encode()
        for text in texts:
            yield text.encode()


def _without_model(error: NoRoute) -> RouteResponse:
    """It is the host that lacks one: the client has named none but those of the host."""
    return json_response({"error": error_json(error)}, 503)


def _accepts_events(request: RouteRequest) -> bool:
    """Whether a client wants events: of them and JSON, it names them first."""
    accepted = request.headers.get("accept", "").lower().split(",")
    kinds = [each.split(";")[0].strip() for each in accepted]
    return next((kind for kind in kinds if kind in (_EVENTS, "application/json")), "") == _EVENTS
