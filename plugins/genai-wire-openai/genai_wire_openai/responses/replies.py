"""The response object, and its stream of events.

    Events.write → _piece → _begin, _add, _close (an item at a time) → _end

An item is done when the next one begins. If reasoning is shown sealed, items are done in order at
the end, since the sealed data is known only then: clients store items as they are done.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from genai_host.api import (
    Completion,
    Delta,
    FinishReason,
    HttpProblem,
    ToolCall,
    merged_extra,
    sse_event,
)
from genai_host.errors import GenaiError
from genai_host.serving import CompletionStream
from genai_wire_openai.dialect.common import FORMAT
from genai_wire_openai.dialect.response_replies import NAME
from genai_wire_openai.responses.messages import (
    REFUSAL,
    call_item,
    is_of_service,
    joined,
    kind_of,
    message_item,
    reasoning_item,
    service_item,
    summary_part,
    text_field,
    text_part,
)
from genai_wire_openai.responses.request import OF_FORMAT, ResponsesRequest
from genai_wire_openai.responses.tools import Item
from genai_wire_openai.shared import for_responses, is_refusal, responses_usage, with_own_finish

_STATUS: Mapping[FinishReason, tuple[str, Any]] = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "length": ("incomplete", {"reason": "max_output_tokens"}),
    "content_filter": ("incomplete", {"reason": "content_filter"}),
    "other": ("incomplete", {}),  # the API has no reason for it
}
_ERRORS = {"rate_limited": "rate_limit_exceeded", "budget_exceeded": "rate_limit_exceeded"}
_HEX = 24  # bytes


class ResponseHead:
    """The response to a request. The ids of its items end in the same characters as its `id` and a
    number, so that an item can be found by its id alone."""

    def __init__(self, request: ResponsesRequest, created: int) -> None:
        self.request = request
        self.created = created
        self._tail = secrets.token_hex(_HEX)
        self._count = 0
        self.id = f"resp_{self._tail}"

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{self.new_tail()}"

    def new_tail(self) -> str:
        """Return the end of a new item id."""
        self._count += 1
        return item_tail(self._tail, self._count)

    def joined(
        self, completion: Completion, streamed: Sequence[Item]
    ) -> tuple[list[Item], list[Item]]:
        """Return the items of an answer in order, and those not yet streamed."""
        tools = self.request.tools.client_tools
        return joined(completion.message, streamed, self.new_id, tools)

    def call(self, call: ToolCall) -> Item:
        """Return the item of a call."""
        return call_item(call, self.new_id, self.request.tools.client_tools)

    def unfinished(
        self, status: str = "in_progress", output: Sequence[Item] = ()
    ) -> dict[str, Any]:
        """Return the response object while it is incomplete."""
        dropped = self.request.dropped.all()
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self.request.model or "default",
            "output": [*output],
            "store": self.request.store is not False,
            "top_logprobs": 0,
            "usage": None,
            **self.request.repeated,
            **{name: usual for name, usual in OF_FORMAT.items() if name in dropped},
        }

    def finished(self, completion: Completion, output: Sequence[Item], now: int) -> dict[str, Any]:
        """Return the response object of a completion. The last item is incomplete if the answer
        is."""
        status, why = _STATUS[with_own_finish(completion).finish]
        if status == "incomplete" and output and "status" in output[-1]:
            output[-1]["status"] = status
        further = completion.extra.get(NAME, {})
        if completion.route is not None and completion.route.dialect != NAME:
            further = {"service_tier": OF_FORMAT["service_tier"], **further}
        return {
            **self.unfinished(status, output),
            "completed_at": now if status == "completed" else None,
            "incomplete_details": why,
            **self._model(completion),
            **further,
            "usage": merged_extra(responses_usage(completion.usage), further.get("usage", {})),
        }

    def compacted(self, summary: Completion, output: Sequence[Item]) -> dict[str, Any]:
        """Return the object of a compaction."""
        return {
            "id": self.id,
            "object": "response.compaction",
            "created_at": self.created,
            "output": [*output],
            "usage": responses_usage(summary.usage),
        }

    def failed(self, problem: HttpProblem, output: Sequence[Item]) -> dict[str, Any]:
        """Return the response object of an interrupted answer."""
        return {**self.unfinished("failed", output), "error": error_of(problem)}

    def _model(self, completion: Completion) -> dict[str, str]:
        """The model that was used, if the client named none."""
        route = completion.route
        if self.request.model is not None or route is None:
            return {}
        return {"model": f"{route.model}@{route.provider}"}


def error_of(problem: HttpProblem) -> dict[str, str]:
    """Return the field `error` of a failed response."""
    known = "server_error" if problem.status >= 500 else "invalid_prompt"
    own = problem.extra.get(FORMAT, {}).get("code")
    return {"code": own or _ERRORS.get(problem.code, known), "message": problem.message}


def item_tail(tail: str, number: int) -> str:
    """Return the end of the id of an item: the end of the id of its response or conversation, and a
    number."""
    return f"{tail}{number:04x}"


def belongs_to(id: str) -> str:
    """Return the end of the id of an item's response or conversation; empty if unknown."""
    tail = id.rpartition("_")[2][: 2 * _HEX]
    return tail if len(tail) == 2 * _HEX else ""


