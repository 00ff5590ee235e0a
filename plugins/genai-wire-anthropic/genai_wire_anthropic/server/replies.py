"""Replies, streams and errors of Anthropic's messages.

A streamed answer is a sequence of blocks: each block ends before the next begins.

Source: Claude API reference, "Create a Message": "ContentBlock"; "Streaming messages", "Stop
reasons", "Errors".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Citation,
    Completion,
    Delta,
    FinishReason,
    HttpProblem,
    Part,
    Reasoning,
    RouteResponse,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    json_response,
    merged_extra,
    sse_event,
    with_extra,
    write_json,
)
from genai_host.errors import GenaiError
from genai_host.serving import CompletionStream, api_finish_reason, status_of, with_retry_after
from genai_wire_anthropic.dialect.replies import DIRECT, NAME, STATUS_OF_TYPE, WEB_PAGE
from genai_wire_anthropic.dialect.tools import wire_call

_OVERLOADED = 529
_TYPES = {status: kind for kind, status in STATUS_OF_TYPE.items()}

NO_THREADS = HttpProblem(
    400,
    "thread_unsupported_request",
    "conversations are not stored here: send all messages without this field",
    path="$.thread",
)
_CODES_OF_FORMAT = frozenset({NO_THREADS.code})
"""Errors with a code of the format, which clients handle in a special way."""


def problem_reply(problem: HttpProblem) -> RouteResponse:
    """Return an error as `{"type": "error", "error": {"type", "message"}, "request_id"}`."""
    body = {**error_object(problem), "request_id": problem.request_id or None}
    return json_response(body, _status(problem), with_retry_after(problem))


def error_object(problem: HttpProblem) -> dict[str, Any]:
    """Return the body of an error, which is also used in streams."""
    status = _status(problem)
    usual = "invalid_request_error" if status < 500 else "api_error"
    place = problem.path.removeprefix("$").lstrip(".")
    message = f"{place}: {problem.message}" if place else problem.message
    hint = f" ({problem.hint})" if problem.hint else ""
    error: dict[str, Any] = {"type": _TYPES.get(status, usual), "message": f"{message}{hint}"}
    if problem.code in _CODES_OF_FORMAT:
        error["details"] = {"error_code": problem.code}
    return {"type": "error", "error": error}


def error_event(error: GenaiError) -> bytes:
    """Return an error as the last event of a stream."""
    return sse_event("error", error_object(HttpProblem.of(error)))


def _status(problem: HttpProblem) -> int:
    status = status_of(problem)
    return _OVERLOADED if status == 503 else status


ReplyBlock = dict[str, Any]


def wire_blocks(parts: Sequence[Part], *, shows_thoughts: bool) -> Iterator[ReplyBlock]:
    """Yield the blocks of an answer; unsigned thoughts only if `shows_thoughts`."""
    citations: ReplyBlock = {}
    for part, following in zip_longest(parts, parts[1:]):
        own = own_block(part)
        if own is not None:
            yield own
        elif isinstance(part, Text):
            passages = [(part.text, citations)] if citations else _passages(part)
            for text, cited in passages:
                yield with_extra({**_EMPTY, "text": text, **cited}, part, NAME)
            citations = {}
        elif isinstance(part, ToolCall):
            yield _call(part)
        elif isinstance(part, Reasoning):
            if shows_thoughts and not _signs(following):
                yield thoughts(part.text)
        elif (
            isinstance(part, VendorPart) and part.dialect == NAME and isinstance(part.data, Mapping)
        ):
            citations = dict(part.data)  # of the next text


def _passages(text: Text) -> Iterator[tuple[str, ReplyBlock]]:
    """The passages of a text, with their citations. Each is a block, with the blanks before it."""
    begin, size, last = 0, len(text.text), len(text.text.rstrip())
    citations = [each.within(text.text) for each in text.citations]
    places = {place for each in citations for place in (each.start, each.end) if place < last}
    for end in sorted({*places, size} - {0}):
        passage = text.text[begin:end]
        words = passage.lstrip()
        if words or end == size:
            first, until = end - len(words), min(end, last)
            cited = [each for each in citations if each.start <= first and until <= each.end]
            yield passage, {"citations": [*map(_citation, cited)]}
            begin = end


def _citation(citation: Citation) -> ReplyBlock:
    """A citation of a service of another format, which has no encrypted index."""
    return {
        "type": WEB_PAGE,
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.cited_text,
        "encrypted_index": "",
    }


def own_block(part: Part | None) -> ReplyBlock | None:
    """Return the original block of a vendor part; None for other parts."""
    if (
        not isinstance(part, VendorPart)
        or part.dialect != NAME
        or not isinstance(part.data, Mapping)
    ):
        return None
    return dict(part.data) if isinstance(part.data.get("type"), str) else None


def thoughts(text: str) -> ReplyBlock:
    """Return a block of unsigned thoughts."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def _call(call: ToolCall) -> ReplyBlock:
    return {"caller": DIRECT, **with_extra(wire_call(call, call.id), call, NAME)}


