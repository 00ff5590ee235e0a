"""Replies, streams and errors of Ollama's chat and generate.

An answer is sent whole or as lines of JSON. An error is a message only.

Source: Ollama's `docs/api.md`, also "Errors", and `api/types.go`.

Services report only the total time of a call: loading is reported as 0, and the whole time as that
of the answer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Any

from attrs import frozen

from genai_host import Host
from genai_host.api import (
    Clock,
    Completion,
    HttpProblem,
    Image,
    Reasoning,
    RouteRequest,
    RouteResponse,
    ToolCall,
    json_response,
    write_json,
)
from genai_host.errors import GenaiError
from genai_host.serving import (
    ChatRequest,
    CompletionStream,
    answer,
    status_of,
    streamed,
    whole,
    with_retry_after,
)
from genai_wire_ollama.dialect.operations import NAME, wire_tool_call


def problem_reply(problem: HttpProblem) -> RouteResponse:
    """Return an error as `{"error": "..."}`."""
    return json_response(error_object(problem), status_of(problem), with_retry_after(problem))


def error_object(problem: HttpProblem) -> dict[str, str]:
    """Return the body of an error, which is also used in streams."""
    place = f" (at {problem.path})" if problem.path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return {"error": f"{problem.message}{place}{hint}"}


LINES = "application/x-ndjson"
SPACE = b" "
"""Keepalive before the JSON of the next line: Ollama's Python client parses empty lines as JSON."""

_SECOND = 10**9  # in nanoseconds

_Wire = dict[str, Any]
MessagePlacement = Callable[[_Wire], _Wire]
"""Puts `content`, `thinking`, `tool_calls`, `images` at their place in the reply."""


def as_message(content: _Wire) -> _Wire:
    """Return the content of a chat reply."""
    return {"message": {"role": "assistant", **content}}


def as_response(content: _Wire) -> _Wire:
    """Return the content of a generate reply."""
    wire = {"response": content["content"]}
    return {**wire, **({"thinking": content["thinking"]} if "thinking" in content else {})}


@frozen
class ChatWriter:
    """Writer of one answer.

    Attributes:
        model: Model name as requested.
        thoughts: Whether to include reasoning.
        place: Puts the content into the reply.
        clock: The host's clock.
    """

    model: str
    thoughts: bool
    place: MessagePlacement
    clock: Clock

    def whole(self, completion: Completion) -> _Wire:
        extra = completion.extra.get(NAME, {})
        content = {"content": completion.text, **self._thinking(completion), **_others(completion)}
        placed = self.place({**content, **extra.get("message", {})})
        return {**self._head(), **placed, **_end(completion), **extra.get("reply", {})}

    def lines(self, answering: CompletionStream) -> Iterator[bytes]:
        """Yield the lines of a stream. An error is the last line, without `done`."""
        for each in self._pieces(answering):
            yield write_json(each) + b"\n"

    def nothing(self, reason: str) -> _Wire:
        """Return the reply to a request that only loads or unloads a model."""
        done = {"done": True, "done_reason": reason}
        return {**self._head(), **self.place({"content": ""}), **done}

    def _pieces(self, answering: CompletionStream) -> Iterator[_Wire]:
        thought = False
        try:
            for delta in answering:
                thinking = delta.reasoning if self.thoughts else ""
                thought = thought or bool(thinking)
                extra = delta.extra.get(NAME, {}) if delta.extra else {}
                if delta.text or thinking or extra:
                    more = {"thinking": thinking} if thinking else {}
                    content = {"content": delta.text, **more, **extra.get("message", {})}
                    yield {**self._piece(content), **extra.get("reply", {})}
            completion = answering.completion
        except GenaiError as error:
            yield error_object(HttpProblem.of(error))
            return
        rest = {**({} if thought else self._thinking(completion)), **_others(completion)}
        if rest:
            yield self._piece({"content": "", **rest})
        yield {**self._head(), **self.place({"content": ""}), **_end(completion)}

    def _piece(self, content: _Wire) -> _Wire:
        return {**self._head(), **self.place(content), "done": False}

    def _head(self) -> _Wire:
        now = self.clock.now().astimezone(UTC).isoformat(timespec="microseconds")
        return {"model": self.model, "created_at": now.replace("+00:00", "Z")}

    def _thinking(self, completion: Completion) -> _Wire:
        thoughts = [part.text for part in completion.message.content if isinstance(part, Reasoning)]
        return {"thinking": "".join(thoughts)} if thoughts and self.thoughts else {}


def reply(
    writer: ChatWriter, host: Host, asked: ChatRequest, request: RouteRequest
) -> RouteResponse:
    """Answer a request, streamed if it asks for that."""
    if asked.stream:
        return streamed(answer(host, asked, request), writer.lines, LINES, SPACE)
    return json_response(writer.whole(whole(host, asked, request)))


def nanoseconds(seconds: float) -> int:
    return round(seconds * _SECOND)


def _others(completion: Completion) -> _Wire:
    """Parts that are not streamed."""
    calls = [_call(number, call) for number, call in enumerate(completion.tool_calls)]
    images = [
        base64.b64encode(part.data).decode()
        for part in completion.message.content
        if isinstance(part, Image) and part.data
    ]
    return {**({"tool_calls": calls} if calls else {}), **({"images": images} if images else {})}


def _call(number: int, call: ToolCall) -> _Wire:
    wire = wire_tool_call(call)
    return {**wire, "function": {"index": number, **wire["function"]}}


def _end(completion: Completion) -> _Wire:
    """The last line. The format has only the reasons `stop` and `length`; for others, the host's
    reason is sent."""
    total = nanoseconds(completion.seconds)
    return {
        "done": True,
        "done_reason": "stop" if completion.finish == "tool_calls" else completion.finish,
        "total_duration": total,
        "load_duration": 0,
        "prompt_eval_count": completion.usage.input_tokens,
        "prompt_eval_duration": 0,
        "eval_count": completion.usage.output_tokens,
        "eval_duration": total,
    }
