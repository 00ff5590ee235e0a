"""Messages as Anthropic gives them: whole, or in pieces.

Source: Claude API reference, "Create a Message", "Streaming messages".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import (
    Completion,
    Delta,
    Finish,
    Opaque,
    Part,
    Problem,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)
from genai_host.api.json_text import write_json
from genai_host.errors import GenaiError
from genai_host.server.anthropic.blocks import OWN
from genai_host.server.anthropic.problems import error_object
from genai_host.server.asking import Answering

_FINISH: Mapping[Finish, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "other": "end_turn",
}
_AFTER = b'""}}\n\n'
_Wire = dict[str, Any]


class Writer:
    """Writes one answer.

    model            as it was asked for
    in_json          whether the answer was asked for as JSON
    shows_thoughts   whether thoughts that are not signed are shown; those that are, are
                     needed to go on
    """

    def __init__(self, model: str, *, in_json: bool, shows_thoughts: bool) -> None:
        self._id = f"msg_{os.urandom(12).hex()}"
        self._model = model
        self._in_json = in_json
        self._shows_thoughts = shows_thoughts

    def whole(self, completion: Completion) -> _Wire:
        text = completion.text
        in_words = self._in_json and text.lstrip().startswith("```")
        if in_words:  # as it was asked for
            blocks = [{"type": "text", "text": write_json(completion.value).decode()}]
        else:
            blocks = list(self._blocks(completion.message.content))
        return {**self._head(), "content": blocks, **_end(completion), "usage": _usage(completion)}

    def events(self, answering: Answering) -> Iterator[bytes]:
        """An error is the last event, and nothing then says that the message has stopped."""
        stream = _Stream(self._shows_thoughts)
        start = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None}
        usage = {"input_tokens": 0, "output_tokens": 0}
        yield _event("message_start", {"message": {**start, "usage": usage}})
        yield _event("ping", {})
        try:
            for delta in answering:
                yield from stream.add(delta)
            completion = answering.completion
        except GenaiError as error:
            yield b"event: error\ndata: " + write_json(error_object(Problem.of(error))) + b"\n\n"
            return
        yield from stream.end(completion)
        yield _event("message_delta", {"delta": _end(completion), "usage": _usage(completion)})
        yield _event("message_stop", {})

    def _head(self) -> _Wire:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._model}

    def _blocks(self, content: tuple[Part, ...]) -> Iterator[_Wire]:
        for part, following in zip(content, (*content[1:], None), strict=True):
            if isinstance(part, Text):
                yield {"type": "text", "text": part.text}
            elif isinstance(part, ToolCall):
                yield _call(part)
            elif isinstance(part, Opaque):
                if _is_block(part):
                    yield dict(part.data)
            elif isinstance(part, Reasoning) and self._shows_thoughts and not _signs(following):
                yield {"type": "thinking", "thinking": part.text, "signature": ""}


class _Stream:
    """Puts pieces into blocks, one after the other."""

    def __init__(self, shows_thoughts: bool) -> None:
        self._shows_thoughts = shows_thoughts
        self._index = -1
        self._open = ""  # the type of the block that grows
        self._calls: set[str] = set()
        self._before = b""  # of a piece that it grows by: all but the text is always the same
        self._has_thought = False
        self._owned = 0  # blocks of the vendor's that were written

    def add(self, delta: Delta) -> Iterator[bytes]:
        if delta.reasoning and self._shows_thoughts:
            yield from self._think(delta.reasoning)
        if delta.text:
            yield from self._grow("text", "text_delta", delta.text)
        if delta.tool_call is not None:
            yield from self._call(delta.tool_call)
        if delta.opaque is not None and _is_block(delta.opaque):
            yield from self._own(delta.opaque.data)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """What has not come in pieces, and the end of the last block."""
        parts = completion.message.content
        own = [part.data for part in parts if isinstance(part, Opaque) and _is_block(part)]
        for block in own[self._owned :]:
            yield from self._own(block)
        if self._shows_thoughts and not self._has_thought and not own:
            yield from self._think("".join(p.text for p in parts if isinstance(p, Reasoning)))
        for call in completion.tool_calls:
            if call.id not in self._calls:
                yield from self._call(call)
        yield from self._close()

    def _think(self, text: str) -> Iterator[bytes]:
        if self._has_thought and self._open != "thinking":
            text = text.removeprefix("\n\n")  # that parts it from the thoughts before
        self._has_thought = True
        if text:
            yield from self._grow("thinking", "thinking_delta", text)

    def _grow(self, kind: str, piece: str, text: str) -> Iterator[bytes]:
        if self._open != kind:
            empty = {"text": ""} if kind == "text" else {"thinking": "", "signature": ""}
            yield from self._begin({"type": kind, **empty})
            whole = self._piece({"type": piece, kind: ""})
            self._before = whole.removesuffix(_AFTER)
        yield self._before + write_json(text) + b"}}\n\n"

    def _own(self, block: Mapping[str, Any]) -> Iterator[bytes]:
        """A block of the vendor's: thoughts that were shown get their signature."""
        self._owned += 1
        if block.get("type") == "thinking":
            if self._open != "thinking":
                yield from self._begin({"type": "thinking", "thinking": "", "signature": ""})
                if block.get("thinking"):
                    thought = {"type": "thinking_delta", "thinking": block["thinking"]}
                    yield self._piece(thought)
            signature = {"type": "signature_delta", "signature": block.get("signature", "")}
            yield self._piece(signature)
        else:
            yield from self._begin(dict(block))
        yield from self._close()

    def _call(self, call: ToolCall) -> Iterator[bytes]:
        self._calls.add(call.id)
        block = _call(call)
        given = block.pop("input")
        yield from self._begin({**block, "input": {}})
        text = write_json(given).decode()
        yield self._piece({"type": "input_json_delta", "partial_json": text})
        yield from self._close()

    def _begin(self, block: _Wire) -> Iterator[bytes]:
        yield from self._close()
        self._index += 1
        self._open = block["type"]
        yield _event("content_block_start", {"index": self._index, "content_block": block})

    def _piece(self, delta: _Wire) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield _event("content_block_stop", {"index": self._index})


def _is_block(part: Opaque) -> bool:
    return part.dialect == OWN and isinstance(part.data, Mapping) and "type" in part.data


def _signs(part: Part | None) -> bool:
    """Whether a part has the thoughts before it, signed."""
    return isinstance(part, Opaque) and _is_block(part) and part.data.get("type") == "thinking"


def _call(call: ToolCall) -> _Wire:
    given = {"INVALID_JSON": call.malformed} if call.malformed else dict(call.arguments)
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _end(completion: Completion) -> _Wire:
    stopped = completion.vendor_finish == "stop_sequence"
    reason = "stop_sequence" if stopped else _FINISH[completion.finish]
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(completion: Completion) -> _Wire:
    """What was written to a cache or read from it is not in `input_tokens`."""
    usage: Usage = completion.usage
    return {
        "input_tokens": max(0, usage.input - usage.cached_input - usage.cache_written),
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
    }


def _event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), write_json({"type": kind, **data}))
