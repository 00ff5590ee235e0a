"""An answer in pieces: blocks, one after the other, each as it grows.

Source: Claude API reference, "Streaming messages".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import Completion, Delta, Reasoning, ToolCall
from genai_host.api.json_text import write_json
from genai_host.server.anthropic.blocks import Block, own_block, thoughts, wire_call

_PARAGRAPH = "\n\n"


def event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), write_json({"type": kind, **data}))


class Stream:
    """Makes blocks of pieces. Each has its number, and ends before the next one begins.

    shows_thoughts   whether those are shown that are not signed
    """

    def __init__(self, shows_thoughts: bool) -> None:
        self._shows_thoughts = shows_thoughts
        self._index = -1
        self._open = ""  # the type of the block that grows
        self._text = self._thought = False  # whether there was any
        self._calls = self._own = 0

    def add(self, delta: Delta) -> Iterator[bytes]:
        if delta.reasoning:
            yield from self._think(delta.reasoning)
        if delta.text:
            self._text = True
            yield from self._grow("text", "text_delta", delta.text)
        if delta.tool_call is not None:
            yield from self._call(delta.tool_call)
        own = own_block(delta.opaque)
        if own is not None:
            yield from self._vendors(own)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """What did not come in pieces, and the end of the last block."""
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

    def _think(self, piece: str) -> Iterator[bytes]:
        """Thoughts that are not shown come once they are signed, if they are."""
        begins = self._open != "thinking"
        if begins and self._thought:  # a paragraph of its own, to who sees no blocks
            piece = piece.removeprefix(_PARAGRAPH)
        self._thought = True
        if self._shows_thoughts and piece:
            yield from self._grow("thinking", "thinking_delta", piece)

    def _vendors(self, block: Block) -> Iterator[bytes]:
        """A block as it came. Thoughts that were shown get their signature."""
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
        block = wire_call(call)
        yield from self._begin({**block, "input": {}})
        yield self._piece("input_json_delta", "partial_json", write_json(block["input"]).decode())
        yield from self._close()

    def _grow(self, kind: str, delta: str, text: str) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._begin(thoughts("") if kind == "thinking" else _EMPTY)
        yield self._piece(delta, kind, text)

    def _whole(self, block: Block) -> Iterator[bytes]:
        yield from self._begin(block)
        yield from self._close()

    def _begin(self, block: Block) -> Iterator[bytes]:
        yield from self._close()
        self._index += 1
        self._open = block["type"]
        yield event("content_block_start", {"index": self._index, "content_block": block})

    def _piece(self, kind: str, name: str, value: Any) -> bytes:
        delta = {"type": kind, name: value}
        return event("content_block_delta", {"index": self._index, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield event("content_block_stop", {"index": self._index})


_EMPTY: Block = {"type": "text", "text": ""}


def _has_thoughts(blocks: list[Block]) -> bool:
    return any(block["type"] == "thinking" for block in blocks)
