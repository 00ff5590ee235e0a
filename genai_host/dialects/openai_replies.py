"""Replies of OpenAI's chat completions, whole and streamed, and its form of errors.

Source: OpenAI API reference, "The chat completion object" and "... chunk object",
OpenAPI document 2.3.0; `reasoning_content` as DeepSeek, vLLM and llama.cpp have it.
The mark of a stream's end is `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import (
    Completion,
    Delta,
    Finish,
    Message,
    Part,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
)
from genai_host.api.json_text import read_json
from genai_host.errors import (
    ContextOverflow,
    GenaiError,
    GenerationError,
    IncompleteReply,
    MalformedReply,
    error_of_status,
)

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
_OVERFLOWS = ("context_length_exceeded", "exceed_context_size_error")


def read_completion(body: bytes) -> Completion:
    """A whole reply. Raises `MalformedReply`, and `GenerationError` if it holds no
    answer."""
    data = read_object(body)
    choice = _first_choice(data)
    message = _object(choice, "message")
    calls = [_read_tool_call(each, at) for at, each in enumerate(_list(message, "tool_calls"))]
    return _completion(
        text=_string(message, "content"),
        refusal=_string(message, "refusal"),
        reasoning=_string(message, "reasoning_content") or _string(message, "reasoning"),
        calls=calls,
        finish=_string(choice, "finish_reason"),
        usage=read_usage(data.get("usage")),
    )


def explain_error(reply: ProviderReply) -> GenaiError | None:
    """The error in OpenAI's form of errors, which its other formats share."""
    try:
        data = read_json(reply.body)
    except ValueError:
        return None
    return _error_in(data, reply.status) if isinstance(data, dict) else None


class ChatDecoder:
    """Puts the pieces of a streamed reply together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish = ""
        self._usage = Usage()
        self._done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.data == b"[DONE]":
            self._done = True
            return ()
        data = read_object(event.data)
        if data.get("usage"):
            self._usage = read_usage(data["usage"])
        if not data.get("choices"):
            return ()
        choice = _first_choice(data)
        delta = _object(choice, "delta")
        text = _string(delta, "content")
        reasoning = _string(delta, "reasoning_content") or _string(delta, "reasoning")
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        self._refusal.append(_string(delta, "refusal"))
        for call in _list(delta, "tool_calls"):
            self._add_tool_call(call)
        finish = _string(choice, "finish_reason")
        pieces = [Delta(text, reasoning)] if text or reasoning else []
        if finish:
            self._finish = finish
            pieces += [Delta(tool_call=call) for call in self._tool_calls()]
        return pieces

    def finish(self) -> Completion:
        if not self._done:
            raise IncompleteReply("the reply was cut before its end", text="".join(self._text))
        return _completion(
            text="".join(self._text),
            refusal="".join(self._refusal),
            reasoning="".join(self._reasoning),
            calls=self._tool_calls(),
            finish=self._finish,
            usage=self._usage,
        )

    def _add_tool_call(self, piece: Any) -> None:
        """Its id and name come with its first piece, its arguments bit by bit."""
        if not isinstance(piece, dict):
            raise _malformed("a tool call is no object")
        index = piece.get("index")
        if index is None:  # then a new one comes with an id, and what has none goes on
            index = len(self._calls) - (bool(self._calls) and not piece.get("id"))
        if type(index) is not int:
            raise _malformed("the index of a tool call is no number")
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = _object(piece, "function")
        call["id"] = call["id"] or _string(piece, "id")
        call["name"] += _string(function, "name")
        call["arguments"] += _string(function, "arguments")

    def _tool_calls(self) -> list[ToolCall]:
        return [
            _tool_call(call["id"] or f"call_{at}", call["name"], call["arguments"])
            for at, call in sorted(self._calls.items())
        ]


def _completion(
    *,
    text: str,
    refusal: str,
    reasoning: str,
    calls: Sequence[ToolCall],
    finish: str,
    usage: Usage,
) -> Completion:
    content: list[Part] = []
    if reasoning:
        content.append(Reasoning(reasoning))
    if text or refusal:
        content.append(Text(text or refusal))
    content.extend(calls)
    normal: Finish = _FINISHES.get(finish, "other")
    if calls and normal == "stop":  # as some servers say it
        normal = "tool_calls"
    if refusal:
        normal = "content_filter"
    return Completion(Message("assistant", content), normal, usage, vendor_finish=finish)


def _read_tool_call(data: Any, at: int) -> ToolCall:
    if not isinstance(data, dict):
        raise _malformed("a tool call is no object")
    function = _object(data, "function")
    id = _string(data, "id") or f"call_{at}"
    return _tool_call(id, _string(function, "name"), _string(function, "arguments"))


def _tool_call(id: str, name: str, arguments: str) -> ToolCall:
    try:
        value = read_json(arguments or "{}")
    except ValueError:
        value = None
    if isinstance(value, dict):
        return ToolCall(id, name, value)
    return ToolCall(id, name, malformed=arguments)


def read_usage(data: Any) -> Usage:
    """The tokens used, as far as a reply tells."""
    if not isinstance(data, dict):
        return Usage()
    prompt = _object(data, "prompt_tokens_details")
    completion = _object(data, "completion_tokens_details")
    return Usage(
        input=_count(data, "prompt_tokens"),
        output=_count(data, "completion_tokens"),
        cached_input=_count(prompt, "cached_tokens"),
        reasoning=_count(completion, "reasoning_tokens"),
    )


def read_object(data: bytes) -> dict[str, Any]:
    """An object; an error that comes with status 200, or amid a stream, is raised."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise _malformed(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _malformed(f"it is a {type(value).__name__}")
    found = _error_in(value, 500)
    if found is not None:
        raise found
    return value


def _error_in(data: Mapping[str, Any], status: int) -> GenaiError | None:
    error = data.get("error")
    if not error:
        return None
    if not isinstance(error, dict):
        return error_of_status(status, str(error))
    message = str(error.get("message") or error)
    code = error.get("code")
    if code in _OVERFLOWS or error.get("type") in _OVERFLOWS:
        return ContextOverflow(message, status=status)
    own_status = code if isinstance(code, int) and 400 <= code < 600 else status
    return error_of_status(own_status, message)


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = _list(data, "choices")
    if not choices:
        raise GenerationError("the model gave no answer", reason="no choices")
    if not isinstance(choices[0], dict):
        raise _malformed("a choice is no object")
    return choices[0]


def _object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _malformed(f"{name} is no object")
    return value


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _malformed(f"{name} is no list")
    return value


def _string(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed(f"{name} is no string")
    return value


def _count(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return value if type(value) is int else 0


def _malformed(why: str) -> MalformedReply:
    return MalformedReply(f"the reply is malformed: {why}")
