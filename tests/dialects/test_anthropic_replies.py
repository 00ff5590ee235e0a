"""Anthropic's messages: replies, whole and streamed, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any

import pytest
from anthropic_form import (
    CALL,
    DIALECT,
    START,
    STOP,
    begins,
    ends,
    event,
    finishes,
    message,
    piece,
    read,
    sent_again,
    stream,
    text,
    thinking,
    tool_use,
)
from garbage import NESTED, WEIRD, cut, cuts, json_values, leak
from genai_wire_anthropic.server.replies import MessageWriter
from hypothesis import example, given
from hypothesis import strategies as st

from genai_host.api import (
    Completion,
    Delta,
    FinishReason,
    Message,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from genai_host.api.codec import usual_codec
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    GenerationError,
    IncompleteReply,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
    error_of_status,
)
from genai_host.serving import CompletionStream
from genai_host_testing.purity import ValuePath, places_in, with_other

NAME = "anthropic-messages"
REDACTED = {"type": "redacted_thinking", "data": "eA=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "é"}}
CITED = {"type": "char_location", "cited_text": "a", "document_index": 0}


# whole replies


@pytest.mark.parametrize(
    ("blocks", "parts"),
    [
        ([], []),
        ([text("")], []),
        ([text("a"), text("b")], [Text("a"), Text("b")]),
        ([thinking("hm"), text("a")],
         [Reasoning("hm"), VendorPart(NAME, thinking("hm")), Text("a")]),
        ([thinking("", "c2ln"), text("a")], [VendorPart(NAME, thinking("", "c2ln")), Text("a")]),
        ([thinking("hm", "")], [Reasoning("hm")]),
        ([REDACTED, SEARCH], [VendorPart(NAME, REDACTED), VendorPart(NAME, SEARCH)]),
        ([text("a", citations=[CITED])], [VendorPart(NAME, {"citations": [CITED]}), Text("a")]),
        ([text("a", citations=None)], [Text("a")]),
        ([tool_use("toolu_1", "look", {"at": "é"})], [ToolCall("toolu_1", "look", {"at": "é"})]),
        ([text("a"), tool_use("", "look", {})], [Text("a"), ToolCall("call_1", "look", {})]),
        ([tool_use("1", "look", "{")], [ToolCall("1", "look", malformed="{")]),
    ],
)  # fmt: skip
def test_a_reply_is_read(blocks: list[Any], parts: list[Any]) -> None:
    assert read(message(*blocks)).message == Message("assistant", parts)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
        ("of_tomorrow", "stop"),
        ("", "stop"),
        ("eos", "stop"),
        ("MAX_TOKENS", "length"),
    ],
)
def test_why_it_stopped_is_told(reason: str, finish: FinishReason) -> None:
    found = read(message(text("a"), reason=reason))
    assert (found.finish, found.vendor_finish) == (finish, reason)


def test_a_call_is_a_reason_to_stop() -> None:
    assert read(message(tool_use("1", "look", {}))).finish == "tool_calls"


def test_usage_is_counted() -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 5},
        "service_tier": "standard",
    }
    assert read(message(text("a"), usage=usage)).usage == Usage(123, 7, 100, 5, 20)
    by_time = {"ephemeral_5m_input_tokens": 8, "ephemeral_1h_input_tokens": 12}
    timed = {**usage, "cache_creation": by_time}
    assert read(message(text("a"), usage=timed)).usage == Usage(123, 7, 100, 5, 20, 12)
    nulls = {**dict.fromkeys(usage, None), "input_tokens": 3}
    assert read(message(text("a"), usage=nulls)).usage == Usage(3)


def test_a_reply_without_an_answer_is_the_models_failure() -> None:
    with pytest.raises(GenerationError):
        read({"type": "message"})


@pytest.mark.parametrize(
    "reply",
    [
        [],
        "hi",
        message("hi"),
        message({"text": "a"}),
        message(text(1)),  # type: ignore[arg-type]  # which is what is wrong
        {**message(), "content": 1},
    ],
    ids=str,
)
def test_what_is_no_reply_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply):
        read(reply)


# errors


def failure(kind: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("kind", "raised", "status"),
    [
        ("invalid_request_error", BadRequest, 400),
        ("authentication_error", AuthenticationFailed, 401),
        ("billing_error", BadRequest, 402),
        ("permission_error", AuthenticationFailed, 403),
        ("not_found_error", BadRequest, 404),
        ("request_too_large", BadRequest, 413),
        ("rate_limit_error", RateLimited, 429),
        ("api_error", ServiceUnavailable, 500),
        ("timeout_error", ServiceUnavailable, 504),
        ("overloaded_error", ServiceUnavailable, 529),
        ("error_of_tomorrow", ServiceUnavailable, 500),
    ],
)
def test_an_error_is_told_by_its_type_amid_a_stream_and_by_its_status_else(
    kind: str, raised: type[GenaiError], status: int
) -> None:
    data = json.dumps(failure(kind, "it\nis so")).encode()
    with pytest.raises(raised, match="it is so") as caught:
        stream([START, StreamEvent(data, "error")])
    assert (type(caught.value), caught.value.status) == (raised, status)
    for other in (400, 429, 503):
        found = DIALECT.map_error(ProviderReply(data, other))
        assert found == error_of_status(other, "it is so")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        ("invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 8"),
        ("exceed_context_size_error", "the request exceeds the available context size"),
    ],
)
def test_an_overflow_is_told(kind: str, said: str) -> None:
    found = DIALECT.map_error(ProviderReply(json.dumps(failure(kind, said)).encode(), 400))
    assert type(found) is ContextOverflow


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"error": null}'])
def test_what_tells_of_no_error_is_left_to_the_status(body: bytes) -> None:
    assert DIALECT.map_error(ProviderReply(body, 500)) is None


# streams


def test_a_stream_gives_its_pieces_and_then_the_whole() -> None:
    pieces, found = stream(
        [
            event("message_start", message=message(reason="", usage={"input_tokens": 3})),
            begins(0, thinking("", "")),
            event("ping"),
            piece(0, "thinking", thinking="h"),
            piece(0, "thinking", thinking="m"),
            piece(0, "signature", signature="c2ln"),
            ends(0),
            begins(1, thinking("", "")),
            piece(1, "thinking", thinking="so"),
            ends(1),
            begins(2, REDACTED),
            ends(2),
            begins(3, text("")),
            piece(3, "text", text="a"),
            piece(3, "citations", citation=CITED),
            piece(3, "text", text=""),
            piece(3, "text", text="b"),
            ends(3),
            begins(4, {**SEARCH, "input": {}}),
            piece(4, "input_json", partial_json='{"q":'),
            piece(4, "input_json", partial_json='"é"}'),
            ends(4),
            begins(5, tool_use("toolu_1", "look", {})),
            piece(5, "input_json", partial_json=""),
            piece(5, "input_json", partial_json='{"at": 1}'),
            ends(5),
            begins(6, tool_use("toolu_2", "look", {})),
            ends(6),
            event("of_tomorrow", index=0),
            piece(3, "of_tomorrow"),
            finishes("tool_use", output_tokens=9, input_tokens=None, cache_read_input_tokens=0),
            STOP,
        ]
    )
    first, second = ToolCall("toolu_1", "look", {"at": 1}), ToolCall("toolu_2", "look", {})
    whole = [piece.opaque.data["type"] for piece in pieces if piece.opaque is not None]
    assert whole == ["thinking", "redacted_thinking", "server_tool_use"]
    assert [piece for piece in pieces if piece.opaque is None] == [
        Delta(reasoning="h"),
        Delta(reasoning="m"),
        Delta(reasoning="\n\nso"),
        Delta("a"),
        Delta("b"),
        Delta(tool_call=first),
        Delta(tool_call=second),
    ]
    assert found == Completion(
        Message(
            "assistant",
            [
                Reasoning("hm"),
                VendorPart(NAME, thinking("hm")),
                Reasoning("so"),
                VendorPart(NAME, REDACTED),
                VendorPart(NAME, {"citations": [CITED]}),
                Text("ab"),
                VendorPart(NAME, SEARCH),
                first,
                second,
            ],
        ),
        "tool_calls",
        Usage(3, 9),
        vendor_finish="tool_use",
    )


def test_a_text_alone_may_be_the_content() -> None:
    assert read({**message(), "content": "hi"}).text == "hi"


def test_usage_in_another_form_loses_no_answer() -> None:
    assert read({**message(text("a")), "usage": []}).text == "a"
    odd = {"output_tokens": 3, "output_tokens_details": [], "cache_creation": 0}
    assert read({**message(text("a")), "usage": odd}).usage == Usage(output_tokens=3)
    events = [START, begins(0, text("a")), ends(0)]
    end = event("message_delta", delta={"stop_reason": "end_turn"}, usage=[])
    assert stream([*events, end, STOP])[1].text == "a"


def test_unknown_fields_of_the_last_event_stay_where_they_are() -> None:
    """Beside the delta, such as `context_management`, and in it."""
    delta = {"stop_reason": "end_turn", "container": {"id": "c"}, "new": 1}
    last = event("message_delta", delta=delta, context_management={"applied_edits": []}, usage={})
    completion = stream([START, begins(0, text("a")), ends(0), last, STOP])[1]

    def answer() -> Generator[Delta, None, Completion]:
        yield Delta(text="a")
        return completion

    written = MessageWriter("m", shows_thoughts=False).events(CompletionStream(answer()))
    last_event = next(each for each in written if b"message_delta" in each)
    end = json.loads(last_event.partition(b"data: ")[2])
    assert end["context_management"] == {"applied_edits": []}
    assert end["delta"] == {**delta, "stop_sequence": None, "stop_details": None}
    whole = MessageWriter("m", shows_thoughts=False).whole(completion)
    assert (whole["context_management"], whole["container"], whole["new"]) == (
        {"applied_edits": []}, {"id": "c"}, 1,
    )  # fmt: skip


@pytest.mark.parametrize("last", [finishes("end_turn"), STOP, StreamEvent(b"[DONE]")])
def test_a_stream_may_end_with_any_of_its_marks(last: StreamEvent) -> None:
    found = stream([START, begins(0, text("a")), ends(0), last])[1]
    assert (found.text, found.finish) == ("a", "stop")


def test_blocks_that_share_an_index_are_told_apart_by_their_begin() -> None:
    events = [START, begins(0, text("")), piece(0, "text", text="a"), ends(0)]
    for id in ("1", "2"):
        given = piece(0, "input_json", partial_json=json.dumps({"at": id}))
        events += [begins(0, tool_use(id, "look", {})), given, ends(0)]
    pieces, found = stream([*events, finishes("tool_use"), STOP])
    calls = [ToolCall(id, "look", {"at": id}) for id in ("1", "2")]
    assert pieces == [Delta("a"), *(Delta(tool_call=call) for call in calls)]
    assert found.message == Message("assistant", ["a", *calls])


def test_an_end_that_is_repeated_gives_a_call_once() -> None:
    begin = begins(0, tool_use("1", "look", {}))
    given = piece(0, "input_json", partial_json="{}")
    end = [ends(0), finishes("tool_use")]
    pieces, found = stream([START, begin, begin, given, *end, *end, STOP])
    assert pieces == [Delta(tool_call=ToolCall("1", "look"))]
    assert found.tool_calls == (ToolCall("1", "look"),)


@pytest.mark.parametrize("data", [b'{"message": "no"}', b'{"type": "error", "message": "no"}'])
def test_an_event_named_error_is_one(data: bytes) -> None:
    with pytest.raises(ServiceUnavailable, match="no"):
        stream([START, StreamEvent(data, "error"), STOP])


def test_a_reply_that_the_service_broke_off_is_no_answer() -> None:
    with pytest.raises(IncompleteReply, match="error"):
        read({**message(text("a")), "stop_reason": "error"})
    with pytest.raises(IncompleteReply, match="error"):
        stream([START, begins(0, text("a")), finishes("error"), STOP])


def test_a_refusal_amid_a_stream_is_told() -> None:
    events = [START, begins(0, text("a")), finishes("refusal"), STOP]
    pieces, found = stream(events)
    assert pieces == [Delta("a")]
    assert (found.finish, found.text) == ("content_filter", "a")


@pytest.mark.parametrize(
    "wrong",
    [
        StreamEvent(b"{"),
        StreamEvent(b"[]"),
        StreamEvent(b"{}"),
        begins(0, {}),
        begins(0, 1),
        piece(7, "input_json", partial_json="{}"),
        piece(0, "text", text=1),
        event("content_block_delta", index=0, delta=[]),
        event("message_start", message=1),
    ],
    ids=lambda each: each.data.decode(),
)
def test_what_is_no_event_is_malformed(wrong: StreamEvent) -> None:
    with pytest.raises(MalformedReply):
        stream([START, begins(0, text("")), wrong])


def test_a_text_may_have_no_start() -> None:
    pieces, found = stream([START, piece(0, "text", text="a"), finishes("end_turn"), STOP])
    assert (found.text, [each.text for each in pieces]) == ("a", ["a"])


def test_a_whole_message_may_be_one_event() -> None:
    whole = message({"type": "text", "text": "a"})
    assert stream([event("message", **{**whole, "type": "message"})])[1] == read(whole)


def test_what_a_tool_of_the_service_was_given_has_to_be_json() -> None:
    events = [START, begins(0, SEARCH), piece(0, "input_json", partial_json="{"), ends(0), STOP]
    with pytest.raises(MalformedReply):
        stream(events)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
objects = st.dictionaries(words, words | st.integers() | st.none(), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict[str, Any], list[StreamEvent]]:
    """An answer in one piece, and the events of the same in many."""
    blocks: list[dict[str, Any]] = []
    events: list[StreamEvent] = [START]
    kinds = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use"])
    for index, kind in enumerate(draw(st.lists(kinds, max_size=5))):
        if kind == "text":
            block = text(draw(words))
            begun = text("")
            grown = [("text", "text", block["text"])]
        elif kind == "thinking":
            block = thinking(draw(words))
            begun = thinking("", "")
            grown = [("thinking", "thinking", block["thinking"])]
        elif kind == "tool_use":
            block = tool_use(f"toolu_{index}", draw(words), draw(objects))
            begun = {**block, "input": {}}
            grown = [("input_json", "partial_json", json.dumps(block["input"]))]
        else:
            block = begun = REDACTED
            grown = []
        blocks.append(block)
        events.append(begins(index, begun))
        for name, place, whole in grown:
            events += [piece(index, name, **{place: each}) for each in cut(whole, draw(cuts))]
        if kind == "thinking":
            events.append(piece(index, "signature", signature=block["signature"]))
        events += draw(st.sampled_from([[], [event("ping")]]))
        events.append(ends(index))
    reason = draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "odd"]))
    usage = {"output_tokens": draw(st.integers(1, 9))}
    return message(*blocks, reason=reason, usage=usage), [*events, finishes(reason, **usage)]


@given(answer=answers())
def test_an_answer_is_the_same_in_one_piece_and_in_many(
    answer: tuple[dict[str, Any], list[StreamEvent]],
) -> None:
    whole, events = answer
    pieces, found = stream([*events, STOP])
    assert found == read(whole)
    assert "".join(each.text for each in pieces) == found.text
    thoughts = [part.text for part in found.message.content if isinstance(part, Reasoning)]
    assert "".join(each.reasoning for each in pieces) == "\n\n".join(thoughts)
    assert tuple(each.tool_call for each in pieces if each.tool_call) == found.tool_calls


@given(answer=answers())
def test_what_a_model_says_can_be_sent_again(
    answer: tuple[dict[str, Any], list[StreamEvent]],
) -> None:
    """All of it as it came, but for texts that show nothing."""
    completion = read(answer[0])
    blocks = [
        each for each in answer[0]["content"] if each["type"] != "text" or each["text"].strip()
    ]
    again = sent_again(completion)
    found = [text(again)] if isinstance(again, str) else again or []
    assert found == blocks
    usual_codec().from_json(json.loads(json.dumps(usual_codec().to_json(completion))), Completion)


def test_citations_go_back_with_their_text() -> None:
    cited = text("a", citations=[CITED])
    assert sent_again(read(message(text("b"), cited, text("c")))) == [text("b"), cited, text("c")]


# whatever else comes

REPLY = message(
    text("a", citations=[CITED]),
    thinking("hm"),
    tool_use("toolu_1", "look", {"at": 1}),
    SEARCH,
    usage={"input_tokens": 1, "output_tokens_details": {"thinking_tokens": 1}},
)
EVENTS: list[Any] = [
    json.loads(each.data)
    for each in (
        event("message_start", message=message(usage={"input_tokens": 1})),
        begins(0, thinking("", "")),
        piece(0, "thinking", thinking="hm"),
        piece(0, "signature", signature="c2ln"),
        begins(1, tool_use("toolu_1", "look", {})),
        piece(1, "input_json", partial_json="{}"),
        ends(1),
        begins(2, text("")),
        piece(2, "citations", citation=CITED),
        piece(2, "text", text="a"),
        finishes("end_turn", output_tokens=1),
        STOP,
    )
]
PLACES = [(at, place) for at, each in enumerate(EVENTS) for place in places_in(each)]
KEYS = sorted({str(key) for key in re.findall(r'"(\w+)":', json.dumps([REPLY, EVENTS]))})


@pytest.mark.parametrize("place", list(places_in(REPLY)), ids=str)
def test_nothing_in_a_reply_raises_anything_else(place: ValuePath) -> None:
    replies = [with_other(REPLY, place, weird) for weird in WEIRD]
    leaks = [leak(lambda reply=reply: again(read(reply))) for reply in replies]  # type: ignore[misc]
    assert set(leaks) == {""}


@pytest.mark.parametrize(("at", "place"), PLACES, ids=str)
def test_nothing_in_a_stream_raises_anything_else(at: int, place: ValuePath) -> None:
    events = [StreamEvent(json.dumps(each).encode()) for each in EVENTS]
    for weird in WEIRD:
        other = StreamEvent(json.dumps(with_other(EVENTS[at], place, weird)).encode())
        changed = [*events[:at], other, *events[at + 1 :]]
        assert not leak(lambda changed=changed: again(stream(changed)[1]))  # type: ignore[misc]


def again(completion: Completion) -> None:
    """Put a completion on record, and send it back."""
    json.dumps(usual_codec().to_json(completion), allow_nan=False)
    sent_again(completion)


@given(data=json_values(KEYS).map(lambda value: json.dumps(value).encode()) | st.binary())
@example(data=b'{"content": ' + NESTED + b"}")
@example(data=b'{"error": {"type": ["x"]}}')
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: DIALECT.extract_result(CALL, ProviderReply(data)))
    assert not leak(lambda: stream([StreamEvent(data), STOP]))
    assert not leak(lambda: DIALECT.map_error(ProviderReply(data, 400)))
