"""Replies of OpenAI's responses, whole and streamed.

Source: OpenAI API reference, "The response object" and "Streaming events", OpenAPI
document 2.3.0.
The mark of a stream's end is the event `response.completed`, `response.incomplete`, or
`response.failed`; it brings the whole response once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api import (
    Completion,
    Delta,
    FinishReason,
    Message,
    Part,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from genai_host.api.dialects import (
    count_in,
    list_in,
    malformed,
    object_in,
    string_in,
)
from genai_host.api.tool_calls import read_tool_call
from genai_host.dialects.openai_common import error_in, read_object
from genai_host.errors import GenaiError, GenerationError, IncompleteReply, ServiceUnavailable

NAME = "openai-responses"

_INCOMPLETE: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_REFUSAL = "response.refusal.delta"
_TEXTS = ("response.output_text.delta", _REFUSAL)
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ITEM_DONE = "response.output_item.done"
_ITEMS = ("response.output_item.added", _ITEM_DONE)
_ARGUMENTS = "response.function_call_arguments."


def read_response(data: Mapping[str, Any]) -> Completion:
    """A whole response. Raises what a failed one tells of, `GenerationError` if it
    holds no answer, and `MalformedReply`."""
    status = string_in(data, "status")
    if status == "failed":
        raise _failure(data)
    if status in ("queued", "in_progress"):
        raise malformed(f"the response is not finished, but {status}")
    if data.get("output") is None or status == "cancelled":
        raise GenerationError("the model gave no answer", reason=status or "no output")
    content: list[Part] = []
    refused = False
    for at, item in enumerate(list_in(data, "output")):
        if not isinstance(item, dict):
            raise malformed("an item of the output is not an object")
        content += _read_item(item, at)
        refused = refused or _is_refusal(item)
    calls = any(isinstance(part, ToolCall) for part in content)
    why = string_in(object_in(data, "incomplete_details"), "reason")
    finish: FinishReason = "other"
    if refused:
        finish = "content_filter"
    elif status == "incomplete":
        finish = _INCOMPLETE.get(why, "other")
    elif calls:
        finish = "tool_calls"
    elif status == "completed":
        finish = "stop"
    return Completion(
        Message("assistant", content),
        finish,
        _read_usage(data.get("usage")),
        vendor_finish=why or status,
    )


class ResponseDecoder:
    """Shows the pieces of a streamed response. The answer is what its last event says;
    where that lacks the output, as with some servers, it is put together from the
    pieces."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}
        self._refused = False
        self._items: dict[int, dict[str, Any]] = {}
        self._thought: tuple[Any, ...] | None = None
        self._end: Completion | None = None

    @property
    def done(self) -> bool:
        return self._end is not None

    @property
    def ended(self) -> bool:
        return self.done

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.data == b"[DONE]":  # which some servers add
            return ()
        data = read_object(event.data)
        kind = string_in(data, "type")
        if kind in _TEXTS:
            return self._add_text(data, kind)
        if kind in _THOUGHTS:
            return self._add_thought(data, kind)
        if kind.startswith(_ARGUMENTS):
            self._add_arguments(data)
        elif kind in _ITEMS:
            return self._set_item(data, kind)
        elif kind in _ENDS:
            response = {"status": _ENDS[kind], **object_in(data, "response")}
            if not list_in(response, "output"):
                response["output"] = self._output()
            self._end = read_response(response)
        elif kind == "error":
            raise error_in({"error": data}) or _failure(data)
        elif not kind:
            raise malformed("an event has no type")
        return ()

    def finish(self) -> Completion:
        if self._end is None:
            pieces = (piece for pieces in self._texts.values() for piece in pieces)
            raise IncompleteReply("the reply was cut before its end", text="".join(pieces))
        return self._end

    def _add_text(self, data: Mapping[str, Any], kind: str) -> Sequence[Delta]:
        text = string_in(data, "delta")
        self._texts.setdefault(count_in(data, "output_index"), []).append(text)
        self._refused = self._refused or kind == _REFUSAL
        return (Delta(text),) if text else ()

    def _add_thought(self, data: Mapping[str, Any], kind: str) -> Sequence[Delta]:
        """What it thinks comes in paragraphs."""
        text = string_in(data, "delta")
        names = ("output_index", "summary_index", "content_index")
        place = (kind, *(count_in(data, name) for name in names))
        begins = self._thought not in (None, place)
        self._thought = place
        return (Delta(reasoning=f"\n\n{text}" if begins else text),) if text else ()

    def _add_arguments(self, data: Mapping[str, Any]) -> None:
        item = self._items.get(count_in(data, "output_index"))
        if item is None:
            raise malformed("there are arguments of no tool call")
        whole = string_in(data, "arguments")  # with the last of these events
        item["arguments"] = whole or string_in(item, "arguments") + string_in(data, "delta")

    def _set_item(self, data: Mapping[str, Any], kind: str) -> Sequence[Delta]:
        item = dict(object_in(data, "item"))
        index = count_in(data, "output_index")
        self._items[index] = item
        if kind == _ITEM_DONE and item.get("type") == "function_call":
            return [Delta(tool_call=call) for call in _read_item(item, index)]
        return ()

    def _output(self) -> list[dict[str, Any]]:
        """The items, put together from the pieces."""
        for index, texts in self._texts.items():
            item = self._items.setdefault(index, {"type": "message"})
            if not item.get("content"):
                name = "refusal" if self._refused else "text"
                item["content"] = [{"type": name, name: "".join(texts)}]
        return [item for _, item in sorted(self._items.items())]


def _read_item(item: Mapping[str, Any], at: int) -> Iterator[Any]:
    """The parts that an item of the output becomes."""
    kind = string_in(item, "type")
    if kind == "message":
        phase = string_in(item, "phase")
        text = "".join(_text_of(each) for each in list_in(item, "content"))
        if phase and text:  # whether it is a comment on the way or the answer
            yield VendorPart(NAME, {"phase": phase})
        if text:
            yield Text(text)
    elif kind == "function_call":
        id = string_in(item, "call_id") or string_in(item, "id") or f"call_{at}"
        yield read_tool_call(id, string_in(item, "name"), item.get("arguments"))
    elif kind == "reasoning":
        thoughts = [*list_in(item, "summary"), *list_in(item, "content")]
        text = "\n\n".join(filter(None, map(_text_of, thoughts)))
        if text:
            yield Reasoning(text)
        if item.get("encrypted_content") or item.get("content"):  # else it says nothing again
            yield VendorPart(NAME, dict(item))
    elif kind:
        yield VendorPart(NAME, dict(item))
    else:
        raise malformed("an item of the output has no type")


def _text_of(content: Any) -> str:
    if not isinstance(content, dict):
        raise malformed("a piece of an item is not an object")
    return string_in(content, "text") + string_in(content, "refusal")


def _is_refusal(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "message" and any(
        each.get("type") == "refusal" for each in list_in(item, "content")
    )


def _failure(data: Mapping[str, Any]) -> GenaiError:
    return error_in(data) or ServiceUnavailable(
        "the service failed to answer, and does not say why"
    )


def _read_usage(data: Any) -> Usage:
    if not isinstance(data, dict):
        return Usage()
    return Usage(
        input=count_in(data, "input_tokens"),
        output=count_in(data, "output_tokens"),
        cached_input=count_in(object_in(data, "input_tokens_details"), "cached_tokens"),
        reasoning=count_in(object_in(data, "output_tokens_details"), "reasoning_tokens"),
    )
