"""Messages as Anthropic gives them: whole, or in pieces.

Source: Claude API reference, "Create a Message", "Streaming messages", "Stop reasons".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import Completion, Finish, Problem, Usage
from genai_host.api.json_text import write_json
from genai_host.errors import GenaiError
from genai_host.server.anthropic.blocks import wire_blocks
from genai_host.server.anthropic.problems import error_object
from genai_host.server.anthropic.stream import Stream, event
from genai_host.server.asking import Answering

_FINISHES: Mapping[Finish, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "other": "end_turn",
}
_MORE_EXACT: Mapping[str, Finish] = {
    "model_context_window_exceeded": "length",
    "pause_turn": "other",
    "stop_sequence": "stop",
}
"""Words that a service may have given itself, and the end that they tell of."""

_Wire = dict[str, Any]


class Writer:
    """Writes one answer.

    model            as it was asked for
    shows_thoughts   whether thoughts that are not signed are shown; those that are, are
                     needed to go on
    stop             the only stop sequence that was given; None if there were more, or none
    """

    def __init__(self, model: str, *, shows_thoughts: bool, stop: str | None = None) -> None:
        self._id = f"msg_{os.urandom(12).hex()}"
        self._model = model
        self._shows_thoughts = shows_thoughts
        self._stop = stop

    def whole(self, completion: Completion) -> _Wire:
        content = completion.message.content
        return {
            **self._head(),
            "content": list(wire_blocks(content, shows_thoughts=self._shows_thoughts)),
            **self._end(completion),
            "usage": _usage(completion.usage),
        }

    def events(self, answering: Answering) -> Iterator[bytes]:
        """An error is the last event, and nothing then says that the message has stopped."""
        stream = Stream(self._shows_thoughts)
        unsaid: _Wire = {"content": [], "stop_reason": None, "stop_sequence": None}
        start = {**self._head(), **unsaid, "usage": _usage(Usage())}  # it is told at the end
        yield event("message_start", {"message": start})
        yield event("ping", {})
        try:
            for delta in answering:
                yield from stream.add(delta)
            completion = answering.completion
        except GenaiError as error:
            yield b"event: error\ndata: " + write_json(error_object(Problem.of(error))) + b"\n\n"
            return
        yield from stream.end(completion)
        end = {"delta": self._end(completion), "usage": _usage(completion.usage)}
        yield event("message_delta", end)
        yield event("message_stop", {})

    def _head(self) -> _Wire:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._model}

    def _end(self, completion: Completion) -> _Wire:
        told = completion.vendor_finish
        exact = _MORE_EXACT.get(told) == completion.finish
        reason = told if exact else _FINISHES[completion.finish]
        return {
            "stop_reason": reason,
            "stop_sequence": self._stop if reason == "stop_sequence" else None,
        }


def _usage(usage: Usage) -> _Wire:
    """What was written to a cache or read from it is not in `input_tokens`."""
    for_an_hour = usage.cache_written_1h
    return {
        "input_tokens": max(0, usage.input - usage.cached_input - usage.cache_written),
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cached_input,
        "cache_creation": {
            "ephemeral_5m_input_tokens": max(0, usage.cache_written - for_an_hour),
            "ephemeral_1h_input_tokens": for_an_hour,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
