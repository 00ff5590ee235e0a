"""Chunks of a streamed answer: tool calls get unique ids, and nothing of the result is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from attrs import evolve

from genai_host.api import (
    Call,
    Completion,
    Delta,
    EmbedCall,
    Embeddings,
    ProviderRequest,
    ReplyStream,
    StreamDecoder,
    ToolCall,
    Transcription,
    Usage,
)
from genai_host.api.json_text import write_json
from genai_host.api.messages import NO_USAGE
from genai_host.api.tool_calls import DistinctCalls
from genai_host.plugins.watchdog import Watched
from genai_host.providers.instance import ProviderCall

_TOKEN = 4  # characters, or bytes of UTF-8
_DATA = re.compile(rb"(?<![\w+/=-])[\w+/=-]{1024,}")  # Base64
_GRACE = 0.25  # seconds to wait for the end of the transmission after the end of the reply


def estimated_usage(call: Call, request: ProviderRequest, result: Any) -> Usage:
    """Usage of a result for which the service reports none, from its text and that of the request,
    without images, recordings and other files."""
    if getattr(result, "usage", NO_USAGE).total:
        return NO_USAGE
    if isinstance(result, Completion):
        sizes = [len(result.text), *(len(write_json(each.arguments)) for each in result.tool_calls)]
        return Usage(_input_tokens(request), sum(sizes) // _TOKEN)
    if isinstance(result, Embeddings) and isinstance(call, EmbedCall):
        return Usage(sum(map(_tokens_of, call.texts)))
    if isinstance(result, Transcription):
        return Usage(0, _tokens_of(result.text))
    return NO_USAGE


def _tokens_of(text: str | Sequence[int]) -> int:
    """Number of tokens; a text that is not empty has at least one."""
    if not isinstance(text, str):
        return len(text)
    return ceil(len(text.encode(errors="replace")) / _TOKEN)


def _input_tokens(request: ProviderRequest) -> int:
    return len(_DATA.sub(b"", request.data())) // _TOKEN


class StreamedChunks:
    """The chunks of one answer that have been passed on."""

    def __init__(self) -> None:
        self._has_text = self._has_citations = False
        self._calls = DistinctCalls()
        self._events = 0
        self._characters = 0

    def usage(self, request: ProviderRequest, decoder: StreamDecoder[Any]) -> Usage:
        """Usage of the answer as far as it has been received. Services report it at the end;
        before, it is estimated: an event has at least one token."""
        if not self._events:
            return NO_USAGE
        if decoder.done:
            with suppress(Exception):
                usage: Usage = decoder.finish().usage
                if usage.total:
                    return usage
        return Usage(_input_tokens(request), max(self._events, self._characters // _TOKEN))

    def decoded(
        self,
        events: ReplyStream,
        decoder: StreamDecoder[Any],
        attempt: ProviderCall,
        feeding: Watched,
        streaming: Watched,
    ) -> Generator[Delta, None, None]:
        """Decode a streamed reply. Once it is complete, wait briefly for its last bytes, so that
        the connection can be reused.

        Chunks with nothing but `extra` wait for the first with content: with the first chunk, the
        call can no longer be retried, nor the reply of a server have the status of an error.

        Args:
            events: The reply.
            decoder: The decoder of the dialect.
            attempt: The attempt, with its deadlines.
            feeding: Watches the decoder.
            streaming: Watches the provider.
        """
        watch = attempt.watch
        whole = False
        held: list[Delta] | None = []  # None after the first chunk with content
        feeding.pause()
        for event in events:
            watch.received()
            attempt.collect(event.data)
            if whole:
                continue
            if event.is_keepalive:
                watch.expect_next()
                continue
            feeding.resume()
            pieces = decoder.feed(event)
            feeding.pause()
            self._events += 1
            streaming.pause()  # while the caller has the chunks
            for piece in pieces:
                if held is not None:
                    if _is_empty(piece):
                        held.append(piece)
                        continue
                    yield from held
                    held = None
                yield self.add(piece)
            streaming.resume()
            whole = decoder.done
            if whole:
                watch.expect_end(_GRACE)
            else:
                watch.expect_next()
        yield from held or ()

    def add(self, piece: Delta) -> Delta:
        """Note a chunk, and return it with a unique id for its tool call."""
        if piece.text:
            self._has_text = True
            self._characters += len(piece.text)
        if piece.reasoning:
            self._characters += len(piece.reasoning)
        if piece.citations:
            self._has_citations = True
        if piece.tool_call is None:
            return piece
        self._characters += len(write_json(piece.tool_call.arguments))
        return evolve(piece, tool_call=self._calls.add(piece.tool_call))

    def rest(self, result: Any) -> Iterator[Delta]:
        """Yield what the complete result has and the chunks did not, for example the text of an
        answer in one event, its citations, or tool calls without an end event."""
        if not isinstance(result, Completion):
            return
        if result.text and not self._has_text:
            yield result.in_one_piece()
        elif not self._has_citations and (cited := result.message.citations):
            yield Delta(citations=cited)
        if len(result.tool_calls) <= len(self._calls):
            return
        streamed = Counter(map(_content_of, self._calls))
        for call in result.tool_calls:
            streamed[_content_of(call)] -= 1
            if streamed[_content_of(call)] < 0:
                yield self.add(Delta(tool_call=call))


def _is_empty(piece: Delta) -> bool:
    return type(piece) is Delta and not (
        piece.text or piece.reasoning or piece.tool_call or piece.opaque
    )


def _content_of(call: ToolCall) -> tuple[str, bytes]:
    return call.name, call.malformed.encode() or write_json(call.arguments)
