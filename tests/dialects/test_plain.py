"""The host's own form as a wire format: requests, whole replies, streams, embeddings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from garbage import NESTED, WEIRD, json_values, leak
from hypothesis import example, given
from hypothesis import strategies as st

from genai_host.api import (
    STANDARD,
    ChatCall,
    Completion,
    Delta,
    EmbedCall,
    Embeddings,
    File,
    Image,
    Message,
    Part,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
    VendorPart,
)
from genai_host.api.codec import usual_codec
from genai_host.api.dialects import CAPABILITIES
from genai_host.api.messages import ROLES
from genai_host.dialects.plain import Plain, PlainEmbed
from genai_host.errors import IncompleteReply, MalformedReply
from genai_host_testing.purity import ValuePath, places_in, with_other

DIALECT, EMBED = Plain(), PlainEmbed()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])
EMBED_CALL = EmbedCall(model_id="m", texts=["a", "b"])


def dump(data: Any) -> bytes:
    return data if isinstance(data, bytes) else json.dumps(data).encode()


def read(reply: Any) -> Completion:
    return DIALECT.extract_result(CALL, ProviderReply(dump(reply)))


def read_vectors(reply: Any) -> Embeddings:
    return EMBED.extract_result(EMBED_CALL, ProviderReply(dump(reply)))


def stream(events: Sequence[Any]) -> tuple[list[Delta], Completion]:
    decoder = DIALECT.decoder(CALL)
    pieces = [piece for each in events for piece in decoder.feed(StreamEvent(dump(each)))]
    return pieces, decoder.finish()


def test_they_say_what_they_are() -> None:
    assert (DIALECT.name, DIALECT.operation) == ("plain", "chat")
    assert (EMBED.name, EMBED.operation) == ("plain-embed", "embed")
    assert DIALECT.capabilities == set(CAPABILITIES)
    assert DIALECT.parameters == STANDARD
    assert (EMBED.capabilities, EMBED.parameters) == (frozenset(), {})


def test_a_plain_request_has_messages_and_parameters_only() -> None:
    request = DIALECT.prepare_request(CALL)
    assert (request.operation, request.dialect, request.model_id) == ("chat", "plain", "m")
    assert (request.stream, request.headers) == (False, {})
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert json.loads(request.data()) == {"messages": [message], "parameters": {}}


def test_all_that_a_call_may_have_is_written() -> None:
    call = ChatCall(
        model_id="m",
        messages=[],
        parameters={"temperature": 0.5},
        tools=[ToolSchema("look", "looks", {"type": "object"}), ToolSchema("wait", "")],
        tool_choice="look",
        schema={},
        stream=True,
    )
    request = DIALECT.prepare_request(call)
    assert request.stream
    assert json.loads(request.data()) == {
        "messages": [],
        "parameters": {"temperature": 0.5},
        "tools": [
            {"name": "look", "description": "looks", "parameters": {"type": "object"}},
            {"name": "wait", "description": ""},
        ],
        "tool_choice": "look",
        "schema": {},
    }


objects = st.dictionaries(
    st.text(max_size=3), st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=3
)
texts = st.builds(Text, st.text())
images = st.builds(Image, st.binary(min_size=1), st.text())
parts: st.SearchStrategy[Part] = st.one_of(
    texts,
    images,
    st.builds(File, url=st.text(min_size=1), name=st.text()),
    st.builds(ToolCall, st.text(), st.text(), objects, st.text()),
    st.builds(ToolResult, st.text(), content=st.lists(texts | images, max_size=2)),
    st.builds(Reasoning, st.text()),
    st.builds(VendorPart, st.text(), objects),
)
messages = st.builds(Message, st.sampled_from(ROLES), st.lists(parts, max_size=3))
completions = st.builds(
    Completion,
    st.builds(Message, st.just("assistant"), st.lists(parts, max_size=3)),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "other"]),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    st.none() | objects,
    st.text(),
)


@given(said=st.lists(messages, max_size=3))
def test_a_provider_reads_the_messages_that_were_meant(said: list[Message]) -> None:
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=said))
    written = json.loads(request.data().decode("utf-8"))["messages"]
    assert usual_codec().from_json(written, list[Message]) == said


def test_half_a_surrogate_pair_can_be_sent_again() -> None:
    reply = b'{"message": {"role": "assistant", "content": "\\ud83d"}}'
    call = ChatCall(model_id="m", messages=[read(reply).message])
    data = DIALECT.prepare_request(call).data().decode("utf-8")
    assert json.loads(data)["messages"][0]["role"] == "assistant"


def cut(text: str, places: list[int]) -> list[str]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


places = st.lists(st.integers(0, 1_000), max_size=4)


@given(completion=completions, text=st.text(), at=places, name=st.none() | st.text())
def test_an_answer_is_the_same_in_one_piece_and_in_many(
    completion: Completion, text: str, at: list[int], name: str | None
) -> None:
    written = usual_codec().to_json(completion)
    decoder = DIALECT.decoder(CALL)
    heard: list[Delta] = []
    for piece in cut(text, at):
        heard += decoder.feed(StreamEvent(dump({"delta": {"text": piece}}), name))
    assert "".join(delta.text for delta in heard) == text
    assert not decoder.feed(StreamEvent(dump({"end": written}), name))
    assert decoder.finish() == read(written) == completion


@given(text=st.text(), at=places, end=st.integers(0, 1_000))
def test_a_stream_that_is_cut_is_no_answer(text: str, at: list[int], end: int) -> None:
    pieces = cut(text, at)
    kept = pieces[: end % (len(pieces) + 1)]
    with pytest.raises(IncompleteReply) as caught:
        stream([{"delta": {"text": piece, "reasoning": "hm"}} for piece in kept])
    assert caught.value.text == "".join(kept)


def test_pieces_are_given_as_they_come() -> None:
    call = {"type": "tool_call", "id": "1", "name": "f"}
    pieces, found = stream(
        [
            {"delta": {"reasoning": "hm"}},
            {"delta": {"text": "a"}},
            {"delta": {}},
            {"delta": {"tool_call": call}},
            {"end": {"message": {"role": "assistant", "content": "a"}}},
        ]
    )
    assert pieces == [
        Delta(reasoning="hm"),
        Delta("a"),
        Delta(),
        Delta(tool_call=ToolCall("1", "f")),
    ]
    assert found == Completion(Message("assistant", "a"))


SAID = {"role": "assistant", "content": "hi"}
NO_REPLIES: list[Any] = [b"", b"\xff", b"[]", b"null", b"{", b'{"a": ' + NESTED + b"}"]


@pytest.mark.parametrize(
    "reply",
    [
        *NO_REPLIES,
        {},
        {"message": None},
        {"message": "hi"},
        {"message": SAID, "more": 1},
        {"message": SAID, "usage": None},
        {"message": SAID, "usage": {"input": "7"}},
        {"message": SAID, "finish": "done"},
        {"message": SAID, "finish": []},
        {"message": {"role": "robot", "content": "hi"}},
        {"message": {"role": "assistant", "content": [{"type": "poll"}]}},
        {"message": {"role": "assistant", "content": [{"type": ["text"]}]}},
    ],
    ids=lambda reply: repr(reply)[:60],
)
def test_what_is_no_reply_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply, match="the reply is "):
        read(reply)
    ended = reply if isinstance(reply, bytes) else {"end": reply}
    with pytest.raises(MalformedReply, match="the reply is "):
        stream([ended])


@pytest.mark.parametrize("event", [{}, {"delta": None}, {"delta": "a"}, {"delta": {"text": None}}])
def test_an_event_that_is_none_is_malformed(event: Any) -> None:
    with pytest.raises(MalformedReply, match="the reply is malformed"):
        DIALECT.decoder(CALL).feed(StreamEvent(dump(event)))


def test_errors_are_left_to_the_status() -> None:
    assert DIALECT.map_error(ProviderReply(b'{"error": "x"}', 400)) is None
    assert EMBED.map_error(ProviderReply(b"", 500)) is None
    assert EMBED.decoder(EMBED_CALL) is None


def test_a_request_for_vectors_has_texts_and_purpose() -> None:
    call = EmbedCall(model_id="m", texts=("a", "é"), purpose="query")
    request = EMBED.prepare_request(call)
    assert (request.operation, request.dialect, request.model_id) == ("embed", "plain-embed", "m")
    assert json.loads(request.data()) == {"texts": ["a", "é"], "purpose": "query"}


def test_vectors_are_read() -> None:
    found = read_vectors(
        {"vectors": [[1, 2.5], [3, 4]], "model": "m-1", "usage": {"input_tokens": 2}}
    )
    assert found == Embeddings(((1.0, 2.5), (3.0, 4.0)), "m-1", Usage(2))


@pytest.mark.parametrize(
    "reply",
    [
        *NO_REPLIES,
        {},
        {"vectors": None},
        {"vectors": ["12", "34"]},
        {"vectors": [1, 2]},
        {"vectors": [["1"], ["2"]]},
        {"vectors": [[True], [False]]},
        {"vectors": [[10**400], [1]]},
        {"vectors": []},
        {"vectors": [[1]]},
        {"vectors": [[1], [2], [3]]},
        {"vectors": [[1], [2, 3]]},
    ],
    ids=lambda reply: repr(reply)[:60],
)
def test_what_are_no_vectors_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply):
        read_vectors(reply)


REPLY = usual_codec().to_json(
    Completion(
        Message(
            "assistant",
            [
                "hi",
                Image(b"x", "image/png"),
                ToolCall("1", "f", {"a": 1}, "bad"),
                ToolResult("1", "f", ["ok", Image(url="u")], error=True),
                VendorPart("d", {"a": 1}),
            ],
        ),
        "length",
        Usage(1, 2, 3, 4),
        {"a": 1},
        "max",
        seconds=1.5,
    )
)


@pytest.mark.parametrize("place", list(places_in(REPLY)), ids=str)
def test_nothing_in_a_reply_raises_anything_else(place: ValuePath) -> None:
    replies = [with_other(REPLY, place, weird) for weird in WEIRD]
    leaks = [leak(lambda reply=reply: read(reply)) for reply in replies]  # type: ignore[misc]
    leaks += [leak(lambda reply=reply: stream([{"end": reply}])) for reply in replies]  # type: ignore[misc]
    assert set(leaks) == {""}


KEYS = ["message", "role", "content", "type", "text", "delta", "end", "vectors"]


@given(data=json_values(KEYS).map(lambda value: json.dumps(value).encode()) | st.binary())
@example(data=NESTED)
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: read(data))
    assert not leak(lambda: stream([data]))
    assert not leak(lambda: read_vectors(data))
