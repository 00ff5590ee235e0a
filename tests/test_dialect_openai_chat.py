"""OpenAI's chat completions: requests, whole replies, streams, and whatever else comes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Codec,
    Completion,
    Delta,
    File,
    Image,
    Message,
    Opaque,
    Part,
    ProviderReply,
    Reasoning,
    Serve,
    StreamEvent,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
)
from genai_host.api.parameters import STANDARD
from genai_host.dialects.openai_chat import OpenAIChat
from genai_host.errors import (
    GenaiError,
    GenerationError,
    IncompleteReply,
    MalformedReply,
    Unavailable,
    UnsupportedPart,
)

DIALECT = OpenAIChat()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])
DONE = StreamEvent(b"[DONE]")
NESTED = b"[" * 100_000 + b"]" * 100_000


def body(*messages: Message, **fields: Any) -> Any:
    """The body of a request, as the service reads it."""
    request = DIALECT.prepare_request(ChatCall(model_id="m", messages=messages, **fields))
    return json.loads(request.data())


def read(reply: Any) -> Completion:
    data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return DIALECT.extract_result(CALL, ProviderReply(data))


def feed(data: str | bytes) -> Sequence[Delta]:
    return DIALECT.decoder(CALL).feed(StreamEvent(data.encode() if isinstance(data, str) else data))


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


# requests


def test_it_says_what_it_is() -> None:
    assert (DIALECT.name, DIALECT.operation) == ("openai-chat", "chat")
    assert DIALECT.endpoint == Serve(path="/chat/completions")
    assert DIALECT.capabilities == {"stream", "tools", "schema", "images", "reasoning"}
    assert set(STANDARD) - set(DIALECT.parameters) == {"top_k"}
    assert all(DIALECT.parameters[name] is STANDARD[name] for name in DIALECT.parameters)


def test_a_plain_request_has_model_and_messages_only() -> None:
    request = DIALECT.prepare_request(CALL)
    assert (request.operation, request.dialect, request.model_id) == ("chat", "openai-chat", "m")
    assert (request.stream, request.headers) == (False, {})
    assert body(Message("user", "hi")) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_all_that_a_call_may_have_is_written() -> None:
    tool = ToolSchema("look", "looks", {"type": "object"})
    schema = {"type": "object"}
    found = body(
        parameters={"temperature": 0.5, "max_tokens": 7, "stop": ["x"]},
        tools=[tool, ToolSchema("wait", "")],
        tool_choice="look",
        schema=schema,
        stream=True,
    )
    look = {"name": "look", "description": "looks", "parameters": {"type": "object"}}
    wait = {"name": "wait", "description": "", "parameters": {}}
    assert found == {
        "model": "m",
        "messages": [],
        "temperature": 0.5,
        "max_tokens": 7,
        "stop": ["x"],
        "tools": [{"type": "function", "function": each} for each in (look, wait)],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": False},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_variants_change_what_they_say() -> None:
    found = body(
        Message("system", "s"),
        parameters={"max_tokens": 7},
        tools=[ToolSchema("look", "looks")],
        schema={},
        stream=True,
        variant={
            "max_tokens": "max_completion_tokens",
            "system_role": "developer",
            "stream_usage": False,
            "strict": True,
        },
    )
    assert found["max_completion_tokens"] == 7
    assert "max_tokens" not in found
    assert "stream_options" not in found
    assert found["messages"] == [{"role": "developer", "content": "s"}]
    assert found["tools"][0]["function"]["strict"] is True
    assert found["response_format"]["json_schema"]["strict"] is True


def test_a_message_is_written_anew_for_another_system_role() -> None:
    message = Message("system", "s")
    assert body(message)["messages"] == [{"role": "system", "content": "s"}]
    found = body(message, variant={"system_role": "developer"})
    assert found["messages"] == [{"role": "developer", "content": "s"}]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_choice_that_is_no_tool_is_sent_as_it_is(choice: str) -> None:
    assert body(tool_choice=choice)["tool_choice"] == choice


LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK: dict[str, Any] = {
    "id": "1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at":"é"}'},
}
TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (Message("user", "é"), [{"role": "user", "content": "é"}]),
        (Message("user", ""), [{"role": "user", "content": ""}]),
        (Message("user", ["a", "b"]), [{"role": "user", "content": TEXTS}]),
        (Message("user", Image(b"abc", "image/jpeg")), [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,YWJj"}}]}]),
        (Message("user", Image(b"abc")), [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}]}]),
        (Message("user", Image(url="http://x")), [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "http://x"}}]}]),
        (Message("assistant", []), [{"role": "assistant", "content": ""}]),
        (Message("assistant", LOOK), [
            {"role": "assistant", "content": None, "tool_calls": [WIRE_LOOK]}]),
        (Message("assistant", ["a", LOOK]), [
            {"role": "assistant", "content": "a", "tool_calls": [WIRE_LOOK]}]),
        (Message("assistant", [Reasoning("hm"), "a", Opaque("other", {})]), [
            {"role": "assistant", "content": "a"}]),
        (Message("assistant", ToolCall("1", "f", malformed='{"a')), [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a'}}]}]),
        (Message("tool", [ToolResult("1", content=["a", "b"]), ToolResult("2", error=True)]), [
            {"role": "tool", "tool_call_id": "1", "content": "ab"},
            {"role": "tool", "tool_call_id": "2", "content": "error: "}]),
        (Message("tool", []), []),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Message) else "",
)  # fmt: skip
def test_a_message_is_written_as_the_service_has_it(message: Message, wire: Any) -> None:
    assert body(Message("user", "x"), message, Message("user", "y"))["messages"][1:-1] == wire


class Poll(Part):
    type = "poll"


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (Message("user", File(b"x")), "file"),
        (Message("user", LOOK), "tool_call"),
        (Message("user", ["a", Poll()]), "poll"),
        (Message("user", ToolResult("1")), "tool_result"),
        (Message("system", Image(b"x")), "image"),
        (Message("assistant", Image(b"x")), "image"),
        (Message("tool", "text"), "text"),
        (Message("tool", ToolResult("1", content=Image(b"x"))), "image"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_part_without_a_place_is_refused(message: Message, part: str) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        body(message)
    assert (caught.value.part, caught.value.dialect) == (part, "openai-chat")


def test_a_mapping_need_not_be_a_dict() -> None:
    view = MappingProxyType({"type": "object"})
    call = ToolCall("1", "f", view)
    found = body(Message("assistant", call), tools=[ToolSchema("f", "", view)], schema=view)
    assert found["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"type":"object"}'
    assert found["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert found["response_format"]["json_schema"]["schema"] == {"type": "object"}


# whole replies


@pytest.mark.parametrize(
    ("reply", "completion"),
    [
        (said({"content": "hi"}, finish_reason="stop"),
         Completion(Message("assistant", "hi"), vendor_finish="stop")),
        (said({"content": None}), Completion(Message("assistant", []), "other")),
        (said({}, finish_reason="length"),
         Completion(Message("assistant", []), "length", vendor_finish="length")),
        (said({"content": "hi"}, finish_reason="eos"),
         Completion(Message("assistant", "hi"), "other", vendor_finish="eos")),
        (said({"reasoning_content": "hm", "content": "hi"}, finish_reason="stop"),
         Completion(Message("assistant", [Reasoning("hm"), "hi"]), vendor_finish="stop")),
        (said({"reasoning": "hm"}, finish_reason="stop"),
         Completion(Message("assistant", Reasoning("hm")), vendor_finish="stop")),
        (said({"refusal": "no"}, finish_reason="stop"),
         Completion(Message("assistant", "no"), "content_filter", vendor_finish="stop")),
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
        ("null", ToolCall("1", "f", malformed="null")),
        ('{"a": NaN}', ToolCall("1", "f", malformed='{"a": NaN}')),
        ("[" * 100_000, ToolCall("1", "f", malformed="[" * 100_000)),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_arguments_that_are_no_object_are_kept_as_they_came(arguments: str, call: ToolCall) -> None:
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
    assert stream([event({"choices": [], "usage": usage}), DONE])[1].usage == Usage(10, 5, 4, 2)
    assert read({**said({"content": "x"}), "usage": None}).usage == Usage()


@pytest.mark.parametrize("reply", [{}, {"choices": []}, {"choices": None}])
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
        said({"content": ["hi"]}),
        said({"content": 5}),
        said({"tool_calls": [None]}),
        said({"tool_calls": {"0": WIRE_LOOK}}),
        said({"tool_calls": [{"function": "look"}]}),
        said({"content": "x"}, finish_reason=5),
        {"choices": {"0": {}}},
        {"choices": [None]},
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
    with pytest.raises(Unavailable, match="overloaded"):
        read(error)
    with pytest.raises(Unavailable, match="overloaded"):
        stream([delta({"content": "a"}), event(error)])


# streams


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


@pytest.mark.parametrize("name", [None, "", "message", "error", "done"])
def test_the_name_of_an_event_does_not_count(name: str | None) -> None:
    events = [event({"choices": [{"delta": {"content": "a"}}]}, name), StreamEvent(b"[DONE]", name)]
    assert stream(events)[1].text == "a"


def cut(text: str, places: list[int]) -> list[str]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


places = st.lists(st.integers(0, 1_000), max_size=4)
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
        [{"content": piece} for piece in cut(text, draw(places))],
        [{"reasoning_content": piece} for piece in cut(reasoning, draw(places))],
    ]
    for index, call in enumerate(calls):
        first, *rest = cut(call["function"]["arguments"], draw(places))
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


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(answer=answers(), end=st.integers(0, 1_000))
def test_a_stream_that_is_cut_is_no_answer(
    answer: tuple[dict[str, Any], list[StreamEvent]], end: int
) -> None:
    events = answer[1][: end % (len(answer[1]) + 1)]
    decoder = DIALECT.decoder(CALL)
    text = "".join(piece.text for each in events for piece in decoder.feed(each))
    with pytest.raises(IncompleteReply) as caught:
        decoder.finish()
    assert caught.value.text == text


@settings(max_examples=40, deadline=None)
@given(answer=answers())
def test_what_a_model_says_can_be_sent_again(
    answer: tuple[dict[str, Any], list[StreamEvent]],
) -> None:
    completion = read(answer[0])
    (wire,) = body(completion.message)["messages"]
    if completion.text:
        assert wire["content"] == completion.text
    assert read(said(wire)).tool_calls == completion.tool_calls
    Codec().from_json(json.loads(json.dumps(Codec().to_json(completion))), Completion)


def test_half_a_surrogate_pair_can_be_sent_again() -> None:
    """As a service may send them that cuts between the two halves."""
    halves = [StreamEvent(b'{"choices": [{"delta": {"content": "\\ud83d"}}]}')]
    _, found = stream([*halves, DONE])
    assert json.loads(DIALECT.prepare_request(
        ChatCall(model_id="m", messages=[found.message])
    ).data().decode("utf-8"))["messages"][0]["role"] == "assistant"  # fmt: skip


# whatever else comes

WEIRD: list[Any] = [None, True, False, 0, -1, 7, 2**70, 1.5, float("nan"), float("inf"), "", "x",
                    "0", "{", [], {}, [None], [[]], [{}], ["x"], {"a": 1}, [0] * 3]  # fmt: skip
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
Place = tuple[str | int, ...]


def places_in(value: Any, place: Place = ()) -> Iterator[Place]:
    yield place
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inner, (*place, key))


def with_other(value: Any, place: Place, other: Any) -> Any:
    """The same with another value in a place."""
    if not place:
        return other
    changed = value.copy()
    changed[place[0]] = with_other(value[place[0]], place[1:], other)
    return changed


def leak(act: Callable[[], object]) -> str:
    """What an act raises that it must not."""
    try:
        act()
    except GenaiError:
        return ""
    except Exception as error:  # noqa: BLE001  # any of them
        return repr(error)
    return ""


@pytest.mark.parametrize("place", list(places_in(REPLY)), ids=str)
def test_nothing_in_a_reply_raises_anything_else(place: Place) -> None:
    replies = [with_other(REPLY, place, weird) for weird in WEIRD]
    leaks = [leak(lambda reply=reply: again(read(reply))) for reply in replies]  # type: ignore[misc]
    assert set(leaks) == {""}


@pytest.mark.parametrize("place", list(places_in(CHUNK)), ids=str)
def test_nothing_in_a_stream_raises_anything_else(place: Place) -> None:
    streams = [[event(CHUNK), event(with_other(CHUNK, place, weird)), DONE] for weird in WEIRD]
    leaks = [leak(lambda events=events: again(stream(events)[1])) for events in streams]  # type: ignore[misc]
    assert set(leaks) == {""}


def again(completion: Completion) -> None:
    """Put a completion on record, and send it back."""
    json.dumps(Codec().to_json(completion), allow_nan=False)
    body(completion.message)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYS]) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(data=json_values.map(lambda value: json.dumps(value).encode()) | st.binary())
@example(data=b'{"choices": ' + NESTED + b"}")
@example(data=b'{"error": {"code": ["x"]}}')
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not leak(lambda: read(data))
    assert not leak(lambda: stream([StreamEvent(data), DONE]))
    assert not leak(lambda: DIALECT.explain_error(ProviderReply(data, 400)))
