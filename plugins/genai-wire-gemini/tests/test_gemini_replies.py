"""What comes back in the dialects `gemini` and `gemini-embed`, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from genai_wire_gemini.dialect.embed_content import EmbedContent
from genai_wire_gemini.dialect.generate_content import GenerateContent
from hypothesis import given
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    EmbedCall,
    File,
    Image,
    Message,
    Part,
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
    UnexpectedFinish,
)
from genai_host_testing.services.gemini import (
    CALL,
    SIGNATURE,
    problem,
    reason,
    response,
    wait,
    written,
)

ASKED = ChatCall(model_id="m", messages=[Message("user", "hi")])
LOOK = ToolCall("fc_1", "look", {"at": "é"})
SIGNED = VendorPart("gemini", {"thoughtSignature": SIGNATURE})


def read(*parts: Any, finish: str | None = "STOP", call: ChatCall = ASKED) -> Completion:
    body = written(response(*parts, finish=finish))
    return GenerateContent().extract_result(call, ProviderReply(body))


def streamed(*events: Any, call: ChatCall = ASKED) -> tuple[list[Delta], Completion]:
    decoder = GenerateContent().decoder(call)
    pieces = [piece for each in events for piece in decoder.feed(StreamEvent(written(each)))]
    return pieces, decoder.finish()


def sent_back(completion: Completion) -> Any:
    """The parts of what was said, as they are sent again."""
    again = ChatCall(model_id="m", messages=[completion.message])
    body = json.loads(GenerateContent().prepare_request(again).data())
    return [part for content in body["contents"] for part in content["parts"]]


def test_each_event_may_have_a_finish_reason() -> None:
    """The Gemini API sent them so for long, and proxies still do."""
    decoder = GenerateContent().decoder(ASKED)
    for text in ("a", "b"):
        decoder.feed(StreamEvent(written(response({"text": text}, finish="STOP"))))
        assert not decoder.done
    found = decoder.finish()
    assert (found.text, found.finish) == ("ab", "stop")


# parts


@pytest.mark.parametrize(
    ("wire", "parts"),
    [
        ([{"text": "a"}, {"text": "b"}], [Text("ab")]),
        ([{"text": "hm", "thought": True}, {"text": "a"}], [Reasoning("hm"), Text("a")]),
        ([{"text": "a", "thoughtSignature": SIGNATURE}], [Text("a"), SIGNED]),
        ([{"text": "a"}, {"text": "b", "thoughtSignature": SIGNATURE}, {"text": "c"}],
         [Text("a"), Text("b"), SIGNED, Text("c")]),
        ([{"functionCall": CALL, "thoughtSignature": SIGNATURE}], [LOOK, SIGNED]),
        ([{"text": "", "thoughtSignature": SIGNATURE}],
         [VendorPart("gemini", {"text": "", "thoughtSignature": SIGNATURE})]),
        ([{"thoughtSignature": SIGNATURE}],
         [VendorPart("gemini", {"text": "", "thoughtSignature": SIGNATURE})]),
        ([{"executableCode": {}}], [VendorPart("gemini", {"executableCode": {}})]),
        ([{"inlineData": {"mimeType": "image/png", "data": "YQ=="}}], [Image(b"a", "image/png")]),
        ([{"inlineData": {"mimeType": "audio/wav", "data": "YQ=="}}], [File(b"a", "audio/wav")]),
        ([{"functionCall": {"id": "c", "name": "look", "args": None}}], [ToolCall("c", "look")]),
        ([{"functionCall": {"id": "c", "name": "look", "args": [1]}}],
         [ToolCall("c", "look", malformed="[1]")]),
        ([{"text": "", "thought": True}, {}], []),
    ],
    ids=str,
)  # fmt: skip
def test_parts_are_read(wire: list[Any], parts: list[Part]) -> None:
    assert list(read(*wire).message.content) == parts
    _, found = streamed(*(response(part) for part in wire), response(finish="STOP"))
    assert list(found.message.content) == parts


@pytest.mark.parametrize(
    "wire",
    [
        [
            {"functionCall": CALL, "thoughtSignature": SIGNATURE},
            {"functionCall": {**CALL, "id": "fc_2"}},
        ],
        [{"text": "a", "thoughtSignature": SIGNATURE}, {"text": "b"}],
        [{"text": "a"}, {"text": "", "thoughtSignature": SIGNATURE}],
        [{"text": "hm", "thought": True, "thoughtSignature": SIGNATURE}, {"text": "a"}],
        [{"executableCode": {"code": "1"}, "thoughtSignature": SIGNATURE}],
        [{"functionCall": {"name": "look", "args": {}}}],
        [{"inlineData": {"mimeType": "image/png", "data": "YQ=="}, "thoughtSignature": SIGNATURE}],
    ],
    ids=str,
)
def test_what_came_is_sent_back_as_it_came(wire: list[Any]) -> None:
    assert sent_back(read(*wire)) == wire
    _, found = streamed(*(response(part) for part in wire), response(finish="STOP"))
    assert sent_back(found) == wire


def test_calls_without_ids_get_some_that_the_conversation_does_not_have() -> None:
    wire = {"functionCall": {"name": "look"}}
    first = read(wire, wire)
    call = ChatCall(model_id="m", messages=[first.message])
    ids = [each.id for each in (*first.tool_calls, *read(wire, call=call).tool_calls)]
    assert len(set(ids)) == 3
    assert read(wire, wire).tool_calls == first.tool_calls


# why it ended


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("LANGUAGE", "other"),
        ("MALFORMED_FUNCTION_CALL", "other"),
        ("UNEXPECTED_TOOL_CALL", "other"),
        ("OTHER", "other"),
        ("stop", "stop"),
        ("max_tokens", "length"),
        ("NEVER_HEARD_OF", "other"),
    ],
)
def test_the_reason_why_it_ended_is_told(word: str, finish: str) -> None:
    found = read(finish=word)
    assert (found.finish, found.vendor_finish, found.message.content) == (finish, word, ())
    assert streamed(response(finish=word))[1] == found


def test_a_stream_may_end_with_a_mark_of_another_format() -> None:
    decoder = GenerateContent().decoder(ASKED)
    for event in (written(response({"text": "a"})), b"[DONE]"):
        decoder.feed(StreamEvent(event))
    assert decoder.done
    assert (decoder.finish().text, decoder.finish().finish) == ("a", "stop")


def test_a_list_of_replies_is_a_stream_that_is_none_of_events() -> None:
    events = [response({"text": "a"}), response({"text": "b"}), response(finish="STOP")]
    found = GenerateContent().extract_result(ASKED, ProviderReply(json.dumps(events).encode()))
    assert (found.text, found.finish) == ("ab", "stop")
    with pytest.raises(IncompleteReply) as caught:
        GenerateContent().extract_result(ASKED, ProviderReply(json.dumps(events[:2]).encode()))
    assert caught.value.text == "ab"


def test_a_call_that_is_repeated_is_given_once() -> None:
    calls = [response({"functionCall": CALL})] * 2
    pieces, found = streamed(*calls, response(finish="STOP"))
    assert [piece.tool_call for piece in pieces] == [LOOK]
    assert found.tool_calls == (LOOK,)
    other = {"functionCall": {**CALL, "args": {}}}
    assert len({call.id for call in read({"functionCall": CALL}, other).tool_calls}) == 2


def test_arguments_may_be_text() -> None:
    call = {"functionCall": {"id": "fc_1", "name": "look", "args": '{"at": "\u00e9"}'}}
    assert read(call).tool_calls == (LOOK,)


def test_usage_in_another_form_loses_no_answer() -> None:
    reply = {**response({"text": "a"}, finish="STOP"), "usageMetadata": []}
    assert GenerateContent().extract_result(ASKED, ProviderReply(written(reply))).text == "a"


def test_a_call_is_the_reason_where_it_is_said_to_have_stopped() -> None:
    assert read({"functionCall": CALL}).finish == "tool_calls"
    assert read({"functionCall": CALL}, finish="MAX_TOKENS").finish == "length"


BLOCKED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}}


def test_a_prompt_that_is_blocked_is_told() -> None:
    for reading in (
        lambda: GenerateContent().extract_result(ASKED, ProviderReply(written(BLOCKED))),
        lambda: streamed(BLOCKED),
    ):
        with pytest.raises(UnexpectedFinish) as caught:
            reading()
        assert caught.value.reason == "PROHIBITED_CONTENT"


@pytest.mark.parametrize("body", [{}, {"candidates": []}, {"usageMetadata": {}}])
def test_no_candidates_are_no_answer(body: Any) -> None:
    with pytest.raises(UnexpectedFinish) as caught:
        GenerateContent().extract_result(ASKED, ProviderReply(written(body)))
    assert caught.value.reason == "no candidates"


def test_tokens_are_counted() -> None:
    usage = {"promptTokenCount": 5, "toolUsePromptTokenCount": 1, "cachedContentTokenCount": 2,
             "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 13}  # fmt: skip
    begun = response({"text": "a"}, usageMetadata={"promptTokenCount": 5})
    _, found = streamed(begun, response(finish="STOP", usageMetadata=usage))
    assert found.usage == Usage(6, 7, 2, 4)


# streams

PARTS = st.lists(
    st.one_of(
        st.builds(lambda text: {"text": text}, st.text(min_size=1, max_size=5)),
        st.builds(lambda text: {"text": text, "thought": True}, st.text(min_size=1, max_size=5)),
        st.just({"functionCall": CALL, "thoughtSignature": SIGNATURE}),
        st.just({"text": "", "thoughtSignature": SIGNATURE}),
        st.just({"executableCode": {"code": "1"}}),
    ),
    max_size=6,
)


@given(PARTS, st.data())
def test_a_stream_in_any_pieces_gives_the_same(parts: list[Any], data: st.DataObject) -> None:
    """However texts are cut, and however many parts come at once."""
    cut: list[Any] = []
    for part in parts:
        text = part.get("text", "")
        at = data.draw(st.integers(0, len(text)))
        cut += [{**part, "text": each} for each in (text[:at], text[at:])] if text else [part]
    events: list[Any] = []
    while cut:
        count = data.draw(st.integers(1, len(cut)))
        events.append(response(*cut[:count]))
        cut = cut[count:]
    pieces, found = streamed(*events, response(finish="STOP"))
    whole = read(*parts)
    assert found == whole
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [piece.tool_call for piece in pieces if piece.tool_call] == [*whole.tool_calls]
    assert "".join(piece.reasoning for piece in pieces) == "".join(
        part.text for part in whole.message.content if isinstance(part, Reasoning)
    )


def test_what_says_nothing_does_not_end_a_stream() -> None:
    quiet = [{"usageMetadata": {"promptTokenCount": 1}}, response(),
             response(finish="FINISH_REASON_UNSPECIFIED")]  # fmt: skip
    decoder = GenerateContent().decoder(ASKED)
    for event in quiet:
        assert list(decoder.feed(StreamEvent(written(event)))) == []
    assert not decoder.done


@pytest.mark.parametrize(
    "event",
    [
        b"[]",
        b'{"candidates": {}}',
        b'{"candidates": [1]}',
        b'{"candidates": [{"content": 1}]}',
        b'{"candidates": [{"content": {"parts": 1}}]}',
        b'{"candidates": [{"content": {"parts": [{"text": 1}]}}]}',
        b'{"candidates": [{"content": {"parts": [{"inlineData": {"data": "!"}}]}}]}',
        b'{"candidates": [{"content": {"parts": [{"inlineData": {}}]}}]}',
    ],
)
def test_what_is_no_event_is_malformed(event: bytes) -> None:
    with pytest.raises(MalformedReply):
        GenerateContent().decoder(ASKED).feed(StreamEvent(event))


def test_an_event_named_error_is_one() -> None:
    with pytest.raises(ServiceUnavailable, match="failed"):
        GenerateContent().decoder(ASKED).feed(StreamEvent(b'{"message": "it failed"}', "error"))


# errors

INVALID = "INVALID_ARGUMENT"
TOO_LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
FAILURES: Sequence[tuple[Any, type[GenaiError], float | None]] = [
    (problem(400, INVALID, reason("API_KEY_INVALID")), AuthenticationFailed, None),
    (problem(400, INVALID, message=TOO_LONG), ContextOverflow, None),
    (problem(400, INVALID), BadRequest, None),
    (problem(400, "FAILED_PRECONDITION"), BadRequest, None),
    (problem(403, "PERMISSION_DENIED", reason("SERVICE_DISABLED")), AuthenticationFailed, None),
    (problem(404, "NOT_FOUND"), BadRequest, None),
    (problem(429, "RESOURCE_EXHAUSTED", reason("x"), wait("37.5s")), RateLimited, 37.5),
    (problem(429, "RESOURCE_EXHAUSTED", wait("soon"), wait("1e999s"), wait("-1s")), RateLimited,
     None),
    (problem(429, "RESOURCE_EXHAUSTED", 1, None, {"reason": []}, {"retryDelay": 3}), RateLimited,
     None),
    (problem(503, "UNAVAILABLE", wait("0s")), ServiceUnavailable, 0),
    (problem(504, "DEADLINE_EXCEEDED"), ServiceUnavailable, None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "retry_after"), FAILURES)
def test_a_failure_is_told_by_its_kind(
    body: Any, kind: type[GenaiError], retry_after: float | None
) -> None:
    status = body["error"]["code"]
    for text in (written(body), written([body])):
        error = GenerateContent().map_error(ProviderReply(text, status))
        assert type(error) is kind
        assert (error.status, getattr(error, "retry_after", None)) == (status, retry_after)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503}, ServiceUnavailable),
        ({"status": "RESOURCE_EXHAUSTED"}, RateLimited),
        ({"status": "UNAUTHENTICATED", "code": 1}, AuthenticationFailed),
        ({"status": "NEW", "message": "a\nb"}, ServiceUnavailable),
        ("no", ServiceUnavailable),
    ],
)
def test_a_failure_amid_a_stream_is_raised(error: Any, kind: type[GenaiError]) -> None:
    with pytest.raises(kind) as caught:
        streamed({"error": error})
    assert type(caught.value) is kind
    assert "\n" not in caught.value.message


# embeddings


def embed(**more: Any) -> Any:
    call = EmbedCall(model_id="m", texts=["a", "b"], **more)
    return json.loads(EmbedContent().prepare_request(call).data())["requests"]


def test_texts_are_embedded_for_a_purpose() -> None:
    first, second = embed(purpose="query", parameters={"dimensions": 128})
    assert first == {"model": "models/m", "content": {"parts": [{"text": "a"}]},
                     "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 128}  # fmt: skip
    assert second["content"] == {"parts": [{"text": "b"}]}
    assert embed()[0]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert embed(parameters={"task_type": "CLUSTERING"})[0]["taskType"] == "CLUSTERING"
    assert "taskType" not in embed(variant={"purpose": False})[0]


def test_vertex_is_asked_in_another_form() -> None:
    content = {"parts": [{"text": "a"}]}
    assert embed(variant={"nested": True})[0] == {
        "content": content, "embedContentConfig": {"taskType": "RETRIEVAL_DOCUMENT"},
    }  # fmt: skip
    assert embed(variant={"nested": True, "purpose": False})[0] == {"content": content}
