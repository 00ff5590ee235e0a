"""Replies of OpenAI's chat completions, whole and streamed.

Source: OpenAI API reference, "The chat completion object" and "... chunk object",
OpenAPI document 2.3.0; `reasoning_content` as DeepSeek, vLLM and llama.cpp have it,
`reasoning` as OpenRouter, Groq and Ollama.
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
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
)
from genai_host.api.reply_fields import (
    count_in,
    list_in,
    malformed,
    object_in,
    read_tool_call,
    string_in,
)
from genai_host.dialects.openai_form import read_object
from genai_host.errors import GenerationError, IncompleteReply

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def read_completion(body: bytes) -> Completion:
    """A whole reply. Raises `MalformedReply`, and `GenerationError` if it holds no
    answer."""
    data = read_object(body)
    choice = _first_choice(data)
    message = object_in(choice, "message")
    refusal = string_in(message, "refusal")
    calls = [_read_tool_call(each, at) for at, each in enumerate(list_in(message, "tool_calls"))]
    return _completion(
        text=string_in(message, "content") + refusal,
        refused=bool(refusal),
        reasoning=_reasoning(message),
        calls=calls,
        finish=string_in(choice, "finish_reason"),
        usage=read_usage(data.get("usage")),
    )


class ChatDecoder:
    """Puts the pieces of a streamed reply together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refused = False
        self._calls: dict[int, dict[str, str]] = {}
        self._finish = ""
        self._usage = Usage()
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.data == b"[DONE]":
            self.done = True
            return ()
        data = read_object(event.data)
        if data.get("usage"):
            self._usage = read_usage(data["usage"])
        if not data.get("choices"):
            return ()
        choice = _first_choice(data)
        delta = object_in(choice, "delta")
        refusal = string_in(delta, "refusal")
        text = string_in(delta, "content") + refusal
        reasoning = _reasoning(delta)
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if refusal:
            self._refused = True
        for call in list_in(delta, "tool_calls"):
            self._add_tool_call(call)
        finish = string_in(choice, "finish_reason")
        pieces = [Delta(text, reasoning)] if text or reasoning else []
        if finish:
            self._finish = finish
            pieces += [Delta(tool_call=call) for call in self._tool_calls()]
        return pieces

    def finish(self) -> Completion:
        if not self.done:
            raise IncompleteReply("the reply was cut before its end", text="".join(self._text))
        return _completion(
            text="".join(self._text),
            refused=self._refused,
            reasoning="".join(self._reasoning),
            calls=self._tool_calls(),
            finish=self._finish,
            usage=self._usage,
        )

    def _add_tool_call(self, piece: Any) -> None:
        """Its id and name come with its first piece, its arguments bit by bit."""
        if not isinstance(piece, dict):
            raise malformed("a tool call is no object")
        index = piece.get("index")
        if index is None:  # then a new one comes with an id, and what has none goes on
            index = len(self._calls) - (bool(self._calls) and not piece.get("id"))
        if type(index) is not int:
            raise malformed("the index of a tool call is no number")
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = object_in(piece, "function")
        call["id"] = call["id"] or string_in(piece, "id")
        call["name"] += string_in(function, "name")
        call["arguments"] += string_in(function, "arguments")

    def _tool_calls(self) -> list[ToolCall]:
        return [
            read_tool_call(call["id"] or f"call_{at}", call["name"], call["arguments"])
            for at, call in sorted(self._calls.items())
        ]


def _completion(
    *,
    text: str,
    refused: bool,
    reasoning: str,
    calls: Sequence[ToolCall],
    finish: str,
    usage: Usage,
) -> Completion:
    content: list[Part] = []
    if reasoning:
        content.append(Reasoning(reasoning))
    if text:
        content.append(Text(text))
    content.extend(calls)
    normal: Finish = _FINISHES.get(finish, "other")
    if calls and normal == "stop":  # as some servers say it
        normal = "tool_calls"
    if refused:
        normal = "content_filter"
    return Completion(Message("assistant", content), normal, usage, vendor_finish=finish)


def _reasoning(message: Mapping[str, Any]) -> str:
    return string_in(message, "reasoning_content") or string_in(message, "reasoning")


def _read_tool_call(data: Any, at: int) -> ToolCall:
    if not isinstance(data, dict):
        raise malformed("a tool call is no object")
    function = object_in(data, "function")
    id = string_in(data, "id") or f"call_{at}"
    return read_tool_call(id, string_in(function, "name"), string_in(function, "arguments"))


def read_usage(data: Any) -> Usage:
    """The tokens used, as far as a reply tells."""
    if not isinstance(data, dict):
        return Usage()
    prompt = object_in(data, "prompt_tokens_details")
    completion = object_in(data, "completion_tokens_details")
    return Usage(
        input=count_in(data, "prompt_tokens"),
        output=count_in(data, "completion_tokens"),
        cached_input=count_in(prompt, "cached_tokens"),
        reasoning=count_in(completion, "reasoning_tokens"),
    )


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = list_in(data, "choices")
    if not choices:
        raise GenerationError("the model gave no answer", reason="no choices")
    if not isinstance(choices[0], dict):
        raise malformed("a choice is no object")
    return choices[0]