def _signs(part: Part | None) -> bool:
    """Whether a part has the signed form of the thoughts before it."""
    own = own_block(part)
    return own is not None and own["type"] == "thinking"


_PARAGRAPH = "\n\n"


def event(kind: str, data: Mapping[str, Any]) -> bytes:
    return sse_event(kind, {"type": kind, **data})


PING = event("ping", {})


class Stream:
    """Converts deltas to events of numbered blocks. Each block ends before the next begins.
    Unsigned thoughts are included if `shows_thoughts`."""

    def __init__(self, shows_thoughts: bool) -> None:
        self._shows_thoughts = shows_thoughts
        self._index = -1
        self._open = ""  # type of the open block
        self._text = self._thought = self._cites = False  # whether there was any
        self._calls = self._own = 0
        self._further: Mapping[str, Any] = {}  # fields of the next delta

    def add(self, delta: Delta) -> Iterator[bytes]:
        own = delta.extra.get(NAME, {}) if delta.extra else {}
        self._further = {}
        if "block" in own:
            self._text = True
            yield from self._begin({**_EMPTY, **own["block"]})
        if "citation" in own:
            self._cites = True  # as they are
            yield from self._cite(own["citation"])
        self._further = own.get("event", {})
        if delta.reasoning:
            yield from self._think(delta.reasoning)
        if delta.text:
            self._text = True
            yield from self._grow("text", "text_delta", delta.text)
        if delta.tool_call is not None:
            yield from self._call(delta.tool_call)
        for each in () if self._cites else delta.citations:
            yield from self._cite(_citation(each))
        block = own_block(delta.opaque)
        if block is not None:
            yield from self._vendors(block)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield the parts that were not streamed, and the end of the last block."""
        parts = completion.message.content
        own = [block for block in map(own_block, parts) if block is not None]
        if not self._thought and self._shows_thoughts and not _has_thoughts(own):
            for part in parts:
                if isinstance(part, Reasoning):
                    yield from self._whole(thoughts(part.text))
        for block in own[self._own :]:
            yield from self._vendors(block)
        if not self._text and completion.text:
            yield from self._grow("text", "text_delta", completion.text)
        for call in completion.tool_calls[self._calls :]:
            yield from self._call(call)
        yield from self._close()

    def _cite(self, citation: Any) -> Iterator[bytes]:
        """A citation of the open block."""
        self._text = True
        if self._open != "text":
            yield from self._begin(_EMPTY)
        yield self._piece("citations_delta", "citation", citation)

    def _think(self, piece: str) -> Iterator[bytes]:
        """Thoughts that are not shown are sent only with their signature."""
        begins = self._open != "thinking"
        if begins and self._thought:  # the separator of paragraphs is for clients without blocks
            piece = piece.removeprefix(_PARAGRAPH)
        self._thought = True
        if self._shows_thoughts and piece:
            yield from self._grow("thinking", "thinking_delta", piece)

    def _vendors(self, block: ReplyBlock) -> Iterator[bytes]:
        """A vendor block, unchanged. Thoughts that were streamed get their signature."""
        self._own += 1
        if block["type"] != "thinking":
            yield from self._whole(block)
            return
        if self._open != "thinking":
            yield from self._begin(thoughts(""))
            if block.get("thinking"):
                yield self._piece("thinking_delta", "thinking", block["thinking"])
        yield self._piece("signature_delta", "signature", block.get("signature", ""))
        yield from self._close()

    def _call(self, call: ToolCall) -> Iterator[bytes]:
        self._calls += 1
        yield from self._whole(_call(call))

    def _grow(self, kind: str, delta: str, text: str) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._begin(thoughts("") if kind == "thinking" else _EMPTY)
        yield self._piece(delta, kind, text)

    def _whole(self, block: ReplyBlock) -> Iterator[bytes]:
        if block["type"].endswith("tool_use") and "input" in block:
            # some clients read it only in a delta
            yield from self._begin({**block, "input": {}})
            given = write_json(block["input"]).decode()
            yield self._piece("input_json_delta", "partial_json", given)
        else:
            yield from self._begin(block)
        yield from self._close()

    def _begin(self, block: ReplyBlock) -> Iterator[bytes]:
        yield from self._close()
        self._index += 1
        self._open = block["type"]
        yield event("content_block_start", {"index": self._index, "content_block": block})

    def _piece(self, kind: str, name: str, value: Any) -> bytes:
        data = {"index": self._index, "delta": {"type": kind, name: value}}
        further, self._further = self._further, {}
        return event("content_block_delta", merged_extra(data, further) if further else data)

    def _close(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield event("content_block_stop", {"index": self._index})


_EMPTY: ReplyBlock = {"type": "text", "text": "", "citations": []}
"""The specification requires citations; some clients refuse null."""


def _has_thoughts(blocks: list[ReplyBlock]) -> bool:
    return any(block["type"] == "thinking" for block in blocks)


_FINISHES: Mapping[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_MORE_EXACT: Mapping[str, FinishReason] = {
    "model_context_window_exceeded": "length",
    "pause_turn": "other",
    "stop_sequence": "stop",
}
"""Stop reasons that a service may have reported itself, with the matching finish reason."""

_Wire = dict[str, Any]


@frozen(eq=False, repr=False)
class MessageWriter:
    """Writer of one answer.

    Args:
        model: Model name as requested.
        shows_thoughts: Whether to include unsigned thoughts. Signed thoughts are always included:
            the conversation needs them.
        stop: The stop sequence, if exactly one was given.
    """

    _model: str
    _shows_thoughts: bool = field(kw_only=True)
    _stop: str | None = field(default=None, kw_only=True)
    _id: str = field(init=False, factory=lambda: f"msg_{os.urandom(12).hex()}")

    def whole(self, completion: Completion) -> _Wire:
        content = completion.message.content
        return {
            **self._head(),
            "content": list(wire_blocks(content, shows_thoughts=self._shows_thoughts)),
            **self._end(completion),
            **_further(completion),
            "usage": _whole_usage(completion),
        }

    def events(self, answering: CompletionStream) -> Iterator[bytes]:
        """Yield the events of a stream. An error is the last event, without `message_stop`."""
        stream = Stream(self._shows_thoughts)
        # the reason and the usage are known only at the end
        start = {**self._head(), "content": [], **_end(None), "usage": _usage(Usage())}
        yield event("message_start", {"message": start})
        yield PING
        try:
            for delta in answering:
                yield from stream.add(delta)
            completion = answering.completion
            usage = _whole_usage(completion)
            end = {"delta": self._end(completion), **_further(completion), "usage": usage}
        except GenaiError as error:
            yield error_event(error)
            return
        yield from stream.end(completion)
        yield event("message_delta", end)
        yield event("message_stop", completion.extra.get(NAME, {}).get("message_stop", {}))

    def _head(self) -> _Wire:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._model}

    def _end(self, completion: Completion) -> _Wire:
        vendor_reason = completion.vendor_finish
        exact = _MORE_EXACT.get(vendor_reason) == completion.finish
        reason = vendor_reason if exact else api_finish_reason(completion, _FINISHES)
        end = _end(reason, self._stop if reason == "stop_sequence" else None)
        own = completion.extra.get(NAME, {})
        known = {name: own[name] for name in end if name in own}
        return {**end, **known, **own.get("delta", {})}


def _end(reason: str | None, sequence: str | None = None) -> _Wire:
    """How an answer ended. Clients may require all fields of the format, also empty ones."""
    return {
        "stop_reason": reason,
        "stop_sequence": sequence,
        "stop_details": None,
        "container": None,
    }


def _further(completion: Completion) -> _Wire:
    """Fields that only the client knows: of the message, or beside the delta in its last event."""
    own = completion.extra.get(NAME, {})
    known = {"usage", "delta", "message_stop", *_end(None)}
    return {name: value for name, value in own.items() if name not in known}


def _whole_usage(completion: Completion) -> _Wire:
    """The usage of an answer, with fields that only the client knows."""
    return {**_usage(completion.usage), **completion.extra.get(NAME, {}).get("usage", {})}


def _usage(usage: Usage) -> _Wire:
    """Tokens written to or read from a cache are not in `input_tokens`."""
    for_an_hour = usage.cache_write_1h_tokens
    return {
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": max(0, usage.cache_write_tokens - for_an_hour),
            "ephemeral_1h_input_tokens": for_an_hour,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "server_tool_use": None,
        "service_tier": None,
        "inference_geo": None,
    }
