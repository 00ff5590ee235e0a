"""What is read of replies of Converse, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from genai_vendor_bedrock.converse import BedrockConverse
from hypothesis import given
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Message,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.services.bedrock import CALLED, THOUGHT, USAGE, body, encoded, events

DIALECT = BedrockConverse()
NAME = "bedrock-converse"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
REDACTED = {"reasoningContent": {"redactedContent": "YWJj"}}


def call(**more: Any) -> ChatCall:
    return ChatCall(model_id="m", messages=[Message("user", "hi")], **more)


def read(reply: Any, **more: Any) -> Completion:
    return DIALECT.extract_result(call(**more), ProviderReply(json.dumps(reply).encode()))


def stream(events: Iterable[Any], **more: Any) -> tuple[list[Delta], Completion]:
    decoder: Any = DIALECT.decoder(call(stream=True, **more))
    pieces = [each for one in encoded(events) for each in decoder.feed(StreamEvent(one))]
    assert decoder.done
    return pieces, decoder.finish()


def both(content: list[Any], reason: str = "end_turn", **more: Any) -> Completion:
    """What is read of a reply, which is the same in pieces."""
    whole = read(body(content, reason, usage=USAGE), **more)
    assert stream(events(content, reason, **USAGE), **more)[1] == whole
    return whole


def test_all_that_a_model_says_is_read() -> None:
    found = both([THOUGHT, {"text": "so: "}, CALLED], "tool_use")
    assert found.message.content == (
        Reasoning("hm"), VendorPart(NAME, THOUGHT), Text("so: "),
        ToolCall("tooluse_1", "look", {"at": "é"}),
    )  # fmt: skip
    assert (found.finish, found.vendor_finish) == ("tool_calls", "tool_use")


def test_what_the_cache_took_or_gave_is_input() -> None:
    assert both([{"text": "a"}]).usage == Usage(9, 4, 3, cache_write_tokens=2)


def test_thoughts_that_are_hidden_are_kept() -> None:
    assert both([REDACTED, {"text": "a"}]).message.content == (
        VendorPart(NAME, REDACTED),
        Text("a"),
    )


def test_thoughts_that_nobody_signed_need_not_go_back() -> None:
    unsigned = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    assert both([unsigned, {"text": "a"}]).message.content == (Reasoning("hm"), Text("a"))


def test_what_tools_of_the_service_did_is_kept() -> None:
    use = {"toolUse": {"toolUseId": "s", "name": "w", "type": "server_tool_use", "input": {"a": 1}}}
    assert both([use, {"text": "a"}]).message.content == (VendorPart(NAME, use), Text("a"))
    result = {"toolResult": {"toolUseId": "s", "content": [{"text": "x"}]}}
    assert read(body([result])).message.content == (VendorPart(NAME, result),)
    at = {"contentBlockIndex": 0}
    begun = {"contentBlockStart": {"start": {"toolResult": {"toolUseId": "s"}}, **at}}
    piece = {"contentBlockDelta": {"delta": {"toolResult": [{"text": "x"}]}, **at}}
    first, *_, stop, end = events([])
    assert stream([first, begun, piece, stop, end])[1].message.content == (
        VendorPart(NAME, result),
    )


def test_a_picture_in_pieces_is_put_together() -> None:
    at = {"contentBlockIndex": 0}
    begun = {"contentBlockStart": {"start": {"image": {"format": "png"}}, **at}}
    halves = [{"contentBlockDelta": {"delta": {"image": {"source": {"bytes": half}}}, **at}}
              for half in ("YQ==", "YmM=")]  # fmt: skip
    first, *_, stop, end = events([])
    image = {"image": {"format": "png", "source": {"bytes": "YWJj"}}}
    assert stream([first, begun, *halves, stop, end])[1].message.content == (
        VendorPart(NAME, image),
    )


def test_citations_are_kept_before_their_text() -> None:
    cited = {"citationsContent": {"content": [{"text": "so"}], "citations": [{"title": "t"}]}}
    expected = (VendorPart(NAME, {"citations": [{"title": "t"}]}), Text("so"))
    assert read(body([cited])).message.content == expected
    first, *_, stop, end = events([])
    pieces = [{"contentBlockDelta": {"delta": delta, "contentBlockIndex": 0}}
              for delta in ({"text": "so"}, {"citation": {"title": "t"}})]  # fmt: skip
    assert stream([first, *pieces, stop, end])[1].message.content == expected


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("malformed_model_output", "other"),
        ("malformed_tool_use", "other"),
        ("of_tomorrow", "other"),
        ("STOP", "stop"),
        ("length", "length"),
    ],
)
def test_ends_are_told_in_the_words_of_all(reason: str, finish: str) -> None:
    found = both([{"text": "a"}], reason)
    assert (found.finish, found.vendor_finish) == (finish, reason)


def test_a_call_is_a_call_however_it_ends() -> None:
    assert both([CALLED], "end_turn").finish == "tool_calls"


def test_arguments_that_are_no_object_are_kept_as_they_are() -> None:
    start = {
        "contentBlockStart": {
            "start": {"toolUse": {"toolUseId": "a", "name": "look"}},
            "contentBlockIndex": 0,
        }
    }
    piece = {"contentBlockDelta": {"delta": {"toolUse": {"input": "{"}}, "contentBlockIndex": 0}}
    first, *_, stop, end = events([], "tool_use")
    found = stream([first, start, piece, stop, end])[1]  # fmt: skip
    assert found.tool_calls == (ToolCall("a", "look", malformed="{"),)


# an answer by a tool


def test_the_use_of_the_tool_is_the_answer() -> None:
    options = {"schema": CITY, "variant": {"schema": "tool"}}
    use = {"toolUse": {"toolUseId": "a", "name": "answer", "input": {"city": "Oslo"}}}
    found = read(body([use], "tool_use"), **options)
    assert (json.loads(found.text), found.finish) == ({"city": "Oslo"}, "stop")
    assert not found.tool_calls
    pieces, streamed = stream(events([use], "tool_use"), **options)
    assert json.loads("".join(piece.text for piece in pieces)) == {"city": "Oslo"}
    assert (streamed.text, streamed.finish) == (
        "".join(piece.text for piece in pieces), "stop",
    )  # fmt: skip


def test_an_answer_by_a_tool_that_is_cut_is_kept() -> None:
    use = {"toolUse": {"toolUseId": "a", "name": "answer", "input": {"city": "Oslo"}}}
    decoder: Any = DIALECT.decoder(call(schema=CITY, variant={"schema": "tool"}, stream=True))
    for one in encoded(events([use], "tool_use")[:3]):
        decoder.feed(StreamEvent(one))
    with pytest.raises(IncompleteReply) as caught:
        decoder.finish()
    assert caught.value.text == '{"c'


# pieces


def test_pieces_are_shown_as_they_come() -> None:
    thoughts = [THOUGHT, THOUGHT]
    pieces, _ = stream(events([*thoughts, {"text": "ab"}, CALLED], "tool_use"))
    assert pieces == [
        Delta(reasoning="hm"), Delta(reasoning="\n\nhm"), Delta("a"), Delta("b"),
        Delta(tool_call=ToolCall("tooluse_1", "look", {"at": "é"})),
    ]  # fmt: skip


def test_a_stream_is_whole_once_its_message_has_ended() -> None:
    """Its usage comes after that, and its mark with the usage."""
    decoder: Any = DIALECT.decoder(call(stream=True))
    *before, stop, end = encoded(events([{"text": "ab"}], **USAGE))
    for one in before:
        decoder.feed(StreamEvent(one))
    with pytest.raises(IncompleteReply) as caught:
        decoder.finish()
    assert caught.value.text == "ab"
    decoder.feed(StreamEvent(stop))
    assert not decoder.done
    assert decoder.finish().text == "ab"
    decoder.feed(StreamEvent(end))
    assert decoder.done
    assert decoder.finish().usage == Usage(9, 4, 3, cache_write_tokens=2)


def test_blocks_that_share_an_index_are_told_apart_by_their_begin() -> None:
    calls = [{"toolUse": {**CALLED["toolUse"], "toolUseId": id}} for id in ("1", "2")]
    given: list[Any] = json.loads(json.dumps(events([{"text": "ab"}, *calls], "tool_use")))
    for each in given:
        for inner in each.values():
            if "contentBlockIndex" in inner:
                inner["contentBlockIndex"] = 0
    pieces, found = stream(given)
    expected = [ToolCall(id, "look", {"at": "é"}) for id in ("1", "2")]
    assert [piece.tool_call for piece in pieces if piece.tool_call] == expected
    assert found.message == Message("assistant", ["ab", *expected])


def test_an_end_that_is_repeated_gives_a_call_once() -> None:
    *before, stop, end = events([CALLED], "tool_use")
    pieces, found = stream([*before, before[-1], stop, stop, end])
    assert [piece.tool_call for piece in pieces if piece.tool_call] == [*found.tool_calls]
    assert len(found.tool_calls) == 1


def test_usage_in_another_form_loses_no_answer() -> None:
    assert read({**body([{"text": "a"}]), "usage": []}).text == "a"
    *before, _ = events([{"text": "a"}])
    assert stream([*before, {"metadata": []}])[1].text == "a"


def test_a_reply_that_the_service_broke_off_is_no_answer() -> None:
    with pytest.raises(IncompleteReply, match="error"):
        read(body([{"text": "a"}], "error"))


def test_kinds_to_come_are_passed_over() -> None:
    first, *rest = events([{"text": "a"}])
    assert stream([first, {"ofTomorrow": {"a": 1}}, *rest])[1].text == "a"


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
blocks = st.one_of(
    st.builds(lambda text: {"text": text}, texts),
    st.just(THOUGHT),
    st.just(REDACTED),
    st.builds(
        lambda id, given: {"toolUse": {"toolUseId": id, "name": "look", "input": given}},
        texts,
        st.dictionaries(texts, st.integers() | texts, max_size=2),
    ),
)


@given(st.lists(blocks, max_size=5))
def test_what_is_said_reads_the_same_in_pieces_and_goes_back_as_it_came(content: list[Any]) -> None:
    found = both(content)
    messages = [Message("user", "hi"), found.message, Message("user", "so?")]
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=messages))
    said = json.loads(request.data())["messages"]
    shown = [each for each in content if "text" not in each or each["text"].strip()]
    back = said[1]["content"] if len(said) > 2 else []
    assert [_without_id(each) for each in back] == [_without_id(each) for each in shown]


def _without_id(block: Any) -> Any:
    """Ids may be others, as not all are taken."""
    use = block.get("toolUse")
    return block if use is None else {"toolUse": {**use, "toolUseId": ""}}


# what is no reply


@pytest.mark.parametrize(
    "reply",
    [
        {}, {"output": {}}, {"output": {"message": {}}}, {"output": {"message": {"content": {}}}},
        body([1]), body([{}]), body([{"text": 1}]), body([{"toolUse": {"name": 1}}]),
        body([{"reasoningContent": 1}]),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply):
        read(reply)


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


@pytest.mark.parametrize(("status", "kind", "text", "error", "retryable"), REFUSALS)
@pytest.mark.parametrize("place", ["header", "body"])
def test_refusals_are_told_by_their_kind(
    status: int, kind: str, text: str, error: type[GenaiError], retryable: bool, place: str
) -> None:
    headers: Mapping[str, str] = {"x-amzn-errortype": kind} if place == "header" else {}
    told = {"message": text, **({"__type": kind} if place == "body" else {})}
    found = DIALECT.map_error(ProviderReply(json.dumps(told).encode(), status, headers))
    assert type(found) is error
    assert (found.message, found.status, found.retryable) == (text, status, retryable)


def test_an_id_that_needs_a_profile_says_so() -> None:
    text = "Invocation of model ID x with on-demand throughput isn't supported."
    found = DIALECT.map_error(ProviderReply(json.dumps({"message": text}).encode(), 400))
    assert found is not None
    assert "inference profile" in found.hint


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"{}", b'{"message": 1}'])
def test_what_is_none_of_amazons_errors_is_left_to_the_status(data: bytes) -> None:
    assert DIALECT.map_error(ProviderReply(data, 500)) is None
