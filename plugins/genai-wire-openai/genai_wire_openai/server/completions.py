"""Handler of completions, in which the prompt is a text instead of messages.

The model of a chat answers the prompt as a message of the user.

Source: OpenAI API reference, "Create completion" (legacy).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from genai_host import Host
from genai_host.api import (
    Completion,
    JsonReader,
    Message,
    RouteRequest,
    RouteResponse,
    Usage,
    body_of,
    json_response,
    write_json,
)
from genai_host.errors import GenaiError, ValidationError
from genai_host.serving import (
    ChatRequest,
    CompletionStream,
    answer,
    api_finish_reason,
    streamed,
    whole,
)
from genai_wire_openai.server.handlers import parameters_in
from genai_wire_openai.server.replies import FINISH_REASONS, error_event, usage_object

_OF_CHATS = (
    *("messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
    *("response_format", "top_logprobs"),
)
_MOST_PROMPTS = 32  # each is a call


def complete(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer one or several prompts, streamed if `stream` is set."""
    body = body_of(request)
    model = body.text("model")
    if not model:
        raise ValidationError("model is missing", path="$.model")
    prompts = _prompts(body)
    is_streamed, is_repeated = bool(body.flag("stream")), bool(body.flag("echo"))
    if is_streamed and len(prompts) > 1:
        raise ValidationError("only one prompt can be streamed", path=body.at("prompt"))
    body.refuse("suffix", "logprobs")
    body.drop(*_OF_CHATS)
    for name in ("n", "best_of"):
        if body.whole(name) not in (None, 1):
            raise ValidationError("only one answer per prompt is supported", path=body.at(name))
    options = body.object("stream_options")
    with_usage = bool(options.flag("include_usage")) if options is not None else False
    parameters = parameters_in(body, host, model)
    calls = [
        ChatRequest(
            model=model,
            messages=[Message("user", prompt)],
            parameters=parameters,
            stream=is_streamed,
        )
        for prompt in prompts
    ]
    del body  # its values take memory while the service answers
    before = prompts if is_repeated else [""] * len(prompts)
    writer = _TextWriter(model, host.clock.now(), with_usage=with_usage)
    if is_streamed:
        answering = answer(host, calls[0], request)
        return streamed(answering, lambda each: writer.events(each, before[0]))
    return json_response(writer.whole([whole(host, each, request) for each in calls], before))


def _prompts(body: JsonReader) -> list[str]:
    given = body.raw("prompt")
    prompts = [given] if isinstance(given, str) else list(body.values("prompt"))
    if not 0 < len(prompts) <= _MOST_PROMPTS:
        raise ValidationError(
            f"the number of prompts must be from 1 to {_MOST_PROMPTS}", path=body.at("prompt")
        )
    if not all(isinstance(each, str) for each in prompts):
        raise ValidationError("tokens are not supported: send text", path=body.at("prompt"))
    return prompts


class _TextWriter:
    """Writer of answers as text."""

    def __init__(self, model: str, now: datetime, *, with_usage: bool) -> None:
        self._with_usage = with_usage
        self._head = {
            "id": f"cmpl-{os.urandom(12).hex()}",
            "object": "text_completion",
            "created": int(now.timestamp()),
            "model": model,
            "system_fingerprint": "",
        }

    def whole(self, completions: Sequence[Completion], before: Sequence[str]) -> dict[str, Any]:
        """The answers to the prompts, in order.

        Args:
            completions: The answers.
            before: Text in front of each answer.
        """
        choices = [
            self._choice(text + each.text, number, api_finish_reason(each, FINISH_REASONS))
            for number, (text, each) in enumerate(zip(before, completions, strict=True))
        ]
        usage = sum((each.usage for each in completions), Usage())
        return {**self._head, "choices": choices, "usage": usage_object(usage)}

    def events(self, answering: CompletionStream, before: str) -> Iterator[bytes]:
        """The events of a stream. An error is the last event, without `[DONE]`."""
        try:
            if before:
                yield self._event(before)
            for delta in answering:
                if delta.text:
                    yield self._event(delta.text)
            completion = answering.completion
            finish = api_finish_reason(completion, FINISH_REASONS)
        except GenaiError as error:
            yield error_event(error)
            return
        yield self._event("", finish)
        if self._with_usage:
            usage = usage_object(completion.usage)
            yield b"data: " + write_json({**self._head, "choices": [], "usage": usage}) + b"\n\n"
        yield b"data: [DONE]\n\n"

    def _event(self, text: str, finish: str | None = None) -> bytes:
        chunk = {**self._head, "choices": [self._choice(text, 0, finish)]}
        return b"data: " + write_json(chunk) + b"\n\n"

    def _choice(self, text: str, number: int, finish: str | None) -> dict[str, Any]:
        return {"text": text, "index": number, "logprobs": None, "finish_reason": finish}
