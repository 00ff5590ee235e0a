"""Replies of OpenAI's responses, complete and streamed.

Source: OpenAI API reference, "The response object" and "Streaming events", OpenAPI document 2.3.0.
The end marker of a stream is the event `response.completed`, `response.incomplete` or
`response.failed`, which contains the complete response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api import (
    NO_USAGE,
    Completion,
    Delta,
    FinishReason,
    Message,
    Part,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    VendorPart,
    arguments_as_text,
    count_in,
    details_in,
    extra_of,
    finish_word,
    id_in,
    interrupted,
    list_in,
    malformed,
    object_in,
    objects_in,
    read_finish,
    read_tool_call,
    string_in,
    unknown_fields,
)
from genai_host.errors import GenaiError, GenerationError, ServiceUnavailable
from genai_wire_openai.dialect.common import error_in, read_event_object
from genai_wire_openai.shared import (
    MARKED,
    citations_in,
    moved,
    read_usage,
    refusals_in,
    responses_usage,
    unknown_within,
)

NAME = "openai-responses"
OF_SERVICE = (
    "code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call",
    "mcp_list_tools", "web_search_call",
)  # fmt: skip
"""Types of items of tools that the service ran."""

_IN_RESPONSE = frozenset(
    {
        "background", "completed_at", "conversation", "created_at", "error", "frequency_penalty",
        "id", "incomplete_details", "instructions", "max_output_tokens", "metadata", "model",
        "object", "output", "output_text", "parallel_tool_calls",
        "presence_penalty", "previous_response_id", "prompt_cache_key", "prompt_cache_retention",
        "reasoning", "safety_identifier", "status", "store", "temperature", "text", "tool_choice",
        "tools", "top_logprobs", "top_p", "usage", "user",
    }
)  # fmt: skip
_USAGE = responses_usage(NO_USAGE)
_IN_MESSAGE = frozenset({"content", "id", "phase", "role", "status", "type"})
_IN_TEXT = frozenset({"logprobs", "refusal", "text", "type"})
_IN_CALL = frozenset({"arguments", "call_id", "id", "name", "status", "type"})
"""Fields of objects in replies. Others are passed on to clients, in `extra`."""

_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.done": "completed",  # sent by some servers with any status
}
_UNFINISHED = ("queued", "in_progress")
_REFUSAL = "response.refusal.delta"
_TEXTS = ("response.output_text.delta", _REFUSAL)
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ITEM_DONE = "response.output_item.done"
_ITEMS = ("response.output_item.added", _ITEM_DONE)
_ARGUMENTS = "response.function_call_arguments."
_ANNOTATION = "response.output_text.annotation.added"


def read_response(data: Mapping[str, Any]) -> Completion:
    """Read a complete response. Raises `GenerationError` without an answer, `MalformedReply`, and
    the error of a failed response."""
    status = string_in(data, "status").lower() or "completed"
    if status == "failed":
        raise _failure(data)
    if status in _UNFINISHED:
        raise malformed(f"the response is not finished, but {status}")
    if data.get("output") is None or status == "cancelled":
        raise GenerationError("the model gave no answer", reason=status)
    content: list[Part] = []
    for at, item in enumerate(objects_in(data, "output")):
        content += _read_item(item, at)
    calls = any(isinstance(part, ToolCall) for part in content)
    why = finish_word(details_in(data, "incomplete_details").get("reason"))
    text = "".join(part.text for part in content if isinstance(part, Text))
    finish: FinishReason
    if status != "incomplete":
        finish = read_finish(finish_word(status), calls=calls, text=text)
    else:  # whatever the reason
        finish = read_finish(why or "other", text=text, unknown="other")
        finish = "other" if finish == "stop" else finish
    extra = extra_of(NAME, _unknown(data)) or {}
    if refusal := refusals_in(content):
        finish = "content_filter"
        extra = {**extra, **MARKED} if refusal == text else extra
    return Completion(
        Message("assistant", content),
        finish,
        read_usage(data.get("usage"), ("input_tokens", "output_tokens")),
        vendor_finish=why or string_in(data, "status"),
        extra=extra,
    )


def _unknown(response: Mapping[str, Any]) -> dict[str, Any]:
    """The unknown fields of a response, and those of its usage."""
    unknown = unknown_fields(response, _IN_RESPONSE)
    in_usage = unknown_within(details_in(response, "usage"), _USAGE)
    return {**unknown, "usage": in_usage} if in_usage else unknown


class ResponseDecoder:
    """Decodes a streamed response. The answer is that of its last event; if some servers omit its
    output, it is assembled from the chunks. If all items have one index, ids distinguish them,
    and an event without an id belongs to the last item."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._refused = False
        self._items: dict[int, dict[str, Any]] = {}
        self._places: dict[tuple[int, str], int] = {}  # by index and id
        self._newest: dict[int, int] = {}  # by index
        self._done: set[int] = set()
        self._thought: tuple[Any, ...] | None = None
        self._end: Completion | None = None

    @property
    def done(self) -> bool:
        return self._end is not None

    @property
    def ended(self) -> bool:
        return self.done

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.is_done:  # added by some servers
            return ()
        data = read_event_object(event, "type", "response", "delta")
        kind = string_in(data, "type") or event.name or ""
        if kind in _TEXTS:
            return self._add_text(data, kind)
        if kind in _THOUGHTS:
            return self._add_thought(data, kind)
        if kind == _ANNOTATION:
            return self._annotate(data)
        if kind.startswith(_ARGUMENTS):
            self._add_arguments(data)
        elif kind in _ITEMS:
            return self._set_item(data, kind)
        elif kind in _ENDS:
            response = dict(object_in(data, "response"))
            if response.get("status") in (None, *_UNFINISHED):
                response["status"] = _ENDS[kind]
            if not list_in(response, "output"):
                response["output"] = self._output()
            self._end = read_response(response)
        elif data.get("object") == "response":  # sent whole by some servers
            self._end = read_response(data)
        elif not kind:
            raise malformed("an event has no type")
        return ()

    def finish(self) -> Completion:
        if self._end is None:
            pieces = (piece for pieces in self._texts.values() for piece in pieces)
            raise interrupted("".join(pieces))
        return self._end

    def _place(self, data: Mapping[str, Any]) -> int:
        """Position of the item of an event."""
        index = count_in(data, "output_index")
        known = self._places.get((index, id_in(data, "item_id")))
        return self._newest.get(index, index) if known is None else known

    def _add_text(self, data: Mapping[str, Any], kind: str) -> Sequence[Delta]:
        text = string_in(data, "delta")
        self._texts.setdefault(self._place(data), []).append(text)
        self._refused = self._refused or kind == _REFUSAL
        return (Delta(text, extra=MARKED if kind == _REFUSAL else None),) if text else ()

    def _annotate(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        """Give an annotation of the first text of a message; its last event has all of them."""
        if count_in(data, "content_index"):
            return ()
        here = self._place(data)
        before = [texts for place, texts in self._texts.items() if place < here]
        begin = sum(len(piece) for texts in before for piece in texts)
        annotation = data.get("annotation")
        cited = tuple(each.moved(begin) for each in citations_in([annotation]))
        return (Delta(extra={NAME: {"annotation": annotation}}, citations=cited),)

    def _add_thought(self, data: Mapping[str, Any], kind: str) -> Sequence[Delta]:
        """Add reasoning, which is divided into paragraphs."""
        text = string_in(data, "delta")
        names = ("output_index", "summary_index", "content_index")
        place = (kind, *(count_in(data, name) for name in names))
        begins = self._thought not in (None, place)
        self._thought = place
        return (Delta(reasoning=f"\n\n{text}" if begins else text),) if text else ()

    def _add_arguments(self, data: Mapping[str, Any]) -> None:
        place = self._place(data)
        if place not in self._items:
            raise malformed("there are arguments of no tool call")
        whole = arguments_as_text(data.get("arguments"))  # in the last of these events
        if whole:
            self._arguments[place] = [whole]
        else:
            self._arguments.setdefault(place, []).append(string_in(data, "delta"))

    def _set_item(self, data: Mapping[str, Any], kind: str) -> Sequence[Delta]:
        item = dict(object_in(data, "item"))
        id = id_in(item, "id") or id_in(item, "call_id")
        index = count_in(data, "output_index")
        place = self._place({**data, "item_id": id})
        if (index, id) not in self._places and self._is_another(place, item, kind):
            place = max((*self._items, *self._texts)) + 1
        self._newest[index] = place
        if id:
            self._places.setdefault((index, id), place)
        if kind != _ITEM_DONE:
            self._items.setdefault(place, item)
            return ()
        self._items[place] = item
        if not item.get("arguments"):
            self._give_arguments(place)
        if place in self._done or item.get("type") not in ("function_call", *OF_SERVICE):
            return ()
        self._done.add(place)
        return [
            Delta(tool_call=part) if isinstance(part, ToolCall) else Delta(opaque=part)
            for part in _read_item(item, place)
        ]

    def _is_another(self, place: int, item: Mapping[str, Any], kind: str) -> bool:
        """Whether an item is another than the one at its position."""
        before = self._items.get(place)
        if before is None:  # there may be texts
            return place in self._texts and item.get("type") != "message"
        names = ("type", "call_id")
        return kind != _ITEM_DONE or any(before.get(name) != item.get(name) for name in names)

    def _give_arguments(self, place: int) -> None:
        if place in self._arguments:
            self._items[place]["arguments"] = "".join(self._arguments[place])

    def _output(self) -> list[dict[str, Any]]:
        """The items, assembled from the chunks."""
        for place in self._items.keys() - self._done:
            self._give_arguments(place)
        for index, texts in self._texts.items():
            item = self._items.setdefault(index, {"type": "message"})
            if not item.get("content"):
                name = "refusal" if self._refused else "text"
                item["content"] = [{"type": name, name: "".join(texts)}]
        return [item for _, item in sorted(self._items.items())]


def _read_item(item: Mapping[str, Any], at: int) -> Iterator[Any]:
    """The parts of an item of the output."""
    kind = string_in(item, "type")
    if kind == "message":
        phase = item.get("phase")
        text = "".join(map(_text_of, _pieces_in(item, "content")))
        refusal = "".join(string_in(each, "refusal") for each in _pieces_in(item, "content"))
        fields = unknown_fields(item, _IN_MESSAGE)
        if phase and isinstance(phase, str):  # a comment or the answer
            fields["phase"] = phase
        if fields and (text or refusal):
            yield VendorPart(NAME, fields)
        if text:
            extra: dict[str, Any] = {}
            begin = 0
            for each in _pieces_in(item, "content"):
                add_fields(extra, begin, unknown_fields(each, _IN_TEXT))
                begin += len(_text_of(each))
            cited = citations_in(extra.get("annotations"))
            yield Text(text, citations=cited, extra=extra_of(NAME, extra))
        if refusal:
            yield Text(refusal, extra=MARKED)
    elif kind == "function_call":
        id = id_in(item, "call_id") or id_in(item, "id") or f"call_{at}"
        unknown = extra_of(NAME, unknown_fields(item, _IN_CALL))
        yield read_tool_call(id, string_in(item, "name"), item.get("arguments"), unknown)
    elif kind == "reasoning":
        thoughts = [*_pieces_in(item, "summary"), *_pieces_in(item, "content")]
        text = "\n\n".join(filter(None, map(_text_of, thoughts)))
        if text:
            yield Reasoning(text)
        if item.get("encrypted_content") or item.get("content"):  # otherwise it is a repetition
            yield VendorPart(NAME, dict(item))
    elif kind:
        yield VendorPart(NAME, dict(item))
    else:
        raise malformed("an item of the output has no type")


def add_fields(joined: dict[str, Any], begin: int, fields: Mapping[str, Any]) -> None:
    """Add the fields of a text to those of joined texts. Later ones replace earlier ones, except
    annotations, whose places are moved by the length of the texts so far, `begin`."""
    before, further = joined.get("annotations"), fields.get("annotations")
    joined.update(fields)
    if isinstance(further, list):
        joined["annotations"] = before if isinstance(before, list) else []
        joined["annotations"] += (moved(each, begin) for each in further)


def _pieces_in(item: Mapping[str, Any], name: str) -> list[Any]:
    """A list of chunks; some servers send a text instead, or texts."""
    value = item.get(name)
    pieces = [value] if isinstance(value, str) else list_in(item, name)
    return [{"text": each} if isinstance(each, str) else each for each in pieces]


def _text_of(content: Any) -> str:
    if not isinstance(content, dict):
        raise malformed("a piece of an item is not an object")
    return string_in(content, "text")


def _failure(data: Mapping[str, Any]) -> GenaiError:
    return error_in(data) or ServiceUnavailable("the service failed without a reason")
