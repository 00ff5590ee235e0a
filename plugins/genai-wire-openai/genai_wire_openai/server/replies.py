"""Replies, streams and errors of OpenAI's chat completions.

Source: OpenAI API reference, "CreateChatCompletionResponse",
"CreateChatCompletionStreamResponse", "ErrorResponse"; the guide to error codes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from datetime import datetime
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Completion,
    FinishReason,
    HttpProblem,
    Reasoning,
    RouteResponse,
    Text,
    ToolCall,
    json_response,
    merged_extra,
    write_json,
)
from genai_host.errors import GenaiError
from genai_host.serving import CompletionStream, api_finish_reason, status_of, with_retry_after
from genai_wire_openai.dialect.common import FORMAT
from genai_wire_openai.shared import (
    INPUT,
    chat_usage,
    for_chat,
    input_of,
    is_refusal,
    refusals_in,
    wire_tool_call,
    with_own_finish,
)

DIALECT = "openai-chat"
"""Name of the dialect of this format."""

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_QUOTA = "insufficient_quota"
_CODES: Mapping[str, str] = {
    "budget_exceeded": _QUOTA,
    "context_overflow": "context_length_exceeded",
    "no_route": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
    "unauthorized": "invalid_api_key",
}


def problem_reply(problem: HttpProblem) -> RouteResponse:
    """Return an error as `{"error": {"message", "type", "param", "code"}}`."""
    return json_response(error_object(problem), status_of(problem), with_retry_after(problem))


def error_object(problem: HttpProblem) -> dict[str, Any]:
    """Return the body of an error, which is also used in streams."""
    status = status_of(problem)
    usual = "invalid_request_error" if status < 500 else "server_error"
    hint = f" ({problem.hint})" if problem.hint else ""
    code = _CODES.get(problem.code, problem.code)
    return {
        "error": {
            "message": f"{problem.message}{hint}",
            "type": _QUOTA if code == _QUOTA else _TYPES.get(status, usual),
            "param": problem.path.removeprefix("$").lstrip(".") or problem.parameter or None,
            "code": code,
            **problem.extra.get(FORMAT, {}),
        }
    }


FINISH_REASONS: Mapping[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}
_Wire = dict[str, Any]


@frozen(eq=False, repr=False)
class CompletionWriter:
    """Writer of one answer.

    Args:
        model: Model name as requested.
        now: Time of the request.
        with_usage: Whether the last chunk of a stream has the usage.
        with_functions: Whether the client offered functions in place of tools: an answer then has
            its first call in `function_call`.
        custom: Names of the client's custom tools.
    """

    _model: str
    _now: datetime
    _with_usage: bool = field(kw_only=True)
    _with_functions: bool = field(default=False, kw_only=True)
    _custom: Set[str] = field(default=frozenset(), kw_only=True)
    _id: str = field(init=False, factory=lambda: f"chatcmpl-{os.urandom(12).hex()}")

    def whole(self, completion: Completion) -> _Wire:
        parts = completion.message.content
        texts = (part for part in parts if isinstance(part, Text) and not is_refusal(part))
        text, refusal = "".join(part.text for part in texts), refusals_in(parts)
        calls = [self._call(call) for call in completion.tool_calls]
        message: _Wire = {
            "role": "assistant",
            "content": None if (calls or refusal) and not text else text,
            "refusal": refusal or None,
            "annotations": for_chat(completion.message.citations),
        }
        thought = _thoughts(completion)
        if thought:
            message["reasoning_content"] = thought
        extra = completion.extra.get(DIALECT, {})
        message |= extra.get("message", {})
        if calls and self._with_functions:
            message["function_call"] = calls[0]["function"]
        elif calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": completion.extra.get("logprobs"),
            "finish_reason": self._finish(completion),
            **extra.get("choice", {}),
        }
        return {
            **self._head("chat.completion"),
            "choices": [choice, *completion.extra.get("choices", ())],
            "usage": _usage(completion),
            **extra.get("reply", {}),
        }

    def events(self, answering: CompletionStream) -> Iterator[bytes]:
        """Yield the events of a stream. An error is the last event, without `[DONE]`."""
        before, between, end = self._around()
        after = between + b"null" + end
        yield before + b'{"role":"assistant","content":"","refusal":null}' + after
        calls = 0
        thought = False
        try:
            for delta in answering:
                is_text = delta.text and not delta.reasoning and delta.tool_call is None
                if is_text and delta.extra is None and not delta.citations:  # usual case
                    yield before + b'{"content":' + write_json(delta.text) + b"}" + after
                    continue
                name = "refusal" if is_refusal(delta) else "content"
                wire: _Wire = {name: delta.text} if delta.text else {}
                if delta.reasoning:
                    thought = True
                    wire["reasoning_content"] = delta.reasoning
                if delta.tool_call is not None:
                    wire.update(self._call_delta(calls, delta.tool_call))
                    calls += 1
                logprobs = delta.extra.get("logprobs") if delta.extra else None
                for choice in delta.extra.get("choices", ()) if delta.extra else ():
                    head = self._head("chat.completion.chunk")
                    yield _event(write_json({**head, "choices": [_as_delta(choice)]}))
                if delta.citations:
                    wire["annotations"] = for_chat(delta.citations)
                unknown = delta.extra.get(DIALECT) if delta.extra else None
                if unknown:
                    yield from self._with_unknown(wire, logprobs, unknown)
                elif wire or logprobs:
                    yield before + write_json(wire) + between + write_json(logprobs) + end
            completion = answering.completion
            finish = self._finish(completion)
        except GenaiError as error:
            yield error_event(error)
            return
        rest = {} if thought else {"reasoning_content": _thoughts(completion)}
        if rest.get("reasoning_content"):
            yield before + write_json(rest) + after
        for number, call in enumerate(completion.tool_calls[calls:], calls):
            yield before + write_json(self._call_delta(number, call)) + after
        yield from self._end(completion, finish)

    def _with_unknown(
        self, wire: _Wire, logprobs: Any, unknown: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[bytes]:
        """A chunk with fields that only the client knows. Those of the usage are sent with it."""
        if not wire and not logprobs and unknown.keys() == {"usage"}:
            return
        delta = {**wire, **unknown.get("message", {})}
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        choices = [{**choice, **unknown.get("choice", {})}]
        usage = {"usage": None} if self._with_usage else {}
        head = self._head("chat.completion.chunk")
        yield _event(write_json({**head, "choices": choices, **usage, **unknown.get("reply", {})}))

    def _call_delta(self, number: int, call: ToolCall) -> _Wire:
        if self._with_functions:
            return {} if number else {"function_call": self._call(call)["function"]}
        return {"tool_calls": [{"index": number, **self._call(call)}]}

    def _call(self, call: ToolCall) -> _Wire:
        wire = wire_tool_call(call)
        if call.name not in self._custom:
            return wire
        custom = {**wire.pop("function"), INPUT: input_of(call)}
        del custom["arguments"]
        return {**wire, "type": "custom", "custom": custom}

    def _finish(self, completion: Completion) -> str:
        finish = api_finish_reason(with_own_finish(completion), FINISH_REASONS)
        return "function_call" if self._with_functions and finish == "tool_calls" else finish

    def _end(self, completion: Completion, finish: str) -> Iterator[bytes]:
        head = self._head("chat.completion.chunk")
        choice = {"index": 0, "delta": {}, "logprobs": None}
        ended = {**head, "choices": [{**choice, "finish_reason": finish}]}
        if self._with_usage:
            yield _event(write_json({**ended, "usage": None}))
            yield _event(write_json({**head, "choices": [], "usage": _usage(completion)}))
        else:
            yield _event(write_json(ended))
        yield b"data: [DONE]\n\n"

    def _around(self) -> tuple[bytes, bytes, bytes]:
        """The constant text before the delta of each chunk, and before and after `logprobs`."""
        head = write_json(self._head("chat.completion.chunk"))[:-1]
        usage = b',"usage":null' if self._with_usage else b""
        return (
            b"data: " + head + b',"choices":[{"index":0,"delta":',
            b',"logprobs":',
            b',"finish_reason":null}]' + usage + b"}\n\n",
        )

    def _head(self, kind: str) -> _Wire:
        return {
            "id": self._id,
            "object": kind,
            "created": int(self._now.timestamp()),
            "model": self._model,
            "system_fingerprint": "",  # some clients require the field
        }


def error_event(error: GenaiError) -> bytes:
    """Return an error as the last event of a stream."""
    return _event(write_json(error_object(HttpProblem.of(error))))


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _as_delta(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """A choice for a chunk; that of a service that did not stream has a whole message."""
    if "message" not in choice:
        return choice
    return {"delta" if name == "message" else name: value for name, value in choice.items()}


def _thoughts(completion: Completion) -> str:
    parts = completion.message.content
    return "".join(part.text for part in parts if isinstance(part, Reasoning))


def _usage(completion: Completion) -> _Wire:
    """The usage of an answer, with fields that only the client knows."""
    unknown = completion.extra.get(DIALECT, {}).get("usage", {})
    return merged_extra(chat_usage(completion.usage), unknown)