_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "image_generation_call": {"result": None},
}
"""Initial content of an item."""
_CALLS = {
    "function_call": ("response.function_call_arguments", "arguments", ("name",)),
    "custom_tool_call": ("response.custom_tool_call_input", "input", ()),
}
"""Events of the content of a call, its field, and further fields of its last event."""

_log = logging.getLogger(__name__)


@define(eq=False, repr=False)
class Events:
    """Events of one response. `show` converts an item for the client, and `finish` returns the
    response object of a completion and its items, and stores it. If `hold`, items are completed
    only at the end."""

    _reply: ResponseHead
    _show: Callable[[Item], Item]
    _finish: Callable[[Completion, list[Item]], dict[str, Any]]
    _hold: bool = field(kw_only=True)
    _number: int = field(init=False, default=0)
    _items: list[Item] = field(init=False, factory=list)
    _indexes: dict[str, int] = field(init=False, factory=dict)
    _texts: list[str] = field(init=False, factory=list)  # of the open item
    _begin_of_text: int = field(init=False, default=0)  # in all texts
    _size_of_text: int = field(init=False, default=0)
    _open: Item | None = field(init=False, default=None)
    _done: set[str] = field(init=False, factory=set)

    def write(self, answering: CompletionStream) -> Iterator[bytes]:
        yield self._event("response.created", response=self._reply.unfinished())
        yield self._event("response.in_progress", response=self._reply.unfinished())
        try:
            for piece in answering:
                yield from self._piece(piece)
            yield from self._end(answering.completion)
        except GenaiError as error:
            yield self._failed(HttpProblem.of(error))
        except Exception:  # noqa: BLE001 - the client must not wait forever
            _log.exception("a response failed")
            yield self._failed(
                HttpProblem(500, "internal", "internal error; see the log of the server")
            )

    def _piece(self, piece: Delta) -> Iterator[bytes]:
        if piece.reasoning:
            yield from self._add("reasoning", piece.reasoning)
        if piece.text:
            yield from self._add(REFUSAL if is_refusal(piece) else "message", piece.text)
        own = piece.extra.get(NAME, {}) if piece.extra is not None else {}
        begin = self._begin_of_text
        cited = (for_responses(c.moved(-begin)) for c in piece.citations if c.start >= begin)
        for annotation in [own["annotation"]] if "annotation" in own else cited:
            yield from self._annotate(annotation)
        if piece.tool_call is not None:
            yield from self._close()
            yield from self._whole(self._reply.call(piece.tool_call))
        if is_of_service(piece.opaque):
            yield from self._close()
            yield from self._whole(service_item(piece.opaque.data, self._reply.new_id))

    def _add(self, kind: str, text: str) -> Iterator[bytes]:
        if self._open is None or kind_of(self._open) != kind:
            yield from self._close()
            new_id = self._reply.new_id
            is_thought = kind == "reasoning"
            begun = reasoning_item([""], new_id) if is_thought else message_item(kind, "", new_id)
            yield from self._begin(begun)
            self._open, self._texts = begun, []
            self._begin_of_text = self._size_of_text
        self._texts.append(text)
        self._size_of_text += len(text) * (kind != "reasoning")
        yield self._text_event("delta", self._items[-1], delta=text)

    def _annotate(self, annotation: Any) -> Iterator[bytes]:
        if self._open is None or kind_of(self._open) != "message":
            return
        annotations = self._open["content"][0]["annotations"]
        annotations.append(annotation)
        place = {"content_index": 0, "annotation_index": len(annotations) - 1}
        name = "response.output_text.annotation.added"
        yield self._event(name, **self._of(self._open), **place, annotation=annotation)

    def _begin(self, item: Item) -> Iterator[bytes]:
        """Events before the content of an item."""
        self._indexes[item["id"]] = len(self._items)
        self._items.append(item)
        begun = {**self._show(item), **_EMPTY.get(item["type"], {})}
        begun.pop("encrypted_content", None)
        if "status" in begun:
            begun["status"] = "in_progress"
        yield self._event("response.output_item.added", item=begun, **self._index(item))
        for at in range(len(_parts_of(item))):
            yield self._part_event("added", item, at, "")

    def _close(self) -> Iterator[bytes]:
        """Complete the open item, if any."""
        item, self._open = self._open, None
        if item is None:
            return
        self._fill(item)
        yield from self._ended(item)

    def _fill(self, item: Item) -> None:
        """Set the text of a streamed item."""
        [part] = _parts_of(item)
        part[text_field(part)] = "".join(self._texts)

    def _ended(self, item: Item) -> Iterator[bytes]:
        """Events after the content of an item."""
        if item["type"] in _CALLS:
            name, content, more = _CALLS[item["type"]]
            fields = {each: item[each] for each in (content, *more)}
            yield self._event(f"{name}.done", **self._of(item), **fields)
        for at, part in enumerate(_parts_of(item)):
            name = text_field(part)
            yield self._text_event("done", item, at, **{name: part[name]})
            yield self._part_event("done", item, at, part[name])
        if not self._hold:
            yield self._item_done(item)

    def _whole(self, item: Item) -> Iterator[bytes]:
        """Events of an item that is not streamed."""
        yield from self._begin(item)
        if item["type"] in _CALLS:
            name, content, _ = _CALLS[item["type"]]
            yield self._event(f"{name}.delta", **self._of(item), delta=item[content])
        for at, part in enumerate(_parts_of(item)):
            if text := part[text_field(part)]:
                yield self._text_event("delta", item, at, delta=text)
        yield from self._ended(item)

    def _item_done(self, item: Item) -> bytes:
        self._done.add(item["id"])
        name = "response.output_item.done"
        return self._event(name, item=self._show(item), **self._index(item))

    def _end(self, completion: Completion) -> Iterator[bytes]:
        output, late = self._reply.joined(completion, self._items)
        if self._open is not None:
            self._fill(self._open)
        response = self._finish(completion, output)
        yield from self._close()
        for item in late:
            yield from self._whole(item)
        for item in output:
            if item["id"] not in self._done:
                yield self._item_done(item)
        yield self._event(f"response.{response['status']}", response=response)

    def _failed(self, problem: HttpProblem) -> bytes:
        """The event of a failed response, with the text so far."""
        if self._open is not None:
            self._fill(self._open)
            if "status" in self._open:
                self._open["status"] = "incomplete"
        output = [self._show(item) for item in self._items]
        return self._event("response.failed", response=self._reply.failed(problem, output))

    def _index(self, item: Item) -> dict[str, int]:
        return {"output_index": self._indexes[item["id"]]}

    def _of(self, item: Item) -> dict[str, Any]:
        return {"item_id": item["id"], **self._index(item)}

    def _text_event(self, what: str, item: Item, at: int = 0, **fields: str) -> bytes:
        more: dict[str, Any]
        if kind_of(item) == REFUSAL:
            name, more = f"response.refusal.{what}", {"content_index": at}
        elif item["type"] == "message":
            name, more = f"response.output_text.{what}", {"content_index": at, "logprobs": []}
        else:
            name, more = f"response.reasoning_summary_text.{what}", {"summary_index": at}
        return self._event(name, **self._of(item), **more, **fields)

    def _part_event(self, what: str, item: Item, at: int, text: str) -> bytes:
        if item["type"] == "message":
            name = f"response.content_part.{what}"
            part = text_part(kind_of(item), text)
            if "annotations" in part:
                part["annotations"] = item["content"][at]["annotations"]
            return self._event(name, **self._of(item), content_index=at, part=part)
        name = f"response.reasoning_summary_part.{what}"
        return self._event(name, **self._of(item), summary_index=at, part=summary_part(text))

    def _event(self, kind: str, **fields: Any) -> bytes:
        number = self._number
        self._number += 1
        return sse_event(kind, {"type": kind, "sequence_number": number, **fields})


def _parts_of(item: Item) -> list[Item]:
    """The parts of an item; empty for a call."""
    parts: list[Item] = item.get("content") or item.get("summary") or []
    return parts
