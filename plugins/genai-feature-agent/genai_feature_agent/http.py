"""The agent over HTTP, for front ends that store the conversation. The server stores nothing.

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
    from genai_host.api import HostServices

_EVENTS = "text/event-stream"
_LINES = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-cache",
    "x-vercel-ai-data-stream": "v1",
}


def answer(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Return the whole reply as JSON. If the turn fails, the status is that of the error, and the
    body has the error and the messages so far.
    """
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


def stream(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Return the reply as a stream. Errors after the start of the turn are sent in the stream."""
    return _streamed(request, host, in_lines, _LINES)


def _streamed(
    request: RouteRequest,
    host: HostServices,
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
    """Yield one empty chunk when the turn has started, then its text. Errors before the start are
    raised while another response is still possible.
    """
    with closing(texts):
        first = next(texts)
        yield b""
        yield first.encode()
        for text in texts:
            yield text.encode()


def _without_model(error: NoRoute) -> RouteResponse:
    """Return 503: the host lacks a model; the client can name only models of the host."""
    return json_response({"error": error_json(error)}, 503)


def _accepts_events(request: RouteRequest) -> bool:
    """Whether the client prefers server-sent events to JSON, by order in `Accept`."""
    accepted = request.headers.get("accept", "").lower().split(",")
    kinds = [each.split(";")[0].strip() for each in accepted]
    return next((kind for kind in kinds if kind in (_EVENTS, "application/json")), "") == _EVENTS
