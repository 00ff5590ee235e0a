"""A turn as a front end hears it: pieces, and two ways to write them.

    pieces(agent.stream(request), id) → Piece → in_lines   the line protocol of the AI SDK
                                              → in_events  server-sent events

- `start`: once, first
- `text`: a piece of what the assistant says
- `tool-call`: the model asks for a tool
- `tool-result`: what it gave
- `data`: a reaction, as it comes; last of all the state, which is the whole reply
- `error`: why the turn did not come to its end
- `finish`: once, last

Source of the lines: AI SDK 4, "Stream Protocols", section "Data Stream Protocol".
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from genai_feature_agent.loop import Added
from genai_feature_agent.request import AgentReply, error_json
from genai_host.api import Message, Progress, Text, ToolResult
from genai_host.api.json_text import write_json

if TYPE_CHECKING:
    from genai_host.api.features import Event

Kind = Literal["start", "text", "tool-call", "tool-result", "data", "error", "finish"]

STATE_VERSION = 1

_CODES: dict[Kind, str] = {
    "start": "f",
    "text": "0",
    "tool-call": "9",
    "tool-result": "a",
    "data": "2",
    "error": "3",
    "finish": "d",
}


@frozen
class Piece:
    """One piece of a turn; `data` is the JSON that goes with its kind."""

    kind: Kind
    data: Any


Pieces = Generator[Piece, None, None]
"""Closing it ends the turn."""


def pieces(events: Generator[Event, None, AgentReply], message_id: str) -> Pieces:
    """A turn from its events. The state comes before the one finish, however it ends; what
    keeps the turn from beginning is raised before the first piece.

    Args:
        events: Events of the turn.
        message_id: Id of the answer for the client.
    """
    start = Piece("start", {"messageId": message_id})
    started = False
    with closing(events):
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                reply: AgentReply = end.value
                break
            if not started:
                started = True
                yield start
            yield from _of_event(event)
    if not started:
        yield start
    if reply.error is not None:
        yield Piece("error", error_json(reply.error))
    state = {"type": "state", "version": STATE_VERSION, "value": reply.to_json()}
    yield Piece("data", state)
    usage = {"promptTokens": reply.usage.input, "completionTokens": reply.usage.output}
    yield Piece("finish", {"finishReason": _reason(reply), "usage": usage})


def in_lines(given: Pieces) -> Generator[str, None, None]:
    """Lines of the AI SDK: a code, a colon, and JSON."""
    with closing(given):
        for piece in given:
            data = piece.data
            if piece.kind == "data":
                data = [data]
            elif piece.kind == "error":
                data = data["message"]
            yield f"{_CODES[piece.kind]}:{write_json(data).decode()}\n"


def in_events(given: Pieces) -> Generator[str, None, None]:
    """Server-sent events: the kind is the name, the data is JSON."""
    with closing(given):
        for piece in given:
            data = {"text": piece.data} if piece.kind == "text" else piece.data
            yield f"event: {piece.kind}\ndata: {write_json(data).decode()}\n\n"


def _of_event(event: Event) -> Iterator[Piece]:
    if event.text:
        yield Piece("text", event.text)
    elif event.kind == "void":
        yield Piece("data", {"type": "void"})
    elif isinstance(event.data, Progress) and isinstance(event.data.data, Added):
        yield from _of_message(event.data.data.message)
        for reaction in event.data.data.reactions:
            yield Piece("data", {"type": "reaction", "value": dict(reaction)})


def _of_message(message: Message) -> Iterator[Piece]:
    for call in message.tool_calls:
        arguments = dict(call.arguments)  # empty where they are malformed: the SDK reads objects
        yield Piece("tool-call", {"toolCallId": call.id, "toolName": call.name, "args": arguments})
    for part in message.content:
        if isinstance(part, ToolResult):
            text = "\n".join(each.text for each in part.content if isinstance(each, Text))
            yield Piece("tool-result", {"toolCallId": part.id, "result": text})


def _reason(reply: AgentReply) -> str:
    if reply.error is not None:
        return "error"
    return "tool-calls" if reply.approvals else "stop"
