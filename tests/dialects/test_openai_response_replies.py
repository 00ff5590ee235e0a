"""OpenAI's responses: whole replies, and whatever else comes. `..._streams` has the streams."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from garbage import NESTED, WEIRD, json_values, leak
from hypothesis import example, given
from hypothesis import strategies as st
from responses_form import (
    DIALECT,
    LOOK,
    OPAQUE,
    REFUSAL,
    THOUGHT,
    WIRE_LOOK,
    event,
    message,
    of,
    output_text,
    read,
    response,
    sent_again,
    stream,
)

from genai_host.api import (
    Completion,
    ProviderReply,
    Reasoning,
    StreamEvent,
    ToolCall,
    Usage,
    VendorPart,
)
from genai_host.api.codec import usual_codec
from genai_host.errors import (
    BadRequest,
    GenaiError,
    GenerationError,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.purity import ValuePath, places_in, with_other

# whole replies


REPLIES: list[tuple[Any, Completion]] = [
    (response(message(output_text("hi"))), Completion(of("hi"), vendor_finish="completed")),
    (response(message(output_text("a"), output_text("b"))),
     Completion(of("ab"), vendor_finish="completed")),
    (response(), Completion(of(), vendor_finish="completed")),
    (response(message()), Completion(of(), vendor_finish="completed")),
    (response(message(REFUSAL)), Completion(of("no"), "content_filter", vendor_finish="completed")),
    (response(WIRE_LOOK), Completion(of(LOOK), "tool_calls", vendor_finish="completed")),
    (response(THOUGHT, message(output_text("hi"))),
     Completion(of(Reasoning("hm\n\nso"), OPAQUE, "hi"), vendor_finish="completed")),
    (response({"type": "reasoning", "id": "x", "summary": []}, message(output_text("hi"))),
     Completion(of("hi"), vendor_finish="completed")),
    (response({"type": "web_search_call", "id": "x"}, message(output_text("hi"))),
     Completion(of(VendorPart("openai-responses", {"type": "web_search_call", "id": "x"}), "hi"),
                vendor_finish="completed")),
    (response(message(output_text("a"), phase="commentary"), WIRE_LOOK),
     Completion(of(VendorPart("openai-responses", {"phase": "commentary"}), "a", LOOK),
                "tool_calls", vendor_finish="completed")),
    (response(message(output_text("a")), status="incomplete",
              incomplete_details={"reason": "max_output_tokens"}),
     Completion(of("a"), "length", vendor_finish="max_output_tokens")),
    (response(WIRE_LOOK, status="incomplete", incomplete_details={"reason": "content_filter"}),
     Completion(of(LOOK), "content_filter", vendor_finish="content_filter")),
    (response(status="incomplete", incomplete_details={"reason": "steered"}),
     Completion(of(), "other", vendor_finish="steered")),
    (response(status="incomplete"), Completion(of(), "other", vendor_finish="incomplete")),
    ({"output": [message(output_text("hi"))]}, Completion(of("hi"))),
    (response({**message(), "content": "hi"}), Completion(of("hi"), vendor_finish="completed")),
    (response(status="incomplete", incomplete_details=[]),
     Completion(of(), "other", vendor_finish="incomplete")),
    (response(status="incomplete", incomplete_details={"reason": "stop"}),
     Completion(of(), "other", vendor_finish="stop")),
    (response(status="incomplete", incomplete_details={"reason": "max_tokens"}),
     Completion(of(), "length", vendor_finish="max_tokens")),
    (response({**WIRE_LOOK, "arguments": {"at": "é"}}),
     Completion(of(LOOK), "tool_calls", vendor_finish="completed")),
    ({"output": [WIRE_LOOK]}, Completion(of(LOOK), "tool_calls")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "completion"), REPLIES, ids=[json.dumps(reply)[18:90] for reply, _ in REPLIES]
)
def test_a_reply_is_read(reply: Any, completion: Completion) -> None:
    assert read(reply) == completion


def test_reasoning_in_the_open_is_kept_as_well() -> None:
    item = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
    found = read(response(item, WIRE_LOOK)).message
    assert found.content == (Reasoning("hm"), VendorPart("openai-responses", item), LOOK)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ("", ToolCall("1", "f")),
        ('{"a', ToolCall("1", "f", malformed='{"a')),
        ("[1]", ToolCall("1", "f", malformed="[1]")),
    ],
)
def test_arguments_that_are_no_object_are_kept_as_they_came(arguments: str, call: ToolCall) -> None:
    item = {"type": "function_call", "call_id": "1", "name": "f", "arguments": arguments}
    assert read(response(item)).tool_calls == (call,)


@pytest.mark.parametrize(("ids", "id"), [({"id": "fc"}, "fc"), ({}, "call_0")])
def test_a_tool_call_without_an_id_for_its_answer_gets_another(ids: Any, id: str) -> None:
    assert read(response({"type": "function_call", "name": "f", **ids})).tool_calls[0].id == id


def test_usage_is_counted() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    assert read(response(usage=usage)).usage == Usage(10, 5, 4, 2)
    assert read(response(usage=None)).usage == Usage()
    end = event("response.completed", response=response(usage=usage))
    assert stream([end])[1].usage == Usage(10, 5, 4, 2)


@pytest.mark.parametrize(
    "reply", [{}, {"output": None}, response(status="cancelled"), {"status": "completed"}]
)
def test_a_reply_without_an_answer_is_the_models_failure(reply: Any) -> None:
    with pytest.raises(GenerationError):
        read(reply)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "no"}, ServiceUnavailable),
        ({"code": "rate_limit_exceeded", "message": "no"}, RateLimited),
        ({"code": "invalid_prompt", "message": "no"}, BadRequest),
        (None, ServiceUnavailable),
    ],
    ids=str,
)
def test_a_failed_response_raises_what_it_tells_of(error: Any, kind: type[GenaiError]) -> None:
    failed = response(status="failed", error=error)
    del failed["output"]
    with pytest.raises(kind):
        read(failed)
    with pytest.raises(kind):
        stream([event("response.failed", response=failed)])


def test_details_of_usage_in_another_form_lose_no_answer() -> None:
    usage = {"input_tokens": 3, "input_tokens_details": [], "output_tokens_details": 0}
    found = read({**response(message(output_text("hi"))), "usage": usage})
    assert (found.text, found.usage) == ("hi", Usage(3))


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"<html>",
        b"\xff",
        b"[]",
        b"null",
        b'{"output": ' + NESTED + b"}",
        response(status="in_progress"),
        response(status="queued"),
        {"output": {}},
        {"output": ["x"]},
        {"output": [{}]},
        {"output": [{"type": 3}]},
        response(message(output_text("x"), content=[5])),
        response({"type": "reasoning", "summary": [5]}),
        {"status": 3},
    ],
    ids=lambda value: repr(value)[:80],
)
def test_what_is_no_reply_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply, match="the reply is malformed: "):
        read(reply)


# whatever else comes

REPLY = {
    **response(
        {**THOUGHT, "content": [{"type": "reasoning_text", "text": "x"}]},
        message(output_text("hi"), REFUSAL, phase="final_answer"),
        WIRE_LOOK,
        {"type": "other"},
        usage={
            "input_tokens": 1,
            "output_tokens": 2,
            "input_tokens_details": {"cached_tokens": 1},
            "output_tokens_details": {"reasoning_tokens": 1},
        },
        incomplete_details={"reason": "max_output_tokens"},
    )
}
EVENTS: list[dict[str, Any]] = [
    {"type": "response.output_item.added", "output_index": 0, "item": WIRE_LOOK},
    {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{"},
    {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "a"},
    {"type": "response.refusal.delta", "output_index": 2, "delta": "a"},
    {"type": "response.reasoning_text.delta", "output_index": 3, "delta": "a"},
    {"type": "response.output_item.done", "output_index": 4, "item": message(output_text("a"))},
    {"type": "response.completed", "response": {"usage": {}, "output": []}},
]
KEYS = {str(key) for key in re.findall(r'"(\w+)":', json.dumps([REPLY, EVENTS]))}


@pytest.mark.parametrize("place", list(places_in(REPLY)), ids=str)
def test_nothing_in_a_reply_raises_anything_else(place: ValuePath) -> None:
    replies = [with_other(REPLY, place, weird) for weird in WEIRD]
    leaks = [leak(lambda reply=reply: again(read(reply))) for reply in replies]  # type: ignore[misc]
    assert set(leaks) == {""}


@pytest.mark.parametrize("place", list(places_in(EVENTS)), ids=str)
def test_nothing_in_a_stream_raises_anything_else(place: ValuePath) -> None:
    for weird in WEIRD:
        changed = with_other(EVENTS, place, weird)
        events = [StreamEvent(json.dumps(each).encode()) for each in changed or [None]] if (
            isinstance(changed, list)
        ) else [StreamEvent(json.dumps(changed).encode())]  # fmt: skip
        assert not leak(lambda events=events: again(stream(events)[1]))  # type: ignore[misc]


def again(completion: Completion) -> None:
    """Put a completion on record, and send it back."""
    json.dumps(usual_codec().to_json(completion), allow_nan=False)
    sent_again(completion)


@given(data=json_values(KEYS).map(lambda value: json.dumps(value).encode()) | st.binary())
@example(data=b'{"output": ' + NESTED + b"}")
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: read(data))
    assert not leak(lambda: stream([StreamEvent(data), event("response.completed")]))
    assert not leak(lambda: DIALECT.map_error(ProviderReply(data, 400)))
