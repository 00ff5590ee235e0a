"""The host's own form as a wire format: requests, whole replies, streams, embeddings."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given, strategies as st

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
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
    VendorPart,
)
from genai_host.api.codec import default_codec
from genai_host.api.dialects import CAPABILITIES
from genai_host.api.messages import ROLES
from genai_host.dialects.plain import Plain, PlainEmbed
from genai_host_testing.internal.chat_replies import CALL, ChatReplies, Pieces, answer
from genai_host_testing.internal.garbage import NESTED
from genai_host_testing.internal.vector_replies import CALL as EMBED_CALL, VectorReplies

DIALECT, EMBED = Plain(), PlainEmbed()
SAID = {"role": "assistant", "content": "hi"}

objects = st.dictionaries(
    st.text(max_size=3), st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=3
)
texts = st.builds(Text, st.text())
images = st.builds(Image, st.binary(min_size=1), st.text())
parts: st.SearchStrategy[Part] = st.one_of(
    texts, images, st.builds(File, url=st.text(min_size=1), name=st.text()),
    st.builds(ToolCall, st.text(), st.text(), objects, st.text()),
    st.builds(ToolResult, st.text(), content=st.lists(texts | images, max_size=2)),
    st.builds(Reasoning, st.text()), st.builds(VendorPart, st.text(), objects),
)  # fmt: skip
messages = st.builds(Message, st.sampled_from(ROLES), st.lists(parts, max_size=3))
completions = st.builds(
    Completion, st.builds(Message, st.just("assistant"), st.lists(parts, max_size=3)),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "other"]),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9)), st.none() | objects, st.text(),
)  # fmt: skip


def ended(completion: Completion) -> Any:
    return {"end": default_codec().to_json(completion)}


class TestReplies(ChatReplies):
    dialect = DIALECT
    complaint = "the reply is "
    between_thoughts = None
    finishes = [(each, each) for each in (
        "stop", "length", "tool_calls", "content_filter", "other")]  # fmt: skip
    arguments = ()
    silent = (*ChatReplies.silent, b'{"error": "x"}')
    streams = {
        "pieces": (
            [{"delta": {"reasoning": "hm"}}, {"delta": {"text": "a"}}, {"delta": {}},
             {"delta": {"tool_call": {"type": "tool_call", "id": "1", "name": "f"}}},
             ended(answer("a"))],
            [Delta(reasoning="hm"), Delta("a"), Delta(), Delta(tool_call=ToolCall("1", "f"))],
            answer("a")),
    }  # fmt: skip
    malformed = [
        b"", b"\xff", b"[]", b"null", b"{", b'{"a": ' + NESTED + b"}", {}, {"message": None},
        {"message": "hi"}, {"message": SAID, "more": 1}, {"message": SAID, "usage": None},
        {"message": SAID, "usage": {"input": "7"}}, {"message": SAID, "finish": "done"},
        {"message": SAID, "finish": []}, {"message": {"role": "robot", "content": "hi"}},
        {"message": {"role": "assistant", "content": [{"type": "poll"}]}},
        {"message": {"role": "assistant", "content": [{"type": ["text"]}]}},
    ]  # fmt: skip
    malformed_events = [
        {}, {"delta": None}, {"delta": "a"}, {"delta": {"text": None}},
        *(each if isinstance(each, bytes) else {"end": each} for each in malformed),
    ]  # fmt: skip
    reply = default_codec().to_json(
        Completion(
            Message(
                "assistant",
                [
                    "hi",
                    Image(b"x", "image/png"),
                    ToolCall("1", "f", {"a": 1}, "bad"),
                    ToolResult("1", "f", ["ok", Image(url="u")], error=True),
                    VendorPart("d", {"a": 1})]),
            "length", Usage(1, 2, 3, 4), {"a": 1}, "max", seconds=1.5),
    )  # fmt: skip
    events = [{"delta": {"text": "a", "reasoning": "hm"}}, {"end": reply}]
    wholes = completions.map(default_codec().to_json)

    def saying(self, text: str, finish: Any) -> Any:
        return default_codec().to_json(answer(text, finish=finish, vendor=finish))

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        completion = self.read(reply)
        calls = [default_codec().to_json(each) for each in completion.tool_calls]
        deltas = [{"text": each} for each in pieces.cut(completion.text)]
        deltas += [{"tool_call": each} for each in calls]
        return [*({"delta": each} for each in deltas), {"end": reply}]

    def returned(self, reply: Any, body: Any) -> None:
        written = default_codec().from_json(body["messages"][1], Message)
        assert written == self.read(reply).message


class TestVectors(VectorReplies):
    dialect = EMBED
    malformed = [*VectorReplies.malformed, {"vectors": None}, {"vectors": ["12", "34"]}]

    def reply(self, vectors: Any) -> Any:
        return {"vectors": vectors, "model": "m-1", "usage": {"input_tokens": 2}}

    def test_the_model_and_its_tokens_are_told(self) -> None:
        expected = Embeddings(((1.0, 2.5), (3.0, 4.0)), "m-1", Usage(2))
        assert self.read(self.reply([[1, 2.5], [3, 4]])) == expected


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
        model_id="m", messages=[], parameters={"temperature": 0.5},
        tools=[ToolSchema("look", "looks", {"type": "object"}), ToolSchema("wait", "")],
        tool_choice="look", schema={}, stream=True,
    )  # fmt: skip
    request = DIALECT.prepare_request(call)
    assert request.stream
    assert json.loads(request.data()) == {
        "messages": [], "parameters": {"temperature": 0.5},
        "tools": [
            {"name": "look", "description": "looks", "parameters": {"type": "object"}},
            {"name": "wait", "description": ""}],
        "tool_choice": "look", "schema": {},
    }  # fmt: skip


@given(sent=st.lists(messages, max_size=3))
def test_a_provider_reads_the_messages_that_were_meant(sent: list[Message]) -> None:
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=sent))
    written = json.loads(request.data().decode("utf-8"))["messages"]
    assert default_codec().from_json(written, list[Message]) == sent


def test_a_request_for_vectors_has_texts_and_purpose() -> None:
    call = EmbedCall(model_id="m", texts=("a", "é"), purpose="query")
    request = EMBED.prepare_request(call)
    assert (request.operation, request.dialect, request.model_id) == ("embed", "plain-embed", "m")
    assert json.loads(request.data()) == {"texts": ["a", "é"], "purpose": "query"}
    assert json.loads(EMBED.prepare_request(evolve(call, purpose=None)).data()) == {
        "texts": ["a", "é"]
    }


def test_embeddings_have_no_stream() -> None:
    assert EMBED.decoder(EMBED_CALL) is None
