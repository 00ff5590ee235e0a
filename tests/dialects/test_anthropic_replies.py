"""Anthropic's messages: replies, whole and streamed, and errors."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from anthropic_form import text, thinking, tool_use
from genai_wire_anthropic.dialect.messages import AnthropicMessages
from genai_wire_anthropic.server.replies import MessageWriter
from hypothesis import strategies as st

from genai_host.api import Completion, Delta, ProviderReply, Reasoning, ToolCall, Usage, VendorPart
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenerationError,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
    error_of_status,
)
from genai_host.serving import CompletionStream
from genai_host_testing.internal.chat_replies import ChatReplies, Pieces, answer

NAME = "anthropic-messages"
REDACTED = {"type": "redacted_thinking", "data": "eA=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "é"}}
CITED = {"type": "char_location", "cited_text": "a", "document_index": 0}
FIRST, SECOND = ToolCall("toolu_1", "look", {"at": 1}), ToolCall("toolu_2", "look", {})
USAGE = {
    "input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
    "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 5},
}  # fmt: skip
BY_TIME = {"ephemeral_5m_input_tokens": 8, "ephemeral_1h_input_tokens": 12}
ODD_USAGE = {"output_tokens": 3, "output_tokens_details": [], "cache_creation": 0}


def message(*content: Any, reason: Any = "end_turn", **fields: Any) -> dict[str, Any]:
    """Return a whole reply."""
    return {"type": "message", "role": "assistant", "content": [*content],
            "stop_reason": reason, **fields}  # fmt: skip


def begins(index: int, block: Any) -> Any:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **fields: Any) -> Any:
    delta = {"type": f"{kind}_delta", **fields}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def args(index: int, json: str) -> Any:
    return piece(index, "input_json", partial_json=json)


def ends(index: int) -> Any:
    return {"type": "content_block_stop", "index": index}


def last(reason: Any, usage: Any = None, **more: Any) -> Any:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage, **more}


def failure(kind: str, message: str = "no", **fields: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **fields}}


START = {"type": "message_start", "message": message(reason="")}
STOP = {"type": "message_stop"}
A = [START, begins(0, text("a")), ends(0)]
WHOLE = message(text("a"))
KINDS = [
    ("invalid_request_error", BadRequest, 400),
    ("authentication_error", AuthenticationFailed, 401), ("billing_error", BadRequest, 402),
    ("permission_error", AuthenticationFailed, 403), ("not_found_error", BadRequest, 404),
    ("request_too_large", BadRequest, 413), ("rate_limit_error", RateLimited, 429),
    ("api_error", ServiceUnavailable, 500), ("timeout_error", ServiceUnavailable, 504),
    ("overloaded_error", ServiceUnavailable, 529), ("error_of_tomorrow", ServiceUnavailable, 500),
]  # fmt: skip

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
objects = st.dictionaries(words, words | st.integers() | st.none(), max_size=3)
blocks = st.lists(
    st.builds(text, words)
    | st.builds(thinking, words)
    | st.just(REDACTED)
    | st.builds(tool_use, st.just("toolu_1"), words, objects),
    max_size=5,
)

PARTS: list[tuple[str, list[Any], list[Any]]] = [
    ("nothing", [], []),
    ("no text", [text("")], []),
    ("texts", [text("a"), text("b")], ["a", "b"]),
    ("signed thoughts", [thinking("hm"), text("a")],
     [Reasoning("hm"), VendorPart(NAME, thinking("hm")), "a"]),
    ("hidden thoughts", [thinking("", "c2ln"), text("a")],
     [VendorPart(NAME, thinking("", "c2ln")), "a"]),
    ("thoughts", [thinking("hm", "")], [Reasoning("hm")]),
    ("others", [REDACTED, SEARCH], [VendorPart(NAME, REDACTED), VendorPart(NAME, SEARCH)]),
    ("citations", [text("a", citations=[CITED])],
     [VendorPart(NAME, {"citations": [CITED]}), "a"]),
    ("no citations", [text("a", citations=None)], ["a"]),
]  # fmt: skip


class TestReplies(ChatReplies):
    dialect = AnthropicMessages()
    end = (STOP,)
    finishes = [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("of_tomorrow", "stop"), ("", "stop"),
        ("eos", "stop"), ("max_tokens", "length"), ("model_context_window_exceeded", "length"),
        ("MAX_TOKENS", "length"), ("tool_use", "tool_calls"), ("refusal", "content_filter"),
        ("pause_turn", "other"),
    ]  # fmt: skip
    broken = ("error",)
    replies = {
        name: (message(*wire, reason=""), answer(*parts)) for name, wire, parts in PARTS
    } | {
        name: (wire, answer("a", usage=usage, vendor="end_turn")) for name, wire, usage in [
            ("text as content", {**message(), "content": "a"}, Usage()),
            ("usage", {**WHOLE, "usage": USAGE}, Usage(123, 7, 100, 5, 20)),
            ("usage by time", {**WHOLE, "usage": {**USAGE, "cache_creation": BY_TIME}},
             Usage(123, 7, 100, 5, 20, 12)),
            ("usage with nulls",
             {**WHOLE, "usage": {**dict.fromkeys(USAGE), "input_tokens": 3}}, Usage(3)),
            ("odd usage", {**WHOLE, "usage": []}, Usage()),
            ("odd details", {**WHOLE, "usage": ODD_USAGE}, Usage(output_tokens=3)),
        ]
    } | {
        "calls": (message(text("a"), tool_use("toolu_1", "look", {"at": 1}),
                          tool_use("", "look", {})),
                  answer("a", FIRST, ToolCall("call_2", "look"), finish="tool_calls",
                         vendor="end_turn")),
    }  # fmt: skip
    streams = {
        "all kinds": (
            [{"type": "message_start", "message": message(reason="", usage={"input_tokens": 3})},
             begins(0, thinking("", "")), {"type": "ping"},
             piece(0, "thinking", thinking="h"), piece(0, "thinking", thinking="m"),
             piece(0, "signature", signature="c2ln"), ends(0),
             begins(1, thinking("", "")), piece(1, "thinking", thinking="so"), ends(1),
             begins(2, REDACTED), ends(2),
             begins(3, text("")), piece(3, "text", text="a"), piece(3, "citations", citation=CITED),
             piece(3, "text", text=""), piece(3, "text", text="b"), ends(3),
             begins(4, {**SEARCH, "input": {}}), args(4, '{"q":'), args(4, '"é"}'), ends(4),
             begins(5, tool_use("toolu_1", "look", {})), args(5, ""), args(5, '{"at": 1}'),
             ends(5), begins(6, tool_use("toolu_2", "look", {})), ends(6),
             {"type": "of_tomorrow", "index": 0}, piece(3, "of_tomorrow"),
             last("tool_use", {"output_tokens": 9, "input_tokens": None,
                                   "cache_read_input_tokens": 0}), STOP],
            [Delta(reasoning="h"), Delta(reasoning="m"),
             Delta(opaque=VendorPart(NAME, thinking("hm"))), Delta(reasoning="\n\nso"),
             Delta(opaque=VendorPart(NAME, REDACTED)), Delta("a"),
             Delta(extra={NAME: {"citation": CITED}}), Delta("b"),
             Delta(opaque=VendorPart(NAME, SEARCH)), Delta(tool_call=FIRST),
             Delta(tool_call=SECOND)],
            answer(Reasoning("hm"), VendorPart(NAME, thinking("hm")), Reasoning("so"),
                   VendorPart(NAME, REDACTED), VendorPart(NAME, {"citations": [CITED]}), "ab",
                   VendorPart(NAME, SEARCH), FIRST, SECOND,
                   finish="tool_calls", usage=Usage(3, 9), vendor="tool_use")),
        "the reason as the end": ([*A, last("end_turn")], [Delta("a")],
                                  answer("a", vendor="end_turn")),
        "the mark as the end": ([*A, STOP], [Delta("a")], answer("a")),
        "the mark of another format": ([*A, b"[DONE]"], [Delta("a")], answer("a")),
        "odd usage": ([*A, last("end_turn", []), STOP], [Delta("a")],
                      answer("a", vendor="end_turn")),
        "blocks with one index": (
            [START, begins(0, text("")), piece(0, "text", text="a"), ends(0),
             begins(0, tool_use("toolu_1", "look", {})), args(0, '{"at": 1}'), ends(0),
             begins(0, tool_use("toolu_2", "look", {})), args(0, "{}"), ends(0), STOP],
            [Delta("a"), Delta(tool_call=FIRST), Delta(tool_call=SECOND)],
            answer("a", FIRST, SECOND, finish="tool_calls")),
        "a repeated end": (
            [START, *[begins(0, tool_use("toolu_2", "look", {}))] * 2, args(0, "{}"),
             *[ends(0), last("tool_use")] * 2, STOP],
            [Delta(tool_call=SECOND)], answer(SECOND, finish="tool_calls", vendor="tool_use")),
        "a refusal": ([*A, last("refusal"), STOP], [Delta("a")],
                      answer("a", finish="content_filter", vendor="refusal")),
        "a text without its start": (
            [START, piece(0, "text", text="a"), last("end_turn"), STOP],
            [Delta("a")], answer("a", vendor="end_turn")),
    }  # fmt: skip
    late_failures = [
        *((("error", json.dumps(failure(kind, "it\nis so")).encode()), raised,
           {"status": status, "message": "it is so"}) for kind, raised, status in KINDS),
        (("error", b'{"message": "no"}'), ServiceUnavailable, {"message": "no"}),
        (("error", b'{"type": "error", "message": "no"}'), ServiceUnavailable, {"message": "no"}),
    ]  # fmt: skip
    failures = [
        *((400, failure(kind, message), ContextOverflow, {}) for kind, message in [
            ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            ("invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 8"),
            ("exceed_context_size_error", "the request exceeds the available context size")]),
    ]  # fmt: skip
    unanswered = [{"type": "message"}]
    unanswered_reason = "no content"
    malformed = [[], "hi", message("hi"), message({"text": "a"}), message(text(1)),
                 {**message(), "content": 1}]  # fmt: skip
    malformed_events = [
        b"{", [], {}, begins(0, {}), begins(0, 1), args(7, "{}"),
        {"type": "content_block_delta", "index": 0, "delta": []},
        {"type": "message_start", "message": 1},
        piece(0, "text", text=1),
    ]  # fmt: skip
    reply = message(
        text("a", citations=[CITED]), thinking("hm"), tool_use("toolu_1", "look", {"at": 1}),
        SEARCH, usage={"input_tokens": 1, "output_tokens_details": {"thinking_tokens": 1}},
    )  # fmt: skip
    events = [
        {"type": "message_start", "message": message(usage={"input_tokens": 1})},
        begins(0, thinking("", "")), piece(0, "thinking", thinking="hm"),
        piece(0, "signature", signature="c2ln"), begins(1, tool_use("toolu_1", "look", {})),
        args(1, "{}"), ends(1), begins(2, text("")), piece(2, "citations", citation=CITED),
        piece(2, "text", text="a"), last("end_turn", {"output_tokens": 1}), STOP,
    ]  # fmt: skip
    wholes = st.builds(
        lambda content, reason, tokens: message(
            *content, reason=reason, usage={"output_tokens": tokens}),
        blocks, st.sampled_from(["end_turn", "max_tokens", "tool_use", "odd"]), st.integers(1, 9),
    )  # fmt: skip

    def saying(self, text: str, finish: Any) -> Any:
        return message({"type": "text", "text": text}, reason=finish)

    def calling(self, arguments: Any) -> Any:
        return message(tool_use("1", "f", arguments))

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        events: list[Any] = [START]
        for index, block in enumerate(reply["content"]):
            if block["type"] == "text":
                cut = [("text", {"text": each}) for each in pieces.cut(block["text"])]
                events.append(begins(index, text("")))
            elif block["type"] == "thinking":
                cut = [("thinking", {"thinking": each}) for each in pieces.cut(block["thinking"])]
                cut.append(("signature", {"signature": block["signature"]}))
                events.append(begins(index, thinking("", "")))
            elif block["type"] == "tool_use":
                written = block["input"]
                written = written if isinstance(written, str) else json.dumps(written)
                cut = [("input_json", {"partial_json": each}) for each in pieces.cut(written)]
                events.append(begins(index, {**block, "input": {}}))
            else:
                cut = []
                events.append(begins(index, block))
            events += [piece(index, kind, **fields) for kind, fields in cut]
            events += [{"type": "ping"}, ends(index)]
        return [*events, last(reply["stop_reason"], reply.get("usage")), STOP]

    def returned(self, reply: Any, body: Any) -> None:
        """All of it as it came, but for texts that show nothing."""
        shown = [each for each in reply["content"] if each.get("text", "x").strip()]
        content = body["messages"][1]["content"] if len(body["messages"]) > 2 else []
        assert ([text(content)] if isinstance(content, str) else content) == shown


def test_citations_go_back_with_their_text() -> None:
    tested = TestReplies()
    content = [text("b"), text("a", citations=[CITED]), text("c")]
    assert tested.sent_again(tested.read(message(*content)))["messages"][1]["content"] == content


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS])
def test_an_error_reply_is_told_by_its_status(kind: str) -> None:
    data = json.dumps(failure(kind, "it\nis so")).encode()
    for status in (400, 429, 503):
        error = AnthropicMessages().map_error(ProviderReply(data, status))
        assert error == error_of_status(status, "it is so")


def test_a_whole_message_may_be_one_event() -> None:
    tested = TestReplies()
    event = message(
        thinking("hm"), SEARCH, text("a", citations=[CITED]), text("b"),
        tool_use("toolu_1", "look", {"at": 1}), reason="tool_use", usage=USAGE, container={"id": 1},
    )  # fmt: skip
    deltas, completion = tested.streamed([event])
    assert completion == tested.read(event)
    assert deltas == [
        Delta(reasoning="hm"), Delta(opaque=VendorPart(NAME, thinking("hm"))),
        Delta(opaque=VendorPart(NAME, SEARCH)), Delta(extra={NAME: {"citation": CITED}}),
        Delta("a"), Delta(extra={NAME: {"block": {}}}), Delta("b"), Delta(tool_call=FIRST),
    ]  # fmt: skip
    plain = {**WHOLE, "content": "a"}
    assert tested.streamed([plain]) == ([Delta("a")], tested.read(plain))
    again = [*A, begins(1, tool_use("toolu_1", "look", {})), event]
    assert tested.streamed(again)[1] == completion  # it replaces what came before
    with pytest.raises(GenerationError, match="the model gave no answer"):
        tested.streamed([message() | {"content": None}])


@pytest.mark.parametrize("value", [5, "x", [1], {"a": 1}])
def test_fields_of_a_reply_are_not_taken_for_those_of_the_host(value: Any) -> None:
    names = ("block", "citation", "delta", "event", "message_stop")
    reply = {**WHOLE, **dict.fromkeys(names, value)}
    for completion in (TestReplies().read(reply), TestReplies().streamed([reply, STOP])[1]):
        chunks = [Delta("a", extra=completion.extra)]
        plain = TestReplies().read(WHOLE)
        assert written(completion, chunks) == written(plain, [Delta("a")])


def test_what_a_tool_of_the_service_was_given_has_to_be_json() -> None:
    with pytest.raises(MalformedReply):
        TestReplies().streamed([START, begins(0, SEARCH), args(0, "{"), ends(0), STOP])


def written(completion: Completion, chunks: Sequence[Delta]) -> list[dict[str, Any]]:
    """The events that a client receives after the first one, which has an id."""

    def answer() -> Generator[Delta, None, Completion]:
        yield from chunks
        return completion

    events = MessageWriter("m", shows_thoughts=False).events(CompletionStream(answer()))
    return [json.loads(each.partition(b"data: ")[2]) for each in events][1:]


def test_unknown_fields_of_the_last_event_stay_where_they_are() -> None:
    """Beside the delta, such as `context_management`, and in it."""
    delta = {"stop_reason": "end_turn", "container": {"id": "c"}, "new": 1}
    ending = last("", {}, context_management={"applied_edits": []}, delta=delta)
    completion = TestReplies().streamed([*A, ending, STOP])[1]

    end = written(completion, [Delta("a")])[-2]
    assert end["context_management"] == {"applied_edits": []}
    assert end["delta"] == {**delta, "stop_sequence": None, "stop_details": None}
    body = MessageWriter("m", shows_thoughts=False).whole(completion)
    assert (body["context_management"], body["container"], body["new"]) == (
        {"applied_edits": []}, {"id": "c"}, 1,
    )  # fmt: skip
