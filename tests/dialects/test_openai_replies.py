"""OpenAI's chat completions: whole replies, streams, and whatever else comes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
from garbage import NESTED, WEIRD, cut, cuts, json_values, leak
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.chat_replies import ChatDecoder
from hypothesis import example, given
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Message,
    ProviderReply,
    Reasoning,
    StreamEvent,
    ToolCall,
    Usage,
)
from genai_host.api.codec import usual_codec
from genai_host.errors import (
    GenaiError,
    GenerationError,
    IncompleteReply,
    MalformedReply,
    ServiceUnavailable,
)
from genai_host_testing.purity import ValuePath, places_in, with_other

DIALECT = OpenAIChat()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])
DONE = StreamEvent(b"[DONE]")
LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK: dict[str, Any] = {
    "id": "1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at":"é"}'},
}


def read(reply: Any) -> Completion:
    data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return DIALECT.extract_result(CALL, ProviderReply(data))


def sent_again(completion: Completion) -> Any:
    """The messages of a request with what was answered."""
    call = ChatCall(model_id="m", messages=[completion.message])
    return json.loads(DIALECT.prepare_request(call).data())["messages"]


def said(message: Mapping[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, **choice}]}


def event(data: Any, name: str | None = None) -> StreamEvent:
    return StreamEvent(json.dumps(data).encode(), name)


def delta(piece: Mapping[str, Any], **choice: Any) -> StreamEvent:
    return event({"choices": [{"index": 0, "delta": piece, **choice}]})


def stream(events: Sequence[StreamEvent]) -> tuple[list[Delta], Completion]:
    decoder = DIALECT.decoder(CALL)
    pieces = [piece for each in events for piece in decoder.feed(each)]
    return pieces, decoder.finish()


# whole replies


@pytest.mark.parametrize(
    ("reply", "completion"),
    [
        (said({"content": "hi"}, finish_reason="stop"),
         Completion(Message("assistant", "hi"), vendor_finish="stop")),
        (said({"content": None}), Completion(Message("assistant", []))),
        (said({}, finish_reason="length"),
         Completion(Message("assistant", []), "length", vendor_finish="length")),
        (said({"content": "hi"}, finish_reason="eos"),
         Completion(Message("assistant", "hi"), vendor_finish="eos")),
        (said({"content": "hi"}, finish_reason="MAX_TOKENS"),
         Completion(Message("assistant", "hi"), "length", vendor_finish="MAX_TOKENS")),
        (said({"content": "hi"}, finish_reason=5), Completion(Message("assistant", "hi"))),
        (said({"content": [{"type": "text", "text": "h"}, "i"]}, finish_reason="stop"),
         Completion(Message("assistant", "hi"), vendor_finish="stop")),
        (said({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                           {"type": "reference", "reference_ids": [1]},
                           {"type": "text", "text": "hi"}]}, finish_reason="stop"),
         Completion(Message("assistant", [Reasoning("hm"), "hi"]), vendor_finish="stop")),
        (said({"reasoning": {"a": 1}, "content": "hi"}, finish_reason="stop"),
         Completion(Message("assistant", "hi"), vendor_finish="stop")),
        (said({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}], "content": "hi"}),
         Completion(Message("assistant", [Reasoning("hm"), "hi"]), extra={"openai-chat": {
             "message": {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}}})),
        (said({"reasoning_content": "hm", "content": "hi"}, finish_reason="stop"),
         Completion(Message("assistant", [Reasoning("hm"), "hi"]), vendor_finish="stop")),
        (said({"reasoning": "hm"}, finish_reason="stop"),
         Completion(Message("assistant", Reasoning("hm")), vendor_finish="stop")),
        (said({"refusal": "no"}, finish_reason="stop"),
         Completion(Message("assistant", "no"), "content_filter", vendor_finish="stop")),
        (said({"content": "So: ", "refusal": "no"}, finish_reason="stop"),
         Completion(Message("assistant", "So: no"), "content_filter", vendor_finish="stop")),
        (said({"content": ""}, finish_reason="content_filter"),
         Completion(Message("assistant", []), "content_filter", vendor_finish="content_filter")),
        (said({"tool_calls": [WIRE_LOOK]}, finish_reason="stop"),
         Completion(Message("assistant", LOOK), "tool_calls", vendor_finish="stop")),
        (said({"tool_calls": [WIRE_LOOK]}, finish_reason="length"),
         Completion(Message("assistant", LOOK), "length", vendor_finish="length")),
        (said({"content": "a", "tool_calls": None}, finish_reason="function_call"),
         Completion(Message("assistant", "a"), "tool_calls", vendor_finish="function_call")),
    ],
    ids=lambda value: json.dumps(value)[:70] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_reply_is_read(reply: Any, completion: Completion) -> None:
    assert read(reply) == completion


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ('{"a": [1]}', ToolCall("1", "f", {"a": [1]})),
        ("", ToolCall("1", "f")),
        ("{}", ToolCall("1", "f")),
        ('{"a', ToolCall("1", "f", malformed='{"a')),
        ("[1]", ToolCall("1", "f", malformed="[1]")),
        ({"a": [1]}, ToolCall("1", "f", {"a": [1]})),
        (None, ToolCall("1", "f")),
        ([1], ToolCall("1", "f", malformed="[1]")),
        ('{"a": NaN}', ToolCall("1", "f", malformed='{"a": NaN}')),
        ("[" * 100_000, ToolCall("1", "f", malformed="[" * 100_000)),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_arguments_that_are_no_object_are_kept_as_they_came(arguments: Any, call: ToolCall) -> None:
    wire = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    assert read(said({"tool_calls": [wire]})).tool_calls == (call,)
    piece = {"index": 0, **wire}
    assert stream([delta({"tool_calls": [piece]}), DONE])[1].tool_calls == (call,)


def test_a_tool_call_without_id_gets_one_of_its_own() -> None:
    wire = {"function": {"name": "f", "arguments": "{}"}}
    assert [call.id for call in read(said({"tool_calls": [wire, wire]})).tool_calls] == [
        "call_0",
        "call_1",
    ]


def test_usage_is_counted() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert read({**said({"content": "x"}), "usage": usage}).usage == Usage(10, 5, 4, 2)
    events = [delta({"content": "x"}), event({"choices": [], "usage": usage}), DONE]
    assert stream(events)[1].usage == Usage(10, 5, 4, 2)
    assert read({**said({"content": "x"}), "usage": None}).usage == Usage()


@pytest.mark.parametrize("reply", [{}, {"choices": []}, {"choices": None}, {"choices": [None]}])
def test_a_reply_without_an_answer_is_the_models_failure(reply: Any) -> None:
    with pytest.raises(GenerationError) as caught:
        read(reply)
    assert caught.value.reason == "no choices"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"<html>",
        b"\xff",
        b"[]",
        b"null",
        b'{"choices": [',
        b'{"choices": ' + NESTED + b"}",
        said({"content": [5]}),
        said({"content": [{"text": 5}]}),
        said({"content": 5}),
        said({"tool_calls": {"0": WIRE_LOOK}}),
        said({"tool_calls": [{"function": "look"}]}),
        {"choices": {"0": {}}},
    ],
    ids=lambda value: repr(value)[:50],
)
def test_what_is_no_reply_is_malformed(reply: Any) -> None:
    with pytest.raises(MalformedReply, match="the reply is malformed: "):
        read(reply)
    data = (
        reply
        if isinstance(reply, bytes)
        else json.dumps(reply).replace("message", "delta").encode()
    )
    with pytest.raises(MalformedReply, match="the reply is malformed: "):
        DIALECT.decoder(CALL).feed(StreamEvent(data))


def test_an_error_that_comes_late_is_raised() -> None:
    error = {"error": {"message": "overloaded", "code": 503}}
    with pytest.raises(ServiceUnavailable, match="overloaded"):
        read(error)
    with pytest.raises(ServiceUnavailable, match="overloaded"):
        stream([delta({"content": "a"}), event(error)])


@pytest.mark.parametrize(
    "error",
    [
        {"object": "error", "message": "overloaded", "code": 503},
        {"type": "error", "message": "overloaded", "code": 503},
        {"error": "overloaded"},
        {"choices": [{"index": 0, "message": {"content": "a"}, "delta": {"content": "a"},
                      "finish_reason": "error", "error": {"message": "overloaded", "code": 502}}]},
    ],
    ids=["object", "type", "text", "choice"],
)  # fmt: skip
def test_an_error_with_status_200_is_raised_in_any_form(error: Any) -> None:
    with pytest.raises(ServiceUnavailable, match="overloaded"):
        read(error)
    with pytest.raises(ServiceUnavailable, match="overloaded"):
        stream([delta({"content": "a"}), event(error), DONE])


@pytest.mark.parametrize(
    "data", [b'{"message": "overloaded"}', b'{"error": {"message": "overloaded"}}', b"overloaded"]
)
def test_an_event_named_error_is_one(data: bytes) -> None:
    with pytest.raises(ServiceUnavailable, match="overloaded"):
        stream([delta({"content": "a"}), StreamEvent(data, "error"), DONE])


@pytest.mark.parametrize("word", ["error", "network_error", "ABORTED", "cancelled"])
def test_a_reply_that_the_service_broke_off_is_no_answer(word: str) -> None:
    with pytest.raises(IncompleteReply, match=word) as caught:
        read(said({"content": "half"}, finish_reason=word))
    assert caught.value.text == "half"
    with pytest.raises(IncompleteReply, match=word):
        stream([delta({"content": "half"}), delta({}, finish_reason=word), DONE])


@pytest.mark.parametrize("details", [[], 0, "none", [{"cached_tokens": 1}]])
def test_details_of_usage_in_another_form_lose_no_answer(details: Any) -> None:
    names = ("prompt_tokens_details", "completion_tokens_details")
    usage = {"prompt_tokens": 3, "completion_tokens": "4", **dict.fromkeys(names, details)}
    found = read({**said({"content": "x"}), "usage": usage})
    assert (found.text, found.usage) == ("x", Usage(3))
    found = stream([delta({"content": "x"}), event({"choices": [], "usage": usage}), DONE])[1]
    assert (found.text, found.usage) == ("x", Usage(3))
    assert read({**said({"content": "x"}), "usage": details}).text == "x"


def test_the_former_function_call_is_a_tool_call() -> None:
    former = {"function_call": WIRE_LOOK["function"]}
    look = ToolCall("call_0", "look", {"at": "é"})
    assert read(said(former, finish_reason="function_call")).tool_calls == (look,)
    assert stream([delta(former), DONE])[1].tool_calls == (look,)


# streams


def test_a_stream_may_end_with_its_reason_alone() -> None:
    usage = event({"choices": [], "usage": {"prompt_tokens": 3}})
    _, found = stream([delta({"content": "a"}), delta({}, finish_reason="stop"), usage])
    assert found == Completion(Message("assistant", "a"), usage=Usage(3), vendor_finish="stop")


def test_a_stream_may_end_with_its_mark_alone() -> None:
    _, found = stream([delta({"content": "a"}, finish_reason=None), DONE])
    assert found == Completion(Message("assistant", "a"))


def test_a_stream_may_have_the_whole_answer_in_one_event() -> None:
    whole = said({"content": "a", "tool_calls": [WIRE_LOOK]}, finish_reason="tool_calls")
    pieces, found = stream([delta({"role": "assistant"}), event(whole), DONE])
    assert pieces == [Delta("a"), Delta(tool_call=LOOK)]
    assert found == read(whole)
    assert stream([delta({"content": "a"}), event(whole), DONE])[1].text == "a"


def test_a_number_as_reason_is_no_end() -> None:
    with pytest.raises(IncompleteReply):
        stream([delta({"content": "a"}, finish_reason=0)])


@pytest.mark.parametrize("words", [("length", "stop"), ("stop", "length")])
def test_a_cut_that_is_told_once_of_two_times_counts(words: tuple[str, str]) -> None:
    events = [delta({}, finish_reason=word) for word in words]
    assert stream([delta({"content": "a"}), *events, DONE])[1].finish == "length"


def test_a_reason_that_is_repeated_gives_the_calls_once() -> None:
    call = delta({"tool_calls": [{"index": 0, **WIRE_LOOK}]})
    finish = delta({}, finish_reason="tool_calls")
    pieces, found = stream([call, finish, call, finish, DONE])
    assert pieces == [Delta(tool_call=LOOK)]
    assert found.tool_calls == (LOOK,)


def test_thoughts_among_the_parts_of_the_content_are_reasoning() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    pieces, found = stream([delta({"content": [thought]}), delta({"content": "a"}), DONE])
    assert pieces == [Delta(reasoning="hm"), Delta("a")]
    assert found.message == Message("assistant", [Reasoning("hm"), "a"])


def test_a_stream_gives_its_pieces_and_then_the_whole() -> None:
    pieces, found = stream(
        [
            delta({"role": "assistant", "content": ""}),
            delta({"reasoning_content": "hm"}),
            delta({"content": "a"}),
            delta({"content": "b", "reasoning": "!"}),
            delta({"tool_calls": [{"index": 1, "id": "2", "function": {"name": "g"}}]}),
            delta({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "look"}}]}),
            delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"at": '}}]}),
            delta({"tool_calls": [{"index": 0, "function": {"arguments": '"é"}'}}]}),
            delta({}, finish_reason="tool_calls"),
            event({"choices": [], "usage": {"prompt_tokens": 3}}),
            DONE,
        ]
    )
    calls = [LOOK, ToolCall("2", "g")]
    assert pieces == [
        Delta(reasoning="hm"),
        Delta("a"),
        Delta("b", "!"),
        *(Delta(tool_call=call) for call in calls),
    ]
    message = Message("assistant", [Reasoning("hm!"), "ab", *calls])
    assert found == Completion(message, "tool_calls", Usage(3), vendor_finish="tool_calls")


def test_a_refusal_is_shown_as_it_comes() -> None:
    pieces, found = stream([delta({"refusal": piece}) for piece in ("I ", "won't.")] + [DONE])
    assert pieces == [Delta("I "), Delta("won't.")]
    assert (found.text, found.finish) == ("I won't.", "content_filter")


@pytest.mark.parametrize("index", [{}, {"index": None}], ids=["missing", "null"])
def test_tool_calls_without_an_index_are_calls_of_their_own(index: dict[str, None]) -> None:
    wires = [{**index, "id": id, "function": {"name": id, "arguments": "{}"}} for id in "ab"]
    _, found = stream([*(delta({"tool_calls": [wire]}) for wire in wires), DONE])
    assert found.tool_calls == (ToolCall("a", "a"), ToolCall("b", "b"))


def test_a_piece_without_index_and_id_goes_on_with_the_last_call() -> None:
    first = {"id": "a", "function": {"name": "f", "arguments": '{"x": '}}
    rest = {"function": {"arguments": "1}"}}
    _, found = stream([delta({"tool_calls": [piece]}) for piece in (first, rest)] + [DONE])
    assert found.tool_calls == (ToolCall("a", "f", {"x": 1}),)


@pytest.mark.parametrize("name", [None, "", "message", "done"])
def test_the_name_of_an_event_does_not_count(name: str | None) -> None:
    events = [event({"choices": [{"delta": {"content": "a"}}]}, name), StreamEvent(b"[DONE]", name)]
    assert stream(events)[1].text == "a"


objects = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict[str, Any], list[StreamEvent]]:
    """An answer in one piece, and the events of the same in many."""
    text, reasoning = draw(st.text()), draw(st.text())
    finish = draw(st.sampled_from(["stop", "length", "tool_calls", "", "odd"]))
    calls: list[dict[str, Any]] = [
        {"id": draw(st.text()), "function": {"name": draw(st.text()), "arguments": arguments}}
        for arguments in draw(st.lists(objects.map(json.dumps) | st.text(), max_size=3))
    ]
    strands: list[list[dict[str, Any]]] = [
        [{"content": piece} for piece in cut(text, draw(cuts))],
        [{"reasoning_content": piece} for piece in cut(reasoning, draw(cuts))],
    ]
    for index, call in enumerate(calls):
        first, *rest = cut(call["function"]["arguments"], draw(cuts))
        function = {"name": call["function"]["name"], "arguments": first}
        strand = [{"index": index, "id": call["id"], "function": function}]
        strand += [{"index": index, "function": {"arguments": piece}} for piece in rest]
        strands.append([{"tool_calls": [piece]} for piece in strand])
    order = draw(st.permutations([at for at, strand in enumerate(strands) for _ in strand]))
    left = [iter(strand) for strand in strands]
    events = [delta(next(left[at])) for at in order]
    usage = {"prompt_tokens": draw(st.integers(0, 9))}
    message = {"content": text, "reasoning_content": reasoning, "tool_calls": calls}
    whole = {**said(message, finish_reason=finish), "usage": usage}
    events += [delta({}, finish_reason=finish), event({"choices": [], "usage": usage})]
    return whole, events


_VALUES = [
    *WEIRD,
    "stop",
    "error",
    {"message": "m"},
    [{"type": "thinking", "thinking": "t"}],
    [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
    {"name": "f", "arguments": "{}"},
    {"prompt_tokens": 1},
]
_IN_CHUNK = ["choices", "error", "usage", "object", "type", "detail", "id", "new"]
_IN_CHOICE = [
    "index",
    "delta",
    "message",
    "text",
    "error",
    "usage",
    "finish_reason",
    "logprobs",
    "new",
]
_IN_DELTA = [
    *("role", "content", "refusal", "tool_calls", "function_call"),
    *("reasoning", "reasoning_content", "reasoning_details", "new"),
]


@pytest.mark.parametrize(
    ("level", "name"),
    [(n, name) for n, names in enumerate((_IN_CHUNK, _IN_CHOICE, _IN_DELTA)) for name in names],
)
def test_a_chunk_with_only_text_is_read_as_any_other(level: int, name: str) -> None:
    def outcomes(chunk: Any, *, quick: bool) -> list[Any]:
        decoder, found = ChatDecoder(), []
        if not quick:
            decoder._read_text = lambda data: None
        feed = partial(decoder.feed, event(chunk))
        end = partial(decoder.feed, delta({}, finish_reason="stop"))
        steps: list[Callable[[], Any]] = [feed, feed, decoder.finish, end, decoder.finish]
        for step in steps:
            try:
                result = step()
                found.append(list(result) if isinstance(result, Sequence) else result)
            except GenaiError as error:
                found.append((type(error), str(error), vars(error).get("text")))
        return found

    for value, reasoning in product(_VALUES, ({}, {"reasoning": "r"})):
        piece: dict[str, Any] = {"content": "a", **reasoning}
        choice: dict[str, Any] = {"index": 0, "delta": piece, "finish_reason": None}
        chunk: dict[str, Any] = {"object": "chat.completion.chunk", "choices": [choice]}
        (chunk, choice, piece)[level][name] = value
        assert outcomes(chunk, quick=True) == outcomes(chunk, quick=False), chunk


@given(answer=answers())
def test_an_answer_is_the_same_in_one_piece_and_in_many(
    answer: tuple[dict[str, Any], list[StreamEvent]],
) -> None:
    whole, events = answer
    pieces, found = stream([*events, DONE])
    assert found == read(whole)
    assert "".join(piece.text for piece in pieces) == found.text
    if found.vendor_finish:
        assert tuple(piece.tool_call for piece in pieces if piece.tool_call) == found.tool_calls


@given(answer=answers())
def test_what_a_model_says_can_be_sent_again(
    answer: tuple[dict[str, Any], list[StreamEvent]],
) -> None:
    completion = read(answer[0])
    (wire,) = sent_again(completion)
    if completion.text:
        assert wire["content"] == completion.text
    assert read(said(wire)).tool_calls == completion.tool_calls
    usual_codec().from_json(json.loads(json.dumps(usual_codec().to_json(completion))), Completion)


def test_half_a_surrogate_pair_can_be_sent_again() -> None:
    """As a service may send them that cuts between the two halves."""
    halves = [StreamEvent(b'{"choices": [{"delta": {"content": "\\ud83d"}}]}')]
    _, found = stream([*halves, DONE])
    assert sent_again(found)[0]["role"] == "assistant"


# whatever else comes

REPLY = {
    "id": "r",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "hi",
                "refusal": "no",
                "reasoning": "so",
                "reasoning_content": "hm",
                "tool_calls": [WIRE_LOOK, WIRE_LOOK],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
    "error": None,
}
CHUNK = json.loads(json.dumps(REPLY).replace('"message"', '"delta"'))
for _index, _call in enumerate(CHUNK["choices"][0]["delta"]["tool_calls"]):
    _call["index"] = _index
KEYS = sorted({str(key) for key in re.findall(r'"(\w+)":', json.dumps([REPLY, CHUNK]))})


@pytest.mark.parametrize("place", list(places_in(REPLY)), ids=str)
def test_nothing_in_a_reply_raises_anything_else(place: ValuePath) -> None:
    replies = [with_other(REPLY, place, weird) for weird in WEIRD]
    leaks = [leak(lambda reply=reply: again(read(reply))) for reply in replies]  # type: ignore[misc]
    assert set(leaks) == {""}


@pytest.mark.parametrize("place", list(places_in(CHUNK)), ids=str)
def test_nothing_in_a_stream_raises_anything_else(place: ValuePath) -> None:
    streams = [[event(CHUNK), event(with_other(CHUNK, place, weird)), DONE] for weird in WEIRD]
    leaks = [leak(lambda events=events: again(stream(events)[1])) for events in streams]  # type: ignore[misc]
    assert set(leaks) == {""}


def again(completion: Completion) -> None:
    """Put a completion on record, and send it back."""
    json.dumps(usual_codec().to_json(completion), allow_nan=False)
    sent_again(completion)


@given(data=json_values(KEYS).map(lambda value: json.dumps(value).encode()) | st.binary())
@example(data=b'{"choices": ' + NESTED + b"}")
@example(data=b'{"error": {"code": ["x"]}}')
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: read(data))
    assert not leak(lambda: stream([StreamEvent(data), DONE]))
    assert not leak(lambda: DIALECT.map_error(ProviderReply(data, 400)))
