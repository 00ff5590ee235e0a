"""What is read of replies of Converse, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_vendor_bedrock.converse import BedrockConverse
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Citation,
    Delta,
    Message,
    ProviderReply,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    VendorPart as Part,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    IncompleteReply,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.internal.chat_replies import ARGUMENTS, ChatReplies, Pieces, answer, event
from genai_host_testing.services.bedrock import CALLED, THOUGHT, USAGE, body, events

NAME = "bedrock-converse"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
REDACTED = {"reasoningContent": {"redactedContent": "YWJj"}}
UNSIGNED = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
SERVER_USE = {"toolUse": {"toolUseId": "s", "name": "w", "type": "server_tool_use",
                          "input": {"a": 1}}}  # fmt: skip
RESULT = {"toolResult": {"toolUseId": "s", "content": [{"text": "x"}]}}
CITED = {"citationsContent": {"content": [{"text": "so"}], "citations": [{"title": "t"}]}}
PAGE = {"title": "t", "location": {"web": {"url": "https://x", "domain": "x"}}}
ANSWER = {"toolUse": {"toolUseId": "a", "name": "answer", "input": {"city": "Oslo"}}}
LOOK = ToolCall("tooluse_1", "look", {"at": "é"})
COUNTED = Usage(9, 4, 3, cache_write_tokens=2)
BEGIN, STOP, END = events([])
TEXT = events([{"text": "a"}])


def starts(block: Any) -> Any:
    return {"contentBlockStart": {"start": block, "contentBlockIndex": 0}}


def grows(delta: Any) -> Any:
    return {"contentBlockDelta": {"delta": delta, "contentBlockIndex": 0}}


def use(id: str) -> Any:
    return {"toolUse": {**CALLED["toolUse"], "toolUseId": id}}


def with_one_index(stream: Any) -> Any:
    return [{kind: inner | {"contentBlockIndex": 0} if "contentBlockIndex" in inner else inner
             for kind, inner in each.items()} for each in stream]  # fmt: skip


def by_tool() -> ChatCall:
    """A call whose answer is the use of a tool."""
    hi = [Message("user", "hi")]
    return ChatCall(model_id="m", messages=hi, schema=CITY, variant={"schema": "tool"})


PIECES: dict[str, tuple[list[Any], list[Any]]] = {
    "a result": ([starts({"toolResult": {"toolUseId": "s"}}),
                  grows({"toolResult": [{"text": "x"}]})], [Part(NAME, RESULT)]),
    "a picture": ([starts({"image": {"format": "png"}}),
                   *(grows({"image": {"source": {"bytes": half}}}) for half in ("YQ==", "YmM="))],
                  [Part(NAME, {"image": {"format": "png", "source": {"bytes": "YWJj"}}})]),
    "citations": ([grows({"text": "so"}), grows({"citation": {"title": "t"}})],
                  [Part(NAME, {"citations": [{"title": "t"}]}), "so"]),
    "a page": ([grows({"text": "so"}), grows({"citation": PAGE})],
               [Part(NAME, {"citations": [PAGE]}),
                Text("so", citations=[Citation("https://x", "t", start=0, end=2)])]),
}  # fmt: skip
REFUSALS: list[tuple[int, str, str, type[GenaiError], bool]] = [
    (429, "ThrottlingException", "Too many requests", RateLimited, True),
    (400, "ThrottlingException", "Too many requests", RateLimited, True),
    (429, "ModelNotReadyException", "not ready", ServiceUnavailable, True),
    (408, "ModelTimeoutException", "too long", ServiceUnavailable, True),
    (424, "ModelErrorException", "it failed", ServiceUnavailable, True),
    (500, "InternalServerException", "it failed", ServiceUnavailable, True),
    (503, "ServiceUnavailableException", "not now", ServiceUnavailable, True),
    (400, "ValidationException", "blank", BadRequest, False),
    (400, "ValidationException", "Input is too long for requested model.", ContextOverflow, False),
    (400, "ServiceQuotaExceededException", "no more", BadRequest, False),
    (404, "ResourceNotFoundException", "no such model", BadRequest, False),
    (403, "AccessDeniedException", "not you", AuthenticationFailed, False),
    (403, "ExpiredTokenException", "expired", AuthenticationFailed, False),
    (400, "ExpiredTokenException", "expired", AuthenticationFailed, False),
    (403, "com.amazon.coral.service#InvalidSignatureException:http://x", "no",
     AuthenticationFailed, False),
    (403, "UnrecognizedClientException", "no", AuthenticationFailed, False),
]  # fmt: skip

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
blocks = st.one_of(
    st.builds(lambda text: {"text": text}, words),
    st.sampled_from([THOUGHT, REDACTED]),
    st.builds(
        lambda id, tool_input: {"toolUse": {"toolUseId": id, "name": "look", "input": tool_input}},
        words,
        st.dictionaries(words, st.integers() | words, max_size=2),
    ),
)


class TestReplies(ChatReplies):
    dialect = BedrockConverse()
    end = (STOP, END)
    finishes = [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("STOP", "stop"),
        ("max_tokens", "length"), ("model_context_window_exceeded", "length"), ("length", "length"),
        ("guardrail_intervened", "content_filter"), ("content_filtered", "content_filter"),
        *((word, "other") for word in (
            "malformed_model_output", "malformed_tool_use", "of_tomorrow")),
    ]  # fmt: skip
    broken = ("error",)
    arguments = [row for row in ARGUMENTS if not isinstance(row[0], str)]
    replies = {
        "citations": (body([CITED]), answer(Part(NAME, {"citations": [{"title": "t"}]}), "so",
                                            vendor="end_turn")),
        "a result": (body([RESULT]), answer(Part(NAME, RESULT), vendor="end_turn")),
        "odd usage": ({**body([{"text": "a"}]), "usage": []}, answer("a", vendor="end_turn")),
    }  # fmt: skip
    streams = {
        **{name: ([BEGIN, *pieces, STOP, END], None, answer(*parts, vendor="end_turn"))
           for name, (pieces, parts) in PIECES.items()},
        "all kinds": (
            events([THOUGHT, THOUGHT, {"text": "ab"}, CALLED], "tool_use", **USAGE),
            [Delta(reasoning="hm"), Delta(reasoning="\n\nhm"), Delta("a"), Delta("b"),
             Delta(tool_call=LOOK)],
            answer(*[Reasoning("hm"), Part(NAME, THOUGHT)] * 2, "ab", LOOK, finish="tool_calls",
                   usage=COUNTED, vendor="tool_use")),
        "blocks with one index": (
            with_one_index(events([{"text": "ab"}, use("1"), use("2")], "tool_use")), None,
            answer("ab", ToolCall("1", "look", {"at": "é"}), ToolCall("2", "look", {"at": "é"}),
                   finish="tool_calls", vendor="tool_use")),
        "a repeated end": (
            [*events([CALLED], "tool_use")[:-1], *events([CALLED], "tool_use")[-3:]],
            [Delta(tool_call=LOOK)], answer(LOOK, finish="tool_calls", vendor="tool_use")),
        "arguments that are no object": (
            [BEGIN, starts({"toolUse": {"toolUseId": "a", "name": "look"}}),
             grows({"toolUse": {"input": "{"}}), STOP, END],
            None,
            answer(ToolCall("a", "look", malformed="{"), finish="tool_calls", vendor="end_turn")),
        "odd usage": ([*TEXT[:-1], {"metadata": []}], [Delta("a")], answer("a", vendor="end_turn")),
        "a kind to come": ([BEGIN, {"ofTomorrow": {"a": 1}}, *TEXT[1:]], [Delta("a")],
                           answer("a", vendor="end_turn")),
    }  # fmt: skip
    failures = [
        (400, {"message": "Invocation of model ID x with on-demand throughput isn't supported."},
         BadRequest, {}),
    ]  # fmt: skip
    silent = (*ChatReplies.silent, b'{"message": 1}')
    malformed = [
        {}, {"output": {}}, {"output": {"message": {}}}, {"output": {"message": {"content": {}}}},
        body([1]), body([{}]), body([{"text": 1}]), body([{"toolUse": {"name": 1}}]),
        body([{"reasoningContent": 1}]),
    ]  # fmt: skip
    malformed_events = [
        b"{", [], grows(1), grows({"text": 1}), starts(1),
        grows({"reasoningContent": 1}),
    ]  # fmt: skip
    reply = body([THOUGHT, {"text": "a"}, CALLED, REDACTED, CITED], usage=USAGE)
    events = events([THOUGHT, {"text": "a"}, CALLED, REDACTED], **USAGE)
    wholes = st.builds(lambda content: body(content, usage=USAGE), st.lists(blocks, max_size=5))

    def saying(self, text: str, finish: Any) -> Any:
        return body([{"text": text}], finish)

    def calling(self, arguments: Any) -> Any:
        return body([{"toolUse": {"toolUseId": "1", "name": "f", "input": arguments}}], "tool_use")

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        content = reply["output"]["message"]["content"]
        return events(content, reply["stopReason"], **reply.get("usage", {}))

    def returned(self, reply: Any, body: Any) -> None:
        """Ids may be others, as not all are taken."""
        original = [each for each in reply["output"]["message"]["content"]
                    if "text" not in each or each["text"].strip()]  # fmt: skip
        sent_again = body["messages"][1]["content"] if len(body["messages"]) > 2 else []
        for each in (*original, *sent_again):
            each.get("toolUse", {}).pop("toolUseId", None)
        assert sent_again == original

    @pytest.mark.parametrize(
        ("block", "part"),
        [(REDACTED, Part(NAME, REDACTED)), (UNSIGNED, Reasoning("hm")),
         (SERVER_USE, Part(NAME, SERVER_USE))],
    )  # fmt: skip
    def test_blocks_are_read(self, block: Any, part: Any) -> None:
        assert self.both(body([block, {"text": "a"}])) == answer(part, "a", vendor="end_turn")

    def test_a_call_is_a_call_however_it_ends(self) -> None:
        assert self.both(body([CALLED], "end_turn")).finish == "tool_calls"

    def test_the_use_of_the_tool_is_the_answer(self) -> None:
        reply = ProviderReply(json.dumps(body([ANSWER], "tool_use")).encode())
        completion = self.dialect.extract_result(by_tool(), reply)
        assert (json.loads(completion.text), completion.finish) == ({"city": "Oslo"}, "stop")
        assert not completion.tool_calls
        decoder: Any = self.dialect.decoder(by_tool())
        pieces = [piece for each in events([ANSWER], "tool_use")
                  for piece in decoder.feed(event(each))]  # fmt: skip
        streamed = decoder.finish()
        assert (streamed.text, streamed.finish) == (
            "".join(piece.text for piece in pieces), "stop",
        )  # fmt: skip
        assert json.loads(streamed.text) == {"city": "Oslo"}

    def test_an_answer_by_a_tool_may_end_at_its_limit(self) -> None:
        reply = ProviderReply(json.dumps(body([{"text": "a"}], "max_tokens")).encode())
        assert self.dialect.extract_result(by_tool(), reply).finish == "length"

    def test_an_answer_by_a_tool_that_is_cut_is_kept(self) -> None:
        decoder: Any = self.dialect.decoder(by_tool())
        for each in events([ANSWER], "tool_use")[:3]:
            decoder.feed(event(each))
        with pytest.raises(IncompleteReply) as caught:
            decoder.finish()
        assert caught.value.text == '{"c'

    def test_a_stream_is_whole_once_its_message_has_ended(self) -> None:
        """Its usage comes after that, and its mark with the usage."""
        decoder: Any = self.dialect.decoder(by_tool())
        *before, stop, end = map(event, events([{"text": "ab"}], **USAGE))
        for each in before:
            decoder.feed(each)
        with pytest.raises(IncompleteReply) as caught:
            decoder.finish()
        assert caught.value.text == "ab"
        decoder.feed(stop)
        assert not decoder.done
        assert decoder.finish().text == "ab"
        decoder.feed(end)
        assert decoder.done
        assert decoder.finish().usage == COUNTED

    @pytest.mark.parametrize(("status", "kind", "text", "error", "retryable"), REFUSALS)
    @pytest.mark.parametrize("place", ["header", "body"])
    def test_refusals_are_told_by_their_kind(
        self, status: int, kind: str, text: str, error: Any, retryable: bool, place: str
    ) -> None:
        headers = {"x-amzn-errortype": kind} if place == "header" else {}
        fields = {"message": text, **({"__type": kind} if place == "body" else {})}
        raised = self.dialect.map_error(ProviderReply(json.dumps(fields).encode(), status, headers))
        assert raised is not None
        assert type(raised) is error
        assert (raised.message, raised.status, raised.retryable) == (text, status, retryable)

    def test_an_id_that_needs_a_profile_says_so(self) -> None:
        data = json.dumps(self.failures[0][1]).encode()
        error = self.dialect.map_error(ProviderReply(data, 400))
        assert error is not None
        assert "inference profile" in error.hint
