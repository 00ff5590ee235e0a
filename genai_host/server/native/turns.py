"""Turns: a message and its answer, whole or as it comes.

say → next_turn → whole, or streams.TurnStream
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from genai_host.api import Answer, Codec, RouteReply, RouteRequest, json_reply
from genai_host.api.given import body_of
from genai_host.errors import TurnWaiting
from genai_host.host import Host
from genai_host.server.native.answers import answered, waiting
from genai_host.server.native.elsewhere import must_not_run_elsewhere
from genai_host.server.native.fields import conversation_in
from genai_host.server.native.live import Live
from genai_host.server.native.streams import COMMENT, TurnStream
from genai_host.server.native.wanted import Turn, asked_in, next_turn


def say(host: Host, live: Live, request: RouteRequest) -> RouteReply:
    """Say something in a conversation."""
    id = conversation_in(request, host)
    body = body_of(request)
    asked, in_pieces = asked_in(body, host.codec), bool(body.flag("stream"))
    body.nothing_else()
    conversation = host.conversation(id, owner=request.user)
    turn = next_turn(asked, host, live, request.user, conversation)
    return _taken(host, live, request, turn, in_pieces=in_pieces)


def resume(host: Host, live: Live, request: RouteRequest) -> RouteReply:
    """Go on with a turn that waits, or was cut off."""
    id = conversation_in(request, host)
    body = body_of(request)
    result, in_pieces = body.raw("result"), bool(body.flag("stream"))
    body.nothing_else()
    conversation = host.conversation(id, owner=request.user)
    must_not_run_elsewhere(host, request.user, conversation)
    turn = Turn(
        conversation, lambda: conversation.resume_stream(result), max(0, conversation.turns - 1)
    )
    return _taken(host, live, request, turn, in_pieces=in_pieces)


def _taken(
    host: Host, live: Live, request: RouteRequest, turn: Turn, *, in_pieces: bool
) -> RouteReply:
    if in_pieces:
        stream = TurnStream(turn, live, request.limits, host.codec)
        headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
        return RouteReply(stream, headers=headers, silence=COMMENT)
    return json_reply(whole(live, turn, request, host.codec))


def whole(live: Live, turn: Turn, request: RouteRequest, codec: Codec) -> dict[str, Any]:
    """Take a turn and wait for what comes of it."""
    answer: Answer | None = None
    with live.turn(turn.conversation, request.limits), closing(turn.take()) as events:
        try:
            for event in events:
                answer = event.answer
        except TurnWaiting:
            wait = waiting(turn.conversation.waiting)
            return {"turn": turn.number, "status": "waiting", "waiting": wait}
    assert answer is not None  # the last event of a turn that does not raise
    row = answered(answer, codec, turn.number, turn.conversation.unrecorded)
    return {"turn": turn.number, "status": "answered", "answer": row}
