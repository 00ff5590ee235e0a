"""The agent over HTTP, for front ends that store the conversation. The server stores nothing.

    answer   the reply as JSON; as server-sent events to a client that accepts them
    stream   the lines of the AI SDK, version 4
    chat     the UI messages of the AI SDK, versions 5 and later

The events of a turn become pieces, which have three formats:

    pieces(agent.stream(request), id) → Piece → in_lines   the line protocol of the AI SDK
                                              → in_events  server-sent events
                                              → in_ui_chunks  UI message stream of the AI SDK

- `start`: first piece, exactly once
- `text`: a chunk of the assistant's text
- `tool-call`: a tool call requested by the model
- `tool-result`: the result of a tool call
- `source`: a web page that the answer cites, not in lines: some of their readers refuse other codes
- `data`: a reaction when it occurs; the last one is the state, which is the whole reply
- `error`: the error that ended the turn
- `finish`: last piece, exactly once

Source of the lines and the header: AI SDK 4, "Stream Protocols", section "Data Stream Protocol".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from genai_feature_agent.loop import Added
from genai_feature_agent.request import AgentReply, StatelessAgent, error_json
from genai_feature_agent.ui_messages import HEADERS, from_ui_messages, in_ui_chunks
from genai_host.api import (
    Message,
    Progress,
    RouteRequest,
    RouteResponse,
    StreamedBody,
    Text,
    ToolResult,
    Usage,
    cited_pages,
    http_status,
    json_response,
    prefers_events,
    write_json,
)
from genai_host.errors import GenaiError, NoRoute

if TYPE_CHECKING:
    from genai_host.api import Event, HostServices


PieceKind = Literal[
    "start", "text", "tool-call", "tool-result", "source", "data", "error", "finish"
]

STATE_VERSION = 1

_CODES: dict[PieceKind, str] = {
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
    """One piece of a turn; `data` is the JSON for its kind. `is_error`: the tool failed."""

    kind: PieceKind
    data: Any
    is_error: bool = False


PieceStream = Generator[Piece, None, None]
"""Pieces of a turn. Closing the generator ends the turn."""


def pieces(events: Generator[Event, None, AgentReply], message_id: str) -> PieceStream:
    """Convert the events of a turn to pieces. The state always precedes the single `finish`.
    Errors before the start of the turn are raised before the first piece.
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
    reason = "tool-calls" if reply.approvals else "stop"
    yield _finish(reason if reply.error is None else "error", reply.usage)


def failure(error: GenaiError) -> PieceStream:
    """Yield the pieces of a turn that failed before its start, or by an unexpected error."""
    yield Piece("error", error_json(error))
    yield _finish("error", Usage())


def _finish(reason: str, used: Usage) -> Piece:
    usage = {"promptTokens": used.input_tokens, "completionTokens": used.output_tokens}
    return Piece("finish", {"finishReason": reason, "usage": usage})


def in_lines(given: PieceStream) -> Generator[str, None, None]:
    """Format pieces as lines of the AI SDK: a code, a colon, and JSON."""
    with closing(given):
        for piece in given:
            if piece.kind not in _CODES:
                continue
            data = piece.data
            if piece.kind == "data":
                data = [data]
            elif piece.kind == "error":
                data = data["message"]
            yield f"{_CODES[piece.kind]}:{write_json(data).decode()}\n"


def in_events(given: PieceStream) -> Generator[str, None, None]:
    """Format pieces as server-sent events, with the kind as name and JSON as data."""
    with closing(given):
        for piece in given:
            data = {"text": piece.data} if piece.kind == "text" else piece.data
            yield f"event: {piece.kind}\ndata: {write_json(data).decode()}\n\n"


def _of_event(event: Event) -> Iterator[Piece]:
    if event.text:
        yield Piece("text", event.text)
    elif event.kind == "reset":
        yield Piece("data", {"type": "void"})
    elif isinstance(event.data, Progress) and isinstance(event.data.data, Added):
        yield from _of_message(event.data.data.message)
        for reaction in event.data.data.reactions:
            yield Piece("data", {"type": "reaction", "value": dict(reaction)})
    elif event.answer is not None:
        for url, title in cited_pages(event.answer.citations).items():
            yield Piece("source", {"url": url, "title": title})


def _of_message(message: Message) -> Iterator[Piece]:
    for call in message.tool_calls:
        arguments = dict(call.arguments)  # empty if they are malformed: the SDK requires objects
        yield Piece("tool-call", {"toolCallId": call.id, "toolName": call.name, "args": arguments})
    for part in message.content:
        if isinstance(part, ToolResult):
            text = "\n".join(each.text for each in part.content if isinstance(each, Text))
            yield Piece("tool-result", {"toolCallId": part.id, "result": text}, part.error)


def answer(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Return the whole reply as JSON. If the turn fails, the status is that of the error, and the
    body has the error and the messages so far.
    """
    if prefers_events(request):
        return _streamed(request, host, _AS_EVENTS)
    agent = StatelessAgent(host, owner=request.user)
    asked = agent.read(request.json())
    try:
        reply = agent.reply(asked, request.limits)
    except NoRoute as error:
        return _without_model(error)
    return json_response(reply.to_json(), 200 if reply.error is None else http_status(reply.error))


def stream(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Return the reply as a stream. Errors after the start of the turn are sent in the stream."""
    return _streamed(request, host, _AS_LINES)


def chat(request: RouteRequest, host: HostServices) -> RouteResponse:
    """Answer the UI messages of a request with a UI message stream."""
    return _streamed(request, host, _AS_UI_CHUNKS)


def _with_new_id(body: Any, dropped: list[str]) -> tuple[Any, str]:
    return body, f"msg-{uuid.uuid4()}"


@frozen
class _Format:
    """A format of streams: how pieces are written, and how a request and the id of its answer are
    read. `read` collects the paths of what it ignores; clients ignore `keepalive`."""

    write: Callable[[PieceStream], Generator[str, None, None]]
    headers: Mapping[str, str]
    keepalive: bytes
    read: Callable[[Any, list[str]], tuple[Any, str]] = _with_new_id


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
_AS_UI_CHUNKS = _Format(in_ui_chunks, HEADERS, b": ping\n\n", from_ui_messages)


def _streamed(request: RouteRequest, host: HostServices, to: _Format) -> RouteResponse:
    agent = StatelessAgent(host, owner=request.user)
    read, id = to.read(request.json(), request.dropped)
    asked = agent.read(read)
    turn = pieces(agent.stream(asked, request.limits), id)
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
