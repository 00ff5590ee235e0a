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

from attrs import frozen

from genai_feature_agent.request import StatelessAgent, error_json
from genai_feature_agent.stream import PieceStream, failure, in_events, in_lines, pieces
from genai_host.api import (
    RouteRequest,
    RouteResponse,
    StreamedBody,
    http_status,
    json_response,
    prefers_events,
)
from genai_host.errors import NoRoute

if TYPE_CHECKING:
    from genai_host.api import HostServices


def answer(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Return the whole reply as JSON. If the turn fails, the status is that of the error, and the
    body has the error and the messages so far.
    """
    if prefers_events(request):
        return _streamed(request, host, _AS_EVENTS)
    agent = StatelessAgent(host)
    asked = agent.read(request.json())
    try:
        reply = agent.reply(asked, request.limits)
    except NoRoute as error:
        return _without_model(error)
    return json_response(reply.to_json(), 200 if reply.error is None else http_status(reply.error))


def stream(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Return the reply as a stream. Errors after the start of the turn are sent in the stream."""
    return _streamed(request, host, _AS_LINES)


@frozen
class _Format:
    """A format of streams.

    Attributes:
        write: Writes pieces.
        headers: Headers of the reply.
        keepalive: Data that clients ignore.
    """

    write: Callable[[PieceStream], Generator[str, None, None]]
    headers: Mapping[str, str]
    keepalive: bytes


_AS_EVENTS = _Format(
    in_events, {"content-type": "text/event-stream", "cache-control": "no-cache"}, b": ping\n\n"
)
_AS_LINES = _Format(
    in_lines,
    {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-cache",
        "x-vercel-ai-data-stream": "v1",
    },
    b"2:[]\n",  # no data
)


def _streamed(request: RouteRequest, host: HostServices, to: _Format) -> RouteResponse:
    agent = StatelessAgent(host)
    asked = agent.read(request.json())
    turn = pieces(agent.stream(asked, request.limits), f"msg-{uuid.uuid4()}")
    body = StreamedBody(
        _bytes(to.write(turn)), lambda error: b"".join(_bytes(to.write(failure(error))))
    )

    def begin() -> RouteResponse | None:
        try:
            body.begin()
        except NoRoute as error:
            return _without_model(error)
        return None

    return RouteResponse(body, headers=to.headers, keepalive=to.keepalive, begin=begin)


def _bytes(texts: Generator[str, None, None]) -> Generator[bytes, None, None]:
    with closing(texts):
        for text in texts:
            yield text.encode()


def _without_model(error: NoRoute) -> RouteResponse:
    """Return 503: the host lacks a model; the client can name only models of the host."""
    return json_response({"error": error_json(error)}, 503)
