"""A turn that somebody wants, before it is taken.

asked_in → next_turn
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from attrs import frozen

from genai_host.api import Codec, Message
from genai_host.api.given import Given
from genai_host.conversation import Conversation
from genai_host.errors import ConversationBusy, InvalidData
from genai_host.events import Event
from genai_host.host import Host
from genai_host.server.native.elsewhere import must_not_run_elsewhere
from genai_host.server.native.fields import message_in
from genai_host.server.native.live import Live


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


def next_turn(asked: Asked, host: Host, live: Live, user: str, conversation: Conversation) -> Turn:
    """The turn that is asked for. What was cut off before is left. Raises
    `ConversationBusy`."""
    if live.is_busy(conversation.id):
        raise ConversationBusy("a turn is under way", hint="wait for it, or cancel it")
    must_not_run_elsewhere(host, user, conversation)
    if conversation.status == "pending":
        conversation.drop()

    def take() -> Generator[Event, None, None]:
        return conversation.stream(
            asked.message, again=asked.again, context=asked.context, returns=asked.returns
        )

    return Turn(conversation, take, conversation.turns)
