"""Turns: a message and its answer, whole or as it comes.

say → asked_in → begun → whole, or streams.TurnStream
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import Any

from attrs import frozen

from genai_host.api import Answer, Codec, Message, RouteReply, RouteRequest, json_reply
from genai_host.conversation import Conversation
from genai_host.errors import ConversationBusy, InvalidData, TurnWaiting
from genai_host.events import Event
from genai_host.host import Host
from genai_host.server.given import Given, body_of
from genai_host.server.native.answers import answered, waiting
from genai_host.server.native.fields import conversation_in, message_in
from genai_host.server.native.live import Live
from genai_host.server.native.streams import COMMENT, TurnStream


@frozen
class Asked:
    """What is to be said, as `Conversation.say` takes it."""

    message: Message | None
    again: bool
    context: Mapping[str, Any] | None
    returns: Mapping[str, Any] | None


@frozen
class Turn:
    """One turn that somebody wants.

    take     begins it, and gives what is heard of it
    number   of it in its conversation
    """

    conversation: Conversation
    take: Callable[[], Generator[Event, None, None]]
    number: int


def say(host: Host, live: Live, request: RouteRequest) -> RouteReply:
    """Say something in a conversation."""
    id = conversation_in(request, host)
    body = body_of(request)
    asked, in_pieces = asked_in(body, host.codec), bool(body.flag("stream"))
    body.nothing_else()
    turn = begun(asked, live, host.conversation(id, owner=request.user))
    return _taken(host, live, request, turn, in_pieces=in_pieces)


def asked_in(body: Given, codec: Codec) -> Asked:
    """Raises `InvalidData`."""
    asked = Asked(
        message_in(body, codec),
        bool(body.flag("again")),
        body.mapping("context"),
        body.mapping("returns"),
    )
    if asked.message is None and not asked.again:
        raise InvalidData("there is no message", path="$.message")
    return asked


def begun(asked: Asked, live: Live, conversation: Conversation) -> Turn:
    """The turn that is asked for. What was cut off before is left. Raises
    `ConversationBusy`."""
    if live.is_busy(conversation.id):
        raise ConversationBusy("a turn is under way", hint="wait for it, or cancel it")
    if conversation.status == "pending":
        conversation.drop()

    def take() -> Generator[Event, None, None]:
        return conversation.stream(
            asked.message, again=asked.again, context=asked.context, returns=asked.returns
        )

    return Turn(conversation, take, conversation.turns)


def resume(host: Host, live: Live, request: RouteRequest) -> RouteReply:
    """Go on with a turn that waits, or was cut off."""
    id = conversation_in(request, host)
    body = body_of(request)
    result, in_pieces = body.raw("result"), bool(body.flag("stream"))
    body.nothing_else()
    conversation = host.conversation(id, owner=request.user)
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
