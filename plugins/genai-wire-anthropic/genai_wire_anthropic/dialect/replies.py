"""Replies of Anthropic's messages, complete and streamed, and their errors.

Source: Claude API reference, "Create a Message", "Streaming messages" and "Errors", as of November
2026. The end marker of a stream is the event `message_stop`; some servers end with the stop reason
instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_host.api import (
    Citation,
    Completion,
    Delta,
    Message,
    Part,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    arguments_as_text,
    citation_of,
    count_in,
    details_in,
    error_object,
    explain_reply,
    extra_of,
    finish_word,
    id_in,
    index_in,
    interrupted,
    list_in,
    malformed,
    message_in,
    object_in,
    objects_in,
    read_event,
    read_finish,
    read_json,
    read_reply,
    read_tool_call,
    service_error,
    string_in,
    unknown_fields,
    weightier,
    with_server_setting,
)
from genai_host.errors import GenaiError, GenerationError

NAME = "anthropic-messages"

_NO_STATUS = 500
STATUS_OF_TYPE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Status of an error in a reply with status 200, or in a stream."""
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Types of deltas, with the field of the chunk."""
_IN_EVENT = frozenset({"delta", "type", "usage"})
_IN_MESSAGE_DELTA = frozenset({"container", "stop_details", "stop_reason", "stop_sequence"})
_IN_DELTA_EVENT = frozenset({"delta", "index", "type"})
_IN_DELTA = frozenset({"text", "thinking", "type"})
_GROWING = ("text", "thinking")
"""Types of blocks that are streamed, with their fields."""
_READ_BLOCKS = (*_GROWING, "tool_use")


def read_object(data: bytes, *answer: str) -> dict[str, Any]:
    """Parse an object; raises the error of a reply with status 200, or in a stream. `answer` names
    the fields of an answer; see `raise_error_in`."""
    return read_reply(data, _error_in, answer)


def explain_error(reply: ProviderReply) -> GenaiError | None:
    """The error of a reply of status 400 or more."""
    return explain_reply(reply, _error_in)


def _error_in(data: Mapping[str, Any], status: int | None = None) -> GenaiError | None:
    """The error in an object; see `ErrorIn`."""
    error = error_object(data)
    if error is None:
        return None
    message = message_in(error)
    kind = str(error.get("type"))
    status = status or STATUS_OF_TYPE.get(kind, _NO_STATUS)
    return with_server_setting(service_error(status, message, kind))


_IN_MESSAGE = frozenset(
    {"content", "id", "model", "role", "stop_reason", "stop_sequence", "type", "usage"}
)
_OF_HOST = frozenset({"block", "citation", "delta", "event", "message_stop"})
"""Names in `extra` of answers and chunks for parts of events. No field of a reply has them."""
_IN_TEXT = frozenset({"citations", "text", "type"})
_IN_CALL = frozenset({"id", "input", "name", "type"})
_IN_USAGE = frozenset(
    {
        "cache_creation", "cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens",
        "output_tokens", "output_tokens_details",
    }
)  # fmt: skip
"""Fields of objects in replies. Others are passed on to clients, in `extra`."""
WEB_PAGE = "web_search_result_location"
"""Type of the citation of a web page."""
DIRECT = {"type": "direct"}
"""The usual caller of a tool: the model, not code at the service."""


def read_message(data: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> Completion:
    """Read a complete reply. `own` has the unknown fields of the events of a stream, by the names
    in `_OF_HOST`. Raises `GenerationError` without an answer, and `MalformedReply`."""
    if data.get("content") is None:
        raise GenerationError("the model gave no answer", reason="no content")
    content: list[Part] = []
    for at, block in enumerate(_blocks_in(data)):
        content += _read_block(block, at)
    reason = finish_word(data.get("stop_reason"))
    finish = read_finish(
        reason,
        calls=any(isinstance(part, ToolCall) for part in content),
        text="".join(part.text for part in content if isinstance(part, Text)),
    )
    return Completion(
        Message("assistant", content),
        finish,
        _read_usage(details_in(data, "usage")),
        vendor_finish=reason,
        extra=extra_of(NAME, {**_unknown(data), **(own or {})}) or {},
    )


def _blocks_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    blocks = message["content"]
    if isinstance(blocks, str):  # sent by some servers
        return [{"type": "text", "text": blocks}]
    return objects_in(message, "content")


def _unknown(message: Mapping[str, Any]) -> dict[str, Any]:
    """The unknown fields of a message, and those of its usage."""
    usage = unknown_fields(details_in(message, "usage"), _IN_USAGE)
    unknown = unknown_fields(message, _IN_MESSAGE | _OF_HOST)
    return {**unknown, "usage": usage} if usage else unknown


_Place = tuple[int, int]  # the index of a block, and its number among all


class MessageDecoder:
    """Assembles a streamed reply from its blocks. Some services give all blocks one index: then a
    delta belongs to the last block."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._in_delta: dict[str, Any] = {}  # its unknown fields
        self._in_stop: dict[str, Any] = {}
        self._blocks: dict[_Place, dict[str, Any]] = {}
        self._newest: dict[int, _Place] = {}
        self._ended: set[_Place] = set()
        self._pieces: dict[tuple[_Place, str], list[str]] = {}
        self._citations: dict[_Place, list[Any]] = {}
        self._thought_in: _Place | None = None
        self._text_in: _Place | None = None
        self._size = 0  # of the texts
        self._finish = ""
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.is_done:  # sent by some servers instead of `message_stop`
            self.done = True
            return ()
        data = read_event(event, _error_in, ("type", "delta"))
        kind = string_in(data, "type") or event.name or ""
        if kind == "content_block_delta":
            return self._add_piece(data)
        if kind == "content_block_start":
            return self._begin_block(data)
        if kind == "content_block_stop":
            return self._end_block(data)
        if kind == "message_start":
            self._message = dict(object_in(data, "message"))
        elif kind == "message_delta":
            delta = object_in(data, "delta")
            self._in_delta.update(unknown_fields(delta, _IN_MESSAGE_DELTA))
            self._message.update({name: delta[name] for name in delta.keys() & _IN_MESSAGE_DELTA})
            self._finish = weightier(self._finish, finish_word(delta.get("stop_reason")))
            further = {name: value for name, value in data.items() if name not in _IN_EVENT}
            self._message.update(further)
            known = {name: value for name, value in details_in(data, "usage").items() if value}
            self._message["usage"] = {**details_in(self._message, "usage"), **known}
        elif kind == "message_stop":
            self._in_stop = unknown_fields(data, _IN_EVENT)
            self.done = True
        elif kind == "message" and "content" in data:  # sent whole by some servers
            return self._add_message(data)
        elif not kind:
            raise malformed("an event has no type")
        return ()  # for example `ping`, and future events

    def finish(self) -> Completion:
        if not self.done and not self._finish:
            texts = (self._grown(place, "text") for place in sorted(self._blocks))
            raise interrupted("".join(texts))
        if not self._message and not self._blocks:
            raise GenerationError("the model gave no answer", reason="no content")
        blocks = [self._whole(place) for place in sorted(self._blocks)]
        own = {"delta": self._in_delta, "message_stop": self._in_stop}
        return read_message(
            {**self._message, "content": blocks, "stop_reason": self._finish},
            {name: fields for name, fields in own.items() if fields},
        )

    def _add_message(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        """Replace the blocks before. If there are any, the consumer has received its content."""
        self.done = True
        if data.get("content") is None:
            return ()
        is_repeated = bool(self._blocks)
        for before in (self._blocks, self._newest, self._ended, self._pieces, self._citations):
            before.clear()
        self._message = dict(data)
        self._finish = finish_word(data.get("stop_reason"))
        shown: list[Delta] = []
        for index, block in enumerate(_blocks_in(data)):
            shown += self._begin_block({"index": index, "content_block": block})
            shown += self._end_block({"index": index})
        return () if is_repeated else shown

    def _begin_block(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        block = dict(object_in(data, "content_block"))
        kind = string_in(block, "type")
        if not kind:
            raise malformed("a block has no type")
        index = index_in(data, "index") or 0
        before = self._blocks.get(self._newest.get(index, (index, -1)), {})
        if block.get("id") and block.get("id") == before.get("id"):  # repeated
            return ()
        place = self._newest[index] = (index, len(self._blocks))
        self._blocks[place] = block
        shown: list[Delta] = []
        if kind == "text":
            if unknown := unknown_fields(block, _IN_TEXT):
                shown += self._begin_text(place, unknown)
            for citation in list_in(block, "citations"):
                shown += self._cited(place, citation)
        if kind in _GROWING:
            shown += self._shown(place, kind, string_in(block, kind))
        return shown

    def _cited(self, place: _Place, citation: Any) -> Sequence[Delta]:
        return [*self._next_text(place), Delta(extra={NAME: {"citation": citation}})]

    def _begin_text(self, place: _Place, unknown: Mapping[str, Any]) -> Sequence[Delta]:
        self._text_in = place
        return (Delta(extra={NAME: {"block": unknown}}),)

    def _place(self, data: Mapping[str, Any]) -> _Place | None:
        return self._newest.get(index_in(data, "index") or 0)

    def _add_piece(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        delta = object_in(data, "delta")
        kind = string_in(delta, "type")
        place = self._place(data)
        if place is None and _PIECES.get(kind) in _GROWING:  # some servers omit the start
            name = _PIECES[kind]
            self._begin_block({**data, "content_block": {"type": name, name: ""}})
            place = self._place(data)
        if place is None:
            raise malformed("a delta belongs to no block")
        block = self._blocks[place]
        if kind == "signature_delta":
            block["signature"] = string_in(delta, "signature")
        elif kind == "citations_delta":
            citation = delta.get("citation")
            self._citations.setdefault(place, []).append(citation)
            return self._cited(place, citation)
        elif kind in _PIECES:
            name = _PIECES[kind]
            growing = name in _GROWING
            piece = string_in(delta, name) if growing else arguments_as_text(delta.get(name))
            self._pieces.setdefault((place, name), []).append(piece)
            return _with_unknown(self._shown(place, name, piece), data, delta) if growing else ()
        elif block["type"] not in _READ_BLOCKS:  # for example `compaction_delta`
            block.update({name: value for name, value in delta.items() if name != "type"})
        return ()

    def _end_block(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        place = self._place(data)
        if place is None or place in self._ended:
            return ()
        self._ended.add(place)
        whole = self._whole(place)
        if whole["type"] == "text":  # the passage of its citations is complete
            begin = self._size - len(string_in(whole, "text"))
            cited = tuple(each.moved(begin) for each in _citations_in(whole))
            return (Delta(citations=cited),) if cited else ()
        if whole["type"] == "tool_use":
            return [Delta(tool_call=_read_tool_use(whole, place[1]))]
        return [
            Delta(opaque=part) for part in _read_block(whole, place[1]) if type(part) is VendorPart
        ]

    def _shown(self, place: _Place, name: str, piece: str) -> Sequence[Delta]:
        """A chunk for the consumer. Each reasoning block is a paragraph."""
        if not piece:
            return ()
        if name == "text":
            self._size += len(piece)
            return [*self._next_text(place), Delta(piece)]
        begins = self._thought_in not in (None, place)
        self._thought_in = place
        return (Delta(reasoning=f"\n\n{piece}" if begins else piece),)

    def _next_text(self, place: _Place) -> Sequence[Delta]:
        """The beginning of a text block after another one: each has its own citations."""
        if self._text_in in (None, place):
            self._text_in = place
            return ()
        return self._begin_text(place, {})

    def _whole(self, place: _Place) -> dict[str, Any]:
        """A block with all its deltas."""
        block = self._blocks[place]
        grown = {name: self._grown(place, name) for name in _GROWING if name in block}
        if place in self._citations:
            grown["citations"] = [*list_in(block, "citations"), *self._citations[place]]
        given = self._grown(place, "partial_json")
        if given:
            grown["input"] = given if block["type"] == "tool_use" else _json_in(given)
        return {**block, **grown}

    def _grown(self, place: _Place, name: str) -> Any:
        pieces = self._pieces.get((place, name), ())
        return string_in(self._blocks[place], name) + "".join(pieces)


def _with_unknown(
    shown: Sequence[Delta], data: Mapping[str, Any], delta: Mapping[str, Any]
) -> Sequence[Delta]:
    """The chunk with the unknown fields of its event and of the delta in it."""
    if not shown or (data.keys() <= _IN_DELTA_EVENT and delta.keys() <= _IN_DELTA):
        return shown
    unknown = unknown_fields(data, _IN_DELTA_EVENT)
    if inner := unknown_fields(delta, _IN_DELTA):
        unknown["delta"] = inner
    return [*shown[:-1], evolve(shown[-1], extra=extra_of(NAME, {"event": unknown}))]


def _json_in(text: str) -> Any:
    """The input of a server tool."""
    try:
        return read_json(text)
    except ValueError as error:
        raise malformed(f"the input of a tool is not JSON: {error}") from error


def _read_block(block: Mapping[str, Any], at: int) -> Iterator[Any]:
    """The parts of a block. Reasoning is also stored unchanged, to be sent back, and so are calls
    and results of server tools."""
    kind = string_in(block, "type")
    if kind == "text":
        text = string_in(block, "text")
        if text and list_in(block, "citations"):
            yield VendorPart(NAME, {"citations": block["citations"]})
        if text:
            unknown = extra_of(NAME, unknown_fields(block, _IN_TEXT))
            yield Text(text, citations=_citations_in(block), extra=unknown)
    elif kind == "tool_use":
        yield _read_tool_use(block, at)
    elif kind == "thinking":
        text = string_in(block, "thinking")
        if text:
            yield Reasoning(text)
        if string_in(block, "signature"):  # refused without a signature
            yield VendorPart(NAME, dict(block))
    elif kind:
        yield VendorPart(NAME, dict(block))
    else:
        raise malformed("a block has no type")


def _citations_in(block: Mapping[str, Any]) -> tuple[Citation, ...]:
    """The web pages that a text block cites, with the whole block as their passage."""
    found: list[Citation] = []
    size = len(string_in(block, "text"))
    for each in list_in(block, "citations"):
        if isinstance(each, dict) and each.get("type") == WEB_PAGE:
            text = each.get("cited_text")
            found += citation_of(each.get("url"), each.get("title"), 0, size, cited_text=text)
    return tuple(found)


def _read_tool_use(block: Mapping[str, Any], at: int) -> ToolCall:
    id = id_in(block, "id") or f"call_{at}"
    unknown = unknown_fields(block, _IN_CALL)
    if unknown.get("caller") == DIRECT:
        del unknown["caller"]
    return read_tool_call(id, string_in(block, "name"), block.get("input"), extra_of(NAME, unknown))


def _read_usage(data: Mapping[str, Any]) -> Usage:
    """Token usage; `input_tokens` does not include cached tokens."""
    cached = count_in(data, "cache_read_input_tokens")
    written = count_in(data, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count_in(data, "input_tokens") + written + cached,
        output_tokens=count_in(data, "output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=count_in(details_in(data, "output_tokens_details"), "thinking_tokens"),
        cache_write_tokens=written,
        cache_write_1h_tokens=count_in(
            details_in(data, "cache_creation"), "ephemeral_1h_input_tokens"
        ),
    )
