"""What is read of Ollama's replies, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from genai_wire_ollama.dialect.chat import OllamaChat
from hypothesis import given
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Image,
    Message,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderError,
    RateLimited,
    ServiceUnavailable,
)
from genai_host.http.stream_parsers import read_ndjson
from genai_host_testing.services.ollama import CALL, END, chat_event

CHAT = OllamaChat()
CALLED = ChatCall(model_id="m", messages=[Message("user", "hi")])


def read(body: bytes, call: ChatCall = CALLED) -> Completion:
    return CHAT.extract_result(call, ProviderReply(body))


def decoded(events: Iterable[bytes]) -> tuple[list[Delta], Completion]:
    decoder = CHAT.decoder(CALLED)
    pieces = [piece for each in events for piece in decoder.feed(StreamEvent(each))]
    return pieces, decoder.finish()


def test_a_whole_reply_is_read() -> None:
    body = chat_event("hello", END, thinking="hm", images=["iVBORw=="], tool_calls=[CALL])
    found = read(body)
    assert found.message.content == (
        Reasoning("hm"),
        Text("hello"),
        Image(b"\x89PNG"),
        ToolCall("call_0", "look", {"at": "é"}),
    )
    assert (found.finish, found.vendor_finish, found.usage) == ("tool_calls", "stop", Usage(3, 2))


def test_a_stream_gives_the_same() -> None:
    events = [
        chat_event(thinking="h"),
        chat_event("he", thinking="m"),
        chat_event("llo"),
        chat_event(tool_calls=[CALL]),
        chat_event(tool_calls=[CALL, CALL]),
        chat_event(fields=END),
    ]
    pieces, found = decoded(events)
    calls = [ToolCall(f"call_{at}", "look", {"at": "é"}) for at in range(3)]
    assert pieces == [
        Delta(reasoning="h"),
        Delta("he", "m"),
        Delta("llo"),
        *(Delta(tool_call=call) for call in calls),
    ]
    assert found == read(chat_event("hello", END, thinking="hm", tool_calls=[CALL] * 3))


def test_ids_of_calls_are_those_of_the_service_or_number_the_conversation_through() -> None:
    before = Message("assistant", [ToolCall("call_0", "look"), ToolCall("x", "look")])
    call = ChatCall(model_id="m", messages=[Message("user", "hi"), before])
    body = chat_event(fields=END, tool_calls=[CALL, {**CALL, "id": "call_ab"}, CALL])
    assert [each.id for each in read(body, call).tool_calls] == ["call_2", "call_ab", "call_4"]
    assert read(body, call) == read(body, call)


def test_an_id_is_new_where_the_beginning_of_a_conversation_is_not_shown() -> None:
    before = Message("assistant", [ToolCall("call_1", "look")])
    call = ChatCall(model_id="m", messages=[Message("user", "hi"), before])
    found = read(chat_event(fields=END, tool_calls=[CALL, CALL]), call)
    assert [each.id for each in found.tool_calls] == ["call_2", "call_3"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": [1]}, ToolCall("call_0", "look", {"a": [1]})),
        (None, ToolCall("call_0", "look")),
        ('{"a": 1}', ToolCall("call_0", "look", {"a": 1})),
        ("", ToolCall("call_0", "look")),
        ("[1]", ToolCall("call_0", "look", malformed="[1]")),
        ("{", ToolCall("call_0", "look", malformed="{")),
    ],
)
def test_arguments_come_as_an_object_or_as_its_text(arguments: Any, expected: ToolCall) -> None:
    call = {"function": {"name": "look", "arguments": arguments}}
    assert read(chat_event(fields=END, tool_calls=[call])).tool_calls == (expected,)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("load", "other"),
        ("unload", "other"),
        ("something new", "stop"),
        ("max_tokens", "length"),
        (None, "stop"),
    ],
)
def test_the_reason_of_an_end_is_brought_to_the_usual_words(
    reason: str | None, finish: str
) -> None:
    found = read(chat_event("x", {**END, "done_reason": reason}))
    assert (found.finish, found.vendor_finish) == (finish, reason or "")


def test_an_answer_that_is_cut_amid_a_call_is_no_call_of_a_tool() -> None:
    found = read(chat_event(fields={**END, "done_reason": "length"}, tool_calls=[CALL]))
    assert found.finish == "length"


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"done": true}',
        b'{"message": 1, "done": true}',
        chat_event(fields=END, tool_calls=[1]),
        chat_event(fields=END, images=["no base64!"]),
        chat_event(fields=END, images=[1]),
        chat_event(fields=END, images=[""]),
    ],
)
def test_what_is_no_reply_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReply):
        read(body)


def test_a_reply_that_does_not_say_that_it_is_done_is_none() -> None:
    for done in (False, None, 1, "true"):
        with pytest.raises(IncompleteReply) as caught:
            read(chat_event("hel", {**END, "done": done}))
        assert caught.value.text == "hel"


@pytest.mark.parametrize(
    "last",
    [
        b'{"done": true, "done_reason": "stop"}',
        b'{"message": {}, "done_reason": "stop"}',
        b"[DONE]",
    ],
)
def test_a_stream_may_end_with_any_of_its_marks(last: bytes) -> None:
    found = decoded([chat_event("hello"), last])[1]
    assert (found.text, found.finish) == ("hello", "stop")


def test_an_end_that_is_repeated_gives_a_call_once() -> None:
    call = {"id": "c", **CALL}
    end = chat_event(fields=END, tool_calls=[call])
    pieces, found = decoded([end, end])
    assert [piece.tool_call for piece in pieces] == [*found.tool_calls]
    assert len(found.tool_calls) == 1


def test_two_calls_with_one_id_are_two() -> None:
    calls = [{"id": "c", "function": {"name": "look", "arguments": {"at": at}}} for at in "ab"]
    found = read(chat_event(fields=END, tool_calls=calls))
    assert len({call.id for call in found.tool_calls}) == 2


def test_a_list_of_parts_may_be_the_content() -> None:
    assert read(chat_event(fields=END, content=[{"type": "text", "text": "hello"}])).text == "hello"


def test_a_reply_that_the_service_broke_off_is_no_answer() -> None:
    with pytest.raises(IncompleteReply, match="error") as caught:
        read(chat_event("hel", {**END, "done_reason": "error"}))
    assert caught.value.text == "hel"
    with pytest.raises(ServiceUnavailable, match="failed"):
        CHAT.decoder(CALLED).feed(StreamEvent(b'{"message": "it failed"}', "error"))


def test_an_error_amid_a_stream_is_raised() -> None:
    decoder = CHAT.decoder(CALLED)
    decoder.feed(StreamEvent(chat_event("hel")))
    with pytest.raises(ServiceUnavailable, match="the model failed"):
        decoder.feed(StreamEvent(b'{"error": "the model failed"}'))
    with pytest.raises(RateLimited):
        decoder.feed(StreamEvent(b'{"error": "slow down", "status": 429}'))
    with pytest.raises(IncompleteReply) as caught:
        decoder.finish()
    assert caught.value.text == "hel"


# the bytes

said = st.lists(
    st.builds(
        lambda text, thinking, calls: chat_event(text, thinking=thinking, tool_calls=calls),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.text(max_size=3, alphabet="é\u2028\n\r "),
        st.sampled_from([[], [], [CALL]]),
    ),
    max_size=6,
)


@given(said, st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.data())
def test_it_is_no_matter_where_a_stream_is_split(
    events: list[bytes], end: bytes, data: st.DataObject
) -> None:
    whole = b"".join(each + end for each in (*events, chat_event(fields=END)))
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=9).map(sorted))
    blocks = [whole[at:to] for at, to in zip([0, *places], [*places, len(whole)], strict=True)]
    framed = [each.data for each in read_ndjson(blocks)]
    assert decoded(framed) == decoded([*events, chat_event(fields=END)])


def test_a_stream_that_is_cut_at_any_byte_is_no_answer() -> None:
    events = [chat_event(f"w{number} ") for number in range(20)]
    whole = b"".join(each + b"\n" for each in (*events, chat_event(fields=END)))
    for length in range(len(whole) - 1):  # without its last byte, a line end, it is whole
        with pytest.raises((IncompleteReply, MalformedReply)):
            decoded(each.data for each in read_ndjson([whole[:length]]))
    assert decoded(each.data for each in read_ndjson([whole[:-1]]))[1].usage == Usage(3, 2)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["message", "content", "thinking", "images", "tool_calls", "function", "name",
                 "arguments", "done", "done_reason", "eval_count", "error", "response", "status"]
            ),
            inner,
        ),
    )
)  # fmt: skip
def test_whatever_comes_is_read_or_is_a_typed_error(value: Any) -> None:
    body = json.dumps(value).encode()
    try:
        found = CHAT.extract_result(CALLED, ProviderReply(body))
    except GenaiError:
        pass
    else:
        assert isinstance(found.text, str)
    error = CHAT.map_error(ProviderReply(body, 400))
    assert error is None or "\n" not in error.message


# errors


LARGER = "shorten the prompt, or raise num_ctx: --param num_ctx=N, or num_ctx of the provider"


@pytest.mark.parametrize(
    ("status", "body", "kind", "hint"),
    [
        (404, {"error": "model 'llama9:7b' not found"}, BadRequest, "ollama pull llama9:7b"),
        (404, {"error": 'model "a/b" not found, try pulling it first'}, BadRequest,
         "ollama pull a/b"),
        (404, {"error": "no such model"}, BadRequest,
         "list the models: ollama list"),
        (404, {"error": "model '$(rm -rf)' not found"}, BadRequest,
         "list the models: ollama list"),
        (401, {"error": "unauthorized", "signin_url": "https://x.invalid"}, AuthenticationFailed,
         "this model requires an account at ollama.com: ollama signin"),
        (401, {"error": "unauthorized"}, AuthenticationFailed, ""),
        (400, {"error": "the input length exceeds the context length"}, ContextOverflow, LARGER),
        (400, {"error": "the request exceeds the available context size"}, ContextOverflow, LARGER),
        (400, {"error": '"m" does not support tools'}, BadRequest, ""),
        (429, {"error": "slow down"}, RateLimited, ""),
        (500, {"error": "context length"}, ServiceUnavailable, ""),
        (503, {"error": {"message": "busy", "code": 503}}, ServiceUnavailable, ""),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do(
    status: int, body: Any, kind: type[ProviderError], hint: str
) -> None:
    error = CHAT.map_error(ProviderReply(json.dumps(body).encode(), status))
    assert type(error) is kind
    assert (error.status, error.hint) == (status, hint)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"error": null}'])
def test_what_says_nothing_is_left_to_its_status(body: bytes) -> None:
    assert CHAT.map_error(ProviderReply(body, 404)) is None


def test_an_error_is_one_line_of_some_length() -> None:
    body = json.dumps({"error": "a\nb\t" + "c" * 10_000}).encode()
    error = CHAT.map_error(ProviderReply(body, 400))
    assert error is not None
    assert error.message.startswith("a b c")
    assert len(error.message) == 1000
