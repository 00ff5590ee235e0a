"""What replies of services say: why a model stopped, tool calls, and errors of any form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from genai_host.api import ChatCall, Message, ProviderReply, ToolCall, ToolResult, with_tool_names
from genai_host.api.error_replies import (
    error_object,
    error_of_reply,
    explain_unreadable,
    message_in,
    one_line,
    service_error,
)
from genai_host.api.results import finish_word, must_be_vectors, read_finish, weightier
from genai_host.api.tool_calls import ToolCallAssembler, distinct_calls, read_tool_call
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    IncompleteReply,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
)

WORDS = {
    "stop": ["stop", "STOP", "eos", "eos_token", "end_turn", "EndTurn", "stop_sequence", "COMPLETE",
             "FINISH_REASON_STOP", "", "never heard of"],
    "length": ["length", "max_tokens", "MAX_TOKENS", "maxTokens", "model_length",
               "max_output_tokens", "model_context_window_exceeded", "token limit reached"],
    "tool_calls": ["tool_use", "function_call"],
    "content_filter": ["SAFETY", "refusal", "blocked_by_policy"],
    "other": ["pause_turn", "malformed_function_call"],
}  # fmt: skip


@pytest.mark.parametrize(("reason", "words"), WORDS.items(), ids=WORDS)
def test_a_word_is_known_in_any_spelling(reason: str, words: list[str]) -> None:
    assert {word: read_finish(word) for word in words} == dict.fromkeys(words, reason)


@pytest.mark.parametrize("word", ["error", "network_error", "Aborted", "timeout"])
def test_a_word_for_a_failure_is_no_end_of_an_answer(word: str) -> None:
    with pytest.raises(IncompleteReply, match=word) as caught:
        read_finish(word, text="half")
    assert caught.value.text == "half"


def test_calls_make_an_ordinary_end_one_for_tools_alone() -> None:
    assert read_finish("stop", calls=True) == "tool_calls"
    assert read_finish("length", calls=True) == "length"


def test_a_format_may_take_unknown_words_otherwise() -> None:
    assert read_finish("never heard of", unknown="other") == "other"


@pytest.mark.parametrize("value", [None, 0, 5, True, [], {}, "", "null", "none", "IN_PROGRESS"])
def test_what_is_no_word_ends_nothing(value: Any) -> None:
    assert finish_word(value) == ""


def test_a_word_is_bounded() -> None:
    assert len(finish_word("x" * 100_000)) == 100


@pytest.mark.parametrize(("first", "second", "expected"), [
    ("", "stop", "stop"),
    ("stop", "", "stop"),
    ("stop", "eos", "eos"),
    ("length", "stop", "length"),
    ("stop", "length", "length"),
    ("error", "stop", "error"),
    ("tool_calls", "stop", "tool_calls"),
])  # fmt: skip
def test_of_two_words_the_one_that_says_more_counts(first: str, second: str, expected: str) -> None:
    assert weightier(first, second) == expected


@pytest.mark.parametrize(("vectors", "message"), [
    ([[1]], "expected 2 vectors, one per text, received 1"),
    ([[1], []], "a vector is empty"),
    ([[1], [2, 3]], "the vectors have different sizes: 1, 2"),
])  # fmt: skip
def test_vectors_that_are_wrong(vectors: Any, message: str) -> None:
    with pytest.raises(MalformedReply, match=message):
        must_be_vectors(vectors, 2)


UTC, CET = '{"tz":"UTC"}', '{"tz":"CET"}'


Piece = tuple[int | None, str, str, str]
Call = tuple[str, str, Any]
TWO: list[Call] = [("a", "f", {"tz": "UTC"}), ("b", "g", {"tz": "CET"})]
ONE = TWO[:1]


def assembled(*pieces: Piece, parameter: str = "") -> list[Call]:
    """The calls, as id, name and arguments."""
    assembler = ToolCallAssembler()
    for index, id, name, arguments in pieces:
        assembler.add(index=index, id=id, name=name, arguments=arguments, parameter=parameter)
    return [(call.id, call.name, call.malformed or call.arguments) for call in assembler.calls()]


def unnamed(second: str) -> list[Call]:
    return [("call_0", "f", {"tz": "UTC"}), ("call_1", second, {"tz": "CET"})]


PIECES: Mapping[str, tuple[Sequence[Piece], list[Call]]] = {
    **{f"two calls by id, {at}": ([(at, "a", "f", UTC), (at, "b", "g", CET)], TWO)
       for at in (0, None)},
    **{f"two calls by id in pieces, {at}": (
        [(at, "a", "f", '{"tz":'), (at, "b", "g", '{"tz":'), (at, "a", "", '"UTC"}'),
         (at, "b", "", '"CET"}')], TWO) for at in (0, None)},
    **{f"a name after whole arguments begins a call, {at} {name}": (
        [(at, "", "f", UTC), (at, "", name, CET)], unnamed(name))
       for at in (0, None) for name in "fg"},
    **{f"a name before its arguments begins a call, {at} {name}": (
        [(at, "", "f", ""), (at, "", "", UTC), (at, "", name, ""), (at, "", "", CET)],
        unnamed(name)) for at in (0, None) for name in "fg"},
    **{f"a repeated name, {at} {id}": (
        [(at, "a", "f", ""), *((at, id, "f", each) for each in ("", '{"tz":', '"UTC"}', ""))], ONE)
       for at in (0, None) for id in ("a", "")},
    "a whole call, repeated": ([(0, "a", "f", UTC), (0, "a", "f", UTC)], ONE),
    "a whole call with another index": ([(0, "a", "f", UTC), (1, "a", "f", UTC)], ONE),
    "pieces without a name and with other ids": (
        [(0, "a", "f", ""), (0, "x", "", '{"tz":'), (0, "y", "", '"UTC"}')], ONE),
    **{f"a word for a missing name, {name}": (
        [(0, "a", "f", '{"tz":'), (0, "", name, '"UTC"}')], ONE) for name in ("null", "None")},
    **{f"the name {name}": ([(0, "a", name, UTC)], [("a", name, {"tz": "UTC"})])
       for name in ("null", "None")},
    "a name in pieces": ([(0, "a", "get_", ""), (0, "", "time", UTC)],
                         [("a", "get_time", {"tz": "UTC"})]),
    "the order of the indexes": ([(1, "b", "g", CET), (0, "a", "f", UTC)], TWO),
    **{f"an empty object before the arguments, {id}": (
        [(0, "a", "f", "{}"), (0, id, "", '{"tz":'), (0, id, "", '"UTC"}')], ONE)
       for id in ("a", "")},
    "an empty object, and all again": ([(0, "a", "f", "{}"), (0, "a", "f", UTC)], ONE),
    "an empty object": ([(0, "a", "f", "{}")], [("a", "f", {})]),
    "other arguments with the same id": ([(0, "a", "f", UTC), (0, "a", "f", CET)],
                                         [*ONE, ("call_1", "f", {"tz": "CET"})]),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "calls"), PIECES.values(), ids=PIECES)
def test_calls_are_assembled(pieces: Sequence[Piece], calls: list[Call]) -> None:
    assert assembled(*pieces) == calls


def test_a_call_with_two_names_is_malformed() -> None:
    with pytest.raises(MalformedReply, match="two names"):
        assembled((0, "a", "f", '{"tz":'), (0, "a", "g", '"UTC"}'))


TEXTS: Mapping[str, tuple[Sequence[Any], list[tuple[str, str, str]]]] = {
    "no index": ([(None, "a", "f", "{}"), (None, "b", "f", "y")],
                 [("a", "f", "{}"), ("b", "f", "y")]),
    "one index": ([(0, "a", "f", "x"), (0, "b", "f", "y"), (0, "b", "", "z")],
                  [("a", "f", "x"), ("b", "f", "yz")]),
    "an index at first": ([(0, "a", "f", "{}"), (None, "", "", "{y")], [("a", "f", "{}{y")]),
    "a name in pieces": ([(0, "a", "f", ""), (0, "", "g", "x")], [("a", "fg", "x")]),
    "a late name": ([(0, "a", "", "x"), (0, "", "f", "y")], [("a", "f", "xy")]),
    "a repeated name": ([(0, "a", "f", "[]"), (0, "", "f", "[]")], [("a", "f", "[][]")]),
    "all repeated": ([(0, "a", "f", "x"), (0, "a", "f", "x")], [("a", "f", "x")]),
    "no text": ([(0, "a", "f", "")], [("a", "f", "")]),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "calls"), TEXTS.values(), ids=TEXTS)
def test_arguments_may_be_plain_text(pieces: Any, calls: Any) -> None:
    assert assembled(*pieces, parameter="in") == [
        (id, name, {"in": text}) for id, name, text in calls
    ]


def test_each_call_has_an_id_of_its_own() -> None:
    calls = [ToolCall("call_1", "f"), ToolCall("", "f"), ToolCall("call_1", "g")]
    assert [call.id for call in distinct_calls(calls)] == ["call_1", "call_2", "call_3"]
    assert distinct_calls([calls[0], calls[0]]) == calls[:1]


@given(st.dictionaries(st.text(), st.text() | st.lists(st.integers())), st.data())
def test_arguments_may_be_cut_anywhere(arguments: dict[str, Any], data: st.DataObject) -> None:
    """Braces, quotes and backslashes in strings end nothing."""
    text = json.dumps(arguments)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    again = [(0, "", "f", piece) for piece in pieces]
    assert assembled(*again, (0, "", "g", text)) == [
        ("call_0", "f", arguments),
        ("call_1", "g", arguments),
    ]


@pytest.mark.parametrize("arguments", [None, "", "  ", "null", [], "[]", "{}"])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    assert read_tool_call("a", "f", arguments) == ToolCall("a", "f", {})


@pytest.mark.parametrize("arguments", [UTC, {"tz": "UTC"}, json.dumps(UTC)])
def test_arguments_are_text_or_an_object(arguments: Any) -> None:
    assert read_tool_call("a", "f", arguments) == ToolCall("a", "f", {"tz": "UTC"})


PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body>Please</body></html>"


def error_message(body: Any, status: int = 400, content_type: str = "") -> str:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of_reply(ProviderReply(data, status, {"Content-Type": content_type})).message


@pytest.mark.parametrize(("body", "message"), [
    ([{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}], "no"),
    (["no", "never"], "no; never"),
    ("no", "no"),
    ({"error": "no"}, "no"),
    ({"error": {"message": "no"}}, "no"),
    ({"error": {"message": {"detail": "no"}}}, "no"),
    ({"error": ["no"]}, "no"),
    ({"error": {"name": ["is required"]}}, "name: is required"),
    ({"error": "Bad Request", "message": "no", "statusCode": 400}, "Bad Request: no"),
    ({"error": "invalid_grant", "error_description": "no"}, "invalid_grant: no"),
    ({"error": True, "message": "no"}, "no"),
    ({"error": {"message": '{"error": {"message": "no"}}'}}, "no"),
    ({"error": {"message": "it failed", "metadata": {"raw": '{"detail": "no"}', "at": "x"}}},
     "it failed: no"),
    ({"error": {"message": "{it is no JSON"}}, "{it is no JSON"),
    (b'\xef\xbb\xbf{"detail": "no"}', "no"),
    ({"detail": "no"}, "no"),
    ({"detail": {"message": "no"}}, "no"),
    (
        {
            "detail": [
                {"loc": ["body", "messages", 0], "msg": "Field required", "type": "missing"},
                {"loc": ["body", "n"], "msg": "no", "type": "int", "input": "SECRET"},
            ]
        },
        "body.messages.0: Field required; body.n: no",
    ),
    ({"errors": ["no"]}, "no"),
    ({"errors": [{"code": 7, "message": "no"}], "success": False}, "no"),
    ({"errors": {"messages": ["is required"], "n": ["no"]}}, "messages: is required; n: no"),
    ({"msg": "no"}, "no"),
    ({"Message": "no"}, "no"),
    ({"type": "about:blank", "title": "Bad Request", "detail": "no"}, "Bad Request: no"),
    ({"message": "no", "error": {"message": "no way"}}, "no way"),
    (b'data: {"error": {"message": "no"}}\n\n', "no"),
    (b'event: error\ndata: {"message": "no"}\n\n', "no"),
    (b"no", "the service answered with status 400: no"),
    (b'{"error": "cut', 'the service answered with status 400: {"error": "cut'),
    (PAGE, "the service answered with status 400: Sign in"),
    (b"<HTML><h1 class='x'>No &amp; no</h1>", "the service answered with status 400: No & no"),
    (b"<Error><Code>7</Code><Message>no</Message></Error>",
     "the service answered with status 400: 7 no"),
    ("nö".encode("latin-1"), "the service answered with status 400: nö"),
], ids=repr)  # fmt: skip
def test_what_the_service_says_is_the_message(body: Any, message: str) -> None:
    charset = "text/plain; charset=iso-8859-1" if body == b"n\xf6" else ""
    assert error_message(body, content_type=charset) == message


@pytest.mark.parametrize("body", [
    b"", b" \r\n", b"\xff\xfe\x00\x01", b"\x1f\x8b\x08\x00" + bytes(range(200)), b"<p>", b"--",
    b"[]", b"{}", b"[[[[", b"5", b'{"error": null}', b'{"detail": []}', b'{"choices": [{}]}',
])  # fmt: skip
def test_what_says_nothing_is_told_by_its_status(body: bytes) -> None:
    assert error_message(body) == "the service answered with status 400"


@pytest.mark.parametrize(("error", "expected"), [
    (None, None), ("", None), ({}, None), ({"code": 1}, {"code": 1}),
    ("a\nb", {"message": "a b"}), (5, {"message": "5"}),
    ([{"message": "a"}, "b"], {"message": "a; b"}), ("\x07", {"message": r"'\x07'"}),
])  # fmt: skip
def test_an_error_of_any_type_is_an_object(error: Any, expected: Any) -> None:
    assert error_object({"error": error}) == expected
    assert error_object({}) is None
    assert expected is None or message_in(expected)


def test_a_message_is_one_line_of_what_can_be_shown() -> None:
    assert one_line("a\x1b[31m\n\tb\u202e\u200b \ud83cc") == "a[31m b c"
    for body in ({"detail": "n\x1b" * 5000}, b"n\x1b" * 5000, b"<title>" + b"n\x07" * 5000):
        assert len(error_message(body)) <= 1000
        assert error_message(body).isprintable()


def test_what_another_service_answers_says_where_to_look() -> None:
    for status in (401, 403, 404, 405):
        assert "base_url" in error_of_reply(ProviderReply(PAGE, status)).hint
    assert "base_url" in error_of_reply(ProviderReply(b"404 page not found", 404)).hint
    assert error_of_reply(ProviderReply(PAGE, 503)).hint == ""
    assert error_of_reply(ProviderReply(b"no", 400)).hint == ""


@pytest.mark.parametrize(("body", "message"), [
    (PAGE, "the reply is a page of HTML, not JSON: Sign in"),
    (b"\xef\xbb\xbf \n<html>", "the reply is a page of HTML, not JSON"),
    (b"It works!", "the reply is a text, not JSON: It works!"),
    (b"", "the reply is empty"),
    (b" \n", "the reply is empty"),
])  # fmt: skip
def test_what_the_service_did_not_write_is_named(body: bytes, message: str) -> None:
    error = explain_unreadable(ProviderReply(body))
    assert error is not None
    assert error.message == message
    assert "base_url" in error.hint


@pytest.mark.parametrize(
    "body", [b"{}", b'{"choices": [', b"[1]", b"[" * 10_000, b"5", b"\xff\x00"]
)
def test_what_it_may_have_written_is_left_to_the_dialect(body: bytes) -> None:
    assert explain_unreadable(ProviderReply(body)) is None


OVERFLOWS = """\
This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.
max_tokens is too large: 9. This model's maximum context length is 8 tokens and your request
The decoder prompt (length 5000) is longer than the maximum model length of 4096.
You passed 5000 input tokens. However, the model's context length is only 4096 tokens.
the request exceeds the available context size, try increasing it
request (8000 tokens) exceeds the available context size (4096 tokens), try increasing it
Context size has been exceeded.
the input length exceeds the context length
prompt too long; exceeded max context length by 12 tokens
However, the model is loaded with context length of only 4096 tokens, which is not enough.
The number of tokens to keep from the initial prompt is greater than the context length.
Cannot truncate prompt with n_keep (9022) >= n_ctx (4096)
Reached context length of 4096 tokens with model (arch: qwen3)
Prompt contains 40000 tokens, too large for model with 32768 maximum context length
Please reduce the length of the messages or completion.
prompt is too long: 210000 tokens > 200000 maximum
input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000
The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).
the input token count is 40000 but model only supports up to 32768.
Input is too long for requested model.
Too many input tokens. Max input tokens: 8192, request input token count: 8500
Your input exceeds the context window of this model. Please adjust your input and try again.
Input tokens exceed the configured limit of 272000 tokens.
Invalid 'input[0]': maximum input length is 8192 tokens.
This endpoint's maximum context length is 131072 tokens. However, you requested about 150000.
This model's maximum prompt length is 131072 but the request contains 537812 tokens.
Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000
Input validation error: `inputs` must have less than 4095 tokens. Given: 5000
The input (5000 tokens) is longer than the model's context length (4096 tokens).
Requested token count exceeds the model's maximum context length of 4096 tokens.
Requested tokens (5000) exceed context window of 4096
Input length (265330) exceeds model's maximum context length (262144).
Prompt length (5000) exceeds maximum input length (4096).
The prompt is too long: 40000, model maximum context length: 32767
Range of input length should be [1, 30720]
too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000
invalid params, context window exceeds limit
Your request exceeded model token limit: 262144 (requested: 300000)
Prompt exceeds max length
prompt token count of 130000 exceeds the limit of 128000
""".splitlines()


@pytest.mark.parametrize("message", OVERFLOWS)
def test_a_prompt_beyond_the_window_is_told_by_its_words(message: str) -> None:
    for status in (400, 413, 422, 500):
        error = service_error(status, message)
        assert (type(error), error.status, error.retryable) == (ContextOverflow, status, False)
        assert "max_tokens" in error.hint
    assert type(service_error(429, message)) is RateLimited


@pytest.mark.parametrize("word", ["context_length_exceeded", "exceed_context_size_error"])
def test_a_prompt_beyond_the_window_is_told_by_its_code(word: str) -> None:
    assert type(service_error(400, "no", f"invalid_request_error {word}")) is ContextOverflow


@pytest.mark.parametrize(("status", "message", "kind"), [
    (400, "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
     BadRequest),
    (413, "on tokens per minute (TPM): Limit 6, Requested 7, please reduce your message size",
     BadRequest),
    (413, "Request exceeds the maximum allowed number of bytes.", BadRequest),
    (400, "the value of temperature exceeds the maximum of 2", BadRequest),
    (400, "metadata.name is too long", BadRequest),
    (400, "context_length is not a known parameter", BadRequest),
    (400, "Too many tokens, please wait before trying again.", BadRequest),
    (401, "this key may use no context window", AuthenticationFailed),
    (429, "Too many tokens per day", RateLimited),
    (503, "exceeds the available context size", ServiceUnavailable),
])  # fmt: skip
def test_other_errors_are_no_overflow(status: int, message: str, kind: type) -> None:
    assert type(service_error(status, message)) is kind


def test_a_result_has_the_name_of_the_last_call_before_it() -> None:
    """Some services use an id again."""
    first = Message("tool", ToolResult("call_0", content="a"))
    messages = [
        first,
        *(Message("assistant", [ToolCall("call_0", "alpha")]), first),
        *(Message("assistant", [ToolCall("call_0", "beta")]), first),
    ]
    call = with_tool_names(ChatCall(model_id="m", messages=messages))
    results = [
        part for each in call.messages for part in each.content if part.type == "tool_result"
    ]
    assert [getattr(each, "name", None) for each in results] == ["", "alpha", "beta"]
