"""OpenAI's chat completions: whole replies, streams, and whatever else comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product, starmap
from typing import Any

import pytest
from attrs import evolve
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.chat_replies import ChatDecoder
from genai_wire_openai.shared import MARKED
from hypothesis import strategies as st

from genai_host.api import Delta, Reasoning, Text, ToolCall, Usage
from genai_host.errors import GenaiError, IncompleteReply, ServiceUnavailable
from genai_host_testing.internal.chat_replies import ChatReplies, Pieces, answer, event
from genai_host_testing.internal.garbage import NESTED, WEIRD

DONE = b"[DONE]"
LOOK, WAIT = ToolCall("1", "look", {"at": "é"}), ToolCall("2", "g")
WIRE_LOOK = {"id": "1", "type": "function",
             "function": {"name": "look", "arguments": '{"at":"é"}'}}  # fmt: skip
CUSTOM: dict[str, Any] = {
    "id": "1", "type": "custom", "custom": {"name": "patch", "input": '{"é"} "'},
}  # fmt: skip
CUSTOM_2 = {**CUSTOM, "id": "2"}
FLAT: list[dict[str, Any]] = [
    {"id": "1", "type": "custom", **CUSTOM["custom"]},
    {"id": "1", "name": "patch", "custom": {"input": CUSTOM["custom"]["input"]}},
]
REFUSED = Text("no", extra=MARKED)
PATCH = ToolCall("1", "patch", {"input": '{"é"} "'})
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
DETAILS = [{"type": "reasoning.text", "text": "hm"}]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5,
         "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
         "completion_tokens_details": {"reasoning_tokens": 2}}  # fmt: skip
OVERLOADED = {"message": "overloaded", "code": 503}


def choice(message: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, **more}]}


def delta(piece: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": piece, **more}]}


def calling(**call: Any) -> dict[str, Any]:
    return delta({"tool_calls": [call]})


def ended(word: Any) -> dict[str, Any]:
    return delta({}, finish_reason=word)


def odd_usage(details: Any) -> dict[str, Any]:
    names = ("prompt_tokens_details", "completion_tokens_details")
    return {"prompt_tokens": 3, "completion_tokens": "4", **dict.fromkeys(names, details)}


ODD: list[Any] = [[], 0, "none", [{"cached_tokens": 1}]]
A = delta({"content": "a"})
WHOLE = choice({"content": "a", "tool_calls": [WIRE_LOOK]}, finish_reason="tool_calls")
WHOLE_READ = answer("a", LOOK, finish="tool_calls", vendor="tool_calls")
FORMER = {"function_call": WIRE_LOOK["function"]}
FORMER_LOOK = ToolCall("call_0", "look", {"at": "é"})
NO_ID = {"function": {"name": "f", "arguments": "{}"}}

BY_ID: list[dict[str, Any]] = [{**NO_ID, "id": each} for each in "ab"]
REPEATED: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]], list[str]]] = [
    ("without ids", [NO_ID], [NO_ID, NO_ID], ["call_0", "call_1"]),
    ("with ids in chunks only", BY_ID[:1], [NO_ID], ["a"]),
    ("with ids", BY_ID, BY_ID, ["a", "b"]),
    ("with some ids", [BY_ID[0], NO_ID], [NO_ID, NO_ID], ["a", "call_1"]),
    ("with ids in one event only", [NO_ID], BY_ID, ["a", "b"]),
    ("with other ids", BY_ID[:1], BY_ID[1:], ["a", "b"]),
]
"""Calls in chunks, those in a whole message after them, and the ids of all."""


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": "{}"}, **more}


MESSAGES: Mapping[str, tuple[list[list[dict[str, Any]]], list[tuple[str, str]]]] = {
    "others without ids": ([[named("f")], [named("g")]], [("call_0", "f"), ("call_1", "g")]),
    "an id like one of the host": ([[named("f", id="call_0")], [named("g")]],
                                   [("call_0", "f"), ("call_1", "g")]),
    "the same": ([[named("f"), named("f")]] * 3, [("call_0", "f"), ("call_1", "f")]),
    "more each time": ([[named("f")], [named("f"), named("g")], [named("f", id="a")]],
                       [("call_0", "g"), ("a", "f")]),
    "one id for several": ([[named("f", id="a"), named("g", id="a")]] * 2,
                           [("a", "f"), ("call_1", "g")]),
}  # fmt: skip

objects = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(), max_size=3)
functions = st.fixed_dictionaries(
    {"name": st.text(), "arguments": objects.map(json.dumps) | st.text()}
)
custom = st.fixed_dictionaries({"name": st.text(), "input": st.text()})
messages = st.fixed_dictionaries(
    {
        "content": st.text(), "reasoning_content": st.text(),
        "tool_calls": st.lists(
            st.fixed_dictionaries({"id": st.text(), "function": functions})
            | st.fixed_dictionaries({"id": st.text(), "custom": custom}), max_size=3)},
)  # fmt: skip


class TestReplies(ChatReplies):
    dialect = OpenAIChat()
    end = (DONE,)
    finishes = [
        ("stop", "stop"), ("length", "length"), ("eos", "stop"), ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"), ("", "stop"),
    ]  # fmt: skip
    broken = ("error", "network_error", "ABORTED", "cancelled")
    replies = {
        "no reason": (choice({"content": "hi"}), answer("hi")),
        "a number as reason": (choice({"content": "hi"}, finish_reason=5), answer("hi")),
        "nothing": (choice({"content": None}), answer()),
        "no content": (choice({}, finish_reason="length"),
                       answer(finish="length", vendor="length")),
        "no text": (choice({"content": ""}, finish_reason="content_filter"),
                    answer(finish="content_filter", vendor="content_filter")),
        "parts": (choice({"content": [{"type": "text", "text": "h"}, "i"]}), answer("hi")),
        "parts with thoughts": (
            choice({"content": [THINKING, {"type": "reference", "reference_ids": [1]},
                                {"type": "text", "text": "hi"}]}), answer(Reasoning("hm"), "hi")),
        "odd reasoning": (choice({"reasoning": {"a": 1}, "content": "hi"}), answer("hi")),
        "reasoning details": (
            choice({"reasoning_details": DETAILS, "content": "hi"}),
            answer(Reasoning("hm"), "hi",
                   extra={"openai-chat": {"message": {"reasoning_details": DETAILS}}})),
        "reasoning content": (choice({"reasoning_content": "hm", "content": "hi"}),
                              answer(Reasoning("hm"), "hi")),
        "reasoning": (choice({"reasoning": "hm"}), answer(Reasoning("hm"))),
        "refusal": (choice({"refusal": "no"}, finish_reason="stop"),
                    answer(REFUSED, finish="content_filter", vendor="stop", extra=MARKED)),
        "refusal after text": (choice({"content": "So: ", "refusal": "no"}),
                               answer("So: ", REFUSED, finish="content_filter")),
        "refusal among parts": (
            choice({"content": [{"type": "refusal", "refusal": "no"}]}, finish_reason="length"),
            answer(REFUSED, finish="content_filter", vendor="length", extra=MARKED)),
        "call": (choice({"tool_calls": [WIRE_LOOK]}, finish_reason="stop"),
                 answer(LOOK, finish="tool_calls", vendor="stop")),
        "custom call": (choice({"tool_calls": [CUSTOM]}), answer(PATCH, finish="tool_calls")),
        **{f"custom call like {call}": (
            choice({"tool_calls": [call]}), answer(PATCH, finish="tool_calls"))
           for call in FLAT},
        "call with an empty custom": (choice({"tool_calls": [{**WIRE_LOOK, "custom": {}}]}),
                                      answer(LOOK, finish="tool_calls")),
        "call at the limit": (choice({"tool_calls": [WIRE_LOOK]}, finish_reason="length"),
                              answer(LOOK, finish="length", vendor="length")),
        "reason of a call": (
            choice({"content": "a", "tool_calls": None}, finish_reason="function_call"),
            answer("a", finish="tool_calls", vendor="function_call")),
        "former call": (choice(FORMER), answer(FORMER_LOOK, finish="tool_calls")),
        "calls without ids": (
            choice({"tool_calls": [NO_ID, NO_ID]}),
            answer(ToolCall("call_0", "f"), ToolCall("call_1", "f"), finish="tool_calls")),
        "usage": ({**choice({"content": "x"}), "usage": USAGE},
                  answer("x", usage=Usage(10, 5, 4, 2, 3))),
        "no usage": ({**choice({"content": "x"}), "usage": None}, answer("x")),
        **{f"odd details {each}": ({**choice({"content": "x"}), "usage": odd_usage(each)},
                                   answer("x", usage=Usage(3))) for each in ODD},
        **{f"odd usage {each}": ({**choice({"content": "x"}), "usage": each}, answer("x"))
           for each in ODD},
    }  # fmt: skip
    streams = {
        "all kinds": (
            [delta({"role": "assistant", "content": ""}), delta({"reasoning_content": "hm"}), A,
             delta({"content": "b", "reasoning": "!"}),
             calling(index=1, id="2", function={"name": "g"}),
             calling(index=0, id="1", function={"name": "look"}),
             calling(index=0, function={"arguments": '{"at": '}),
             calling(index=0, function={"arguments": '"é"}'}), ended("tool_calls"),
             {"choices": [], "usage": {"prompt_tokens": 3}}, DONE],
            [Delta(reasoning="hm"), Delta("a"), Delta("b", "!"),
             Delta(tool_call=LOOK), Delta(tool_call=WAIT)],
            answer(Reasoning("hm!"), "ab", LOOK, WAIT, finish="tool_calls", usage=Usage(3),
                   vendor="tool_calls")),
        "the reason as the end": (
            [A, ended("stop"), {"choices": [], "usage": {"prompt_tokens": 3}}],
            [Delta("a")], answer("a", usage=Usage(3), vendor="stop")),
        "the mark as the end": ([delta({"content": "a"}, finish_reason=None), DONE],
                                [Delta("a")], answer("a")),
        "one event": ([delta({"role": "assistant"}), WHOLE, DONE],
                      [Delta("a"), Delta(tool_call=LOOK)], WHOLE_READ),
        "a text, and all in one event": ([A, choice({"content": "a"}), DONE],
                                         [Delta("a")], answer("a")),
        "a text, and a call in one event": (
            [A, WHOLE, DONE], [Delta("a"), Delta(tool_call=LOOK)], WHOLE_READ),
        "a call, and a text in one event": (
            [calling(index=0, **WIRE_LOOK), WHOLE, DONE],
            [Delta("a"), Delta(tool_call=LOOK)], WHOLE_READ),
        "a text, and a call beside an empty chunk": (
            [A, {"choices": [{"delta": {}, **WHOLE["choices"][0]}]}, DONE],
            [Delta("a"), Delta(tool_call=LOOK)], WHOLE_READ),
        "calls, and more of them in one event": (
            [delta({"reasoning": "hm", "content": "a"}), calling(index=0, **WIRE_LOOK),
             choice({"reasoning": "hm", "content": "a", "tool_calls": [WIRE_LOOK, CUSTOM_2]}),
             ended("tool_calls"), DONE],
            [Delta("a", "hm"), Delta(tool_call=LOOK), Delta(tool_call=evolve(PATCH, id="2"))],
            answer(Reasoning("hm"), "a", LOOK, evolve(PATCH, id="2"), finish="tool_calls",
                   vendor="tool_calls")),
        "calls, and others in one event": (
            [calling(index=0, **WIRE_LOOK), choice({"tool_calls": [CUSTOM_2]}), DONE],
            [Delta(tool_call=LOOK), Delta(tool_call=evolve(PATCH, id="2"))],
            answer(LOOK, evolve(PATCH, id="2"), finish="tool_calls")),
        "a call without arguments, and with them in one event": (
            [calling(index=0, id="1", function={"name": "look"}), WHOLE, DONE], None, WHOLE_READ),
        **{f"all calls in one event, {ids}": (
            [*(calling(index=at, **each) for at, each in enumerate(chunks)),
             choice({"tool_calls": whole}), DONE],
            None, answer(*(ToolCall(id, "f") for id in expected), finish="tool_calls"))
           for ids, chunks, whole, expected in REPEATED},
        **{f"calls in several events, {name}": (
            [*(choice({"tool_calls": calls}) for calls in sent), DONE],
            None, answer(*starmap(ToolCall, expected), finish="tool_calls"))
           for name, (sent, expected) in MESSAGES.items()},
        "unknown fields of a call in one event": (
            [calling(index=0, **named("f"), new=1),
             choice({"tool_calls": [named("f", id="a", new=2)]}), DONE],
            None, answer(ToolCall("a", "f", extra={"openai-chat": {"new": 2}}),
                         finish="tool_calls")),
        "cut, then not": ([A, ended("length"), ended("stop"), DONE], [Delta("a")],
                          answer("a", finish="length", vendor="length")),
        "not, then cut": ([A, ended("stop"), ended("length"), DONE], [Delta("a")],
                          answer("a", finish="length", vendor="length")),
        "a repeated reason": (
            [calling(index=0, **WIRE_LOOK), ended("tool_calls")] * 2 + [DONE],
            [Delta(tool_call=LOOK)], answer(LOOK, finish="tool_calls", vendor="tool_calls")),
        "thoughts among parts": ([delta({"content": [THINKING]}), A, DONE],
                                 [Delta(reasoning="hm"), Delta("a")], answer(Reasoning("hm"), "a")),
        "refusal": ([delta({"refusal": "I "}), delta({"refusal": "won't."}), DONE],
                    [Delta("I ", extra=MARKED), Delta("won't.", extra=MARKED)],
                    answer(Text("I won't.", extra=MARKED), finish="content_filter",
                           extra=MARKED)),
        **{f"calls with {index or 'no index'}": (
            [*(calling(**index, id=id, function={"name": id, "arguments": "{}"}) for id in "ab"),
             DONE],
            [Delta(tool_call=ToolCall(id, id)) for id in "ab"],
            answer(ToolCall("a", "a"), ToolCall("b", "b"), finish="tool_calls"))
           for index in ({}, {"index": None})},
        "a piece without index and id": (
            [calling(id="a", function={"name": "f", "arguments": '{"x": '}),
             calling(function={"arguments": "1}"}), DONE],
            [Delta(tool_call=ToolCall("a", "f", {"x": 1}))],
            answer(ToolCall("a", "f", {"x": 1}), finish="tool_calls")),
        "custom call": (
            [calling(index=0, id="1", type="custom", custom={"name": "patch", "input": ""}),
             *(calling(index=0, custom={"input": each}) for each in '{"é"} "'), DONE],
            [Delta(tool_call=PATCH)], answer(PATCH, finish="tool_calls")),
        **{f"custom calls with {index or 'no index'}": (
            [calling(**index, id="1", type="custom", custom={"name": "patch", "input": '{"é"} '}),
             calling(**index, custom={"input": '"'}), calling(**index, **CUSTOM_2), DONE],
            [Delta(tool_call=PATCH), Delta(tool_call=evolve(PATCH, id="2"))],
            answer(PATCH, evolve(PATCH, id="2"), finish="tool_calls"))
           for index in ({}, {"index": 0})},
        "former call": ([delta(FORMER), DONE], [Delta(tool_call=FORMER_LOOK)],
                        answer(FORMER_LOOK, finish="tool_calls")),
        "usage": ([A, {"choices": [], "usage": USAGE}, DONE], [Delta("a")],
                  answer("a", usage=Usage(10, 5, 4, 2, 3))),
        **{f"odd details {each}": ([A, {"choices": [], "usage": odd_usage(each)}, DONE],
                                   [Delta("a")], answer("a", usage=Usage(3))) for each in ODD},
        **{f"events named {name}": ([event((name, json.dumps(A).encode())), event((name, DONE))],
                                    [Delta("a")], answer("a"))
           for name in (None, "", "message", "done")},
    }  # fmt: skip
    late_failures = [
        ({"error": OVERLOADED}, ServiceUnavailable, {"message": "overloaded"}),
        (choice({}, error={**OVERLOADED, "code": 502}, finish_reason="error"),
         ServiceUnavailable, {"message": "overloaded"}),
        *((("error", data), ServiceUnavailable, {"message": "overloaded"}) for data in (
            b'{"message": "overloaded"}', b'{"error": {"message": "overloaded"}}', b"overloaded")),
    ]  # fmt: skip
    unanswered = [{}, {"choices": []}, {"choices": None}, {"choices": [None]}]
    unanswered_reason = "no choices"
    malformed = [
        b"", b"<html>", b"\xff", b"[]", b"null", b'{"choices": [', b'{"choices": ' + NESTED + b"}",
        choice({"content": [5]}), choice({"content": [{"text": 5}]}), choice({"content": 5}),
        choice({"tool_calls": {"0": WIRE_LOOK}}), choice({"tool_calls": [{"function": "look"}]}),
        {"choices": {"0": {}}},
    ]  # fmt: skip
    malformed_events = [
        each if isinstance(each, bytes) else json.dumps(each).replace("message", "delta").encode()
        for each in malformed
    ]
    reply = {
        "id": "r",
        **choice({"role": "assistant", "content": "hi", "refusal": "no", "reasoning": "so",
                  "reasoning_content": "hm", "tool_calls": [WIRE_LOOK, WIRE_LOOK, CUSTOM]},
                 index=0, finish_reason="stop"),
        "usage": USAGE, "error": None,
    }  # fmt: skip
    events = [
        {"id": "r", "usage": USAGE, "error": None, **delta(
            {"role": "assistant", "content": "hi", "refusal": "no", "reasoning": "so",
             "reasoning_content": "hm",
             "tool_calls": [{**each, "index": at}
                            for at, each in enumerate([WIRE_LOOK, WIRE_LOOK, CUSTOM])]},
            finish_reason="stop")},
    ] * 2  # fmt: skip
    wholes = st.builds(
        lambda message, reason, tokens: {
            **choice(message, finish_reason=reason), "usage": {"prompt_tokens": tokens}},
        messages, st.sampled_from(["stop", "length", "tool_calls", "", "odd"]), st.integers(0, 9),
    )  # fmt: skip

    def saying(self, text: str, finish: Any) -> Any:
        return choice({"content": text}, finish_reason=finish)

    def calling(self, arguments: Any) -> Any:
        function = {"name": "f", "arguments": arguments}
        return choice({"tool_calls": [{"id": "1", "function": function}]}, finish_reason="stop")

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        message, reason = (reply["choices"][0][name] for name in ("message", "finish_reason"))
        strands: list[list[Any]] = [
            [{name: piece} for piece in pieces.cut(message[name])]
            for name in message.keys() - {"tool_calls"}
        ]
        for index, call in enumerate(message.get("tool_calls", ())):
            kind, field = ("custom", "input") if "custom" in call else ("function", "arguments")
            value = call[kind][field]
            first, *rest = pieces.cut(value) if isinstance(value, str) else [value]
            begun = {**call, "index": index, kind: {**call[kind], field: first}}
            more = [{"index": index, kind: {field: each}} for each in rest]
            strands.append([{"tool_calls": [each]} for each in (begun, *more)])
        usage = {"choices": [], "usage": reply.get("usage")}
        return [*map(delta, pieces.mixed(strands)), ended(reason), usage, DONE]

    def returned(self, reply: Any, body: Any) -> None:
        completion = self.read(reply)
        if len(body["messages"]) == 3:
            wire = body["messages"][1]
            assert (wire.get("content") or "") == completion.text
            assert self.read(choice(wire)).tool_calls == completion.tool_calls
        else:
            assert not completion.text
            assert not completion.tool_calls


def test_a_number_as_reason_is_no_end() -> None:
    with pytest.raises(IncompleteReply):
        TestReplies().streamed([delta({"content": "a"}, finish_reason=0)])


def test_a_whole_message_after_chunks_repeats_no_fields() -> None:
    logprobs = {"content": [{"token": "a", "logprob": -1}]}
    fields: dict[str, Any] = {"content": "a", "reasoning_details": DETAILS}
    decoder = ChatDecoder(logprobs=True)
    chunk, complete = (
        delta(fields, logprobs=logprobs),
        choice({**fields, "new": 1}, logprobs=logprobs),
    )
    (first,) = decoder.feed(event(chunk))
    (second,) = decoder.feed(event(complete))
    assert first.extra == {
        "logprobs": logprobs, "openai-chat": {"message": {"reasoning_details": DETAILS}},
    }  # fmt: skip
    assert second.extra == {"openai-chat": {"message": {"new": 1}}}
    assert not decoder.feed(event(complete))
    decoder.feed(event(ended("stop")))
    assert decoder.finish().extra == {"logprobs": logprobs}


_VALUES = [
    *WEIRD, "stop", "error", {"message": "m"}, [{"type": "thinking", "thinking": "t"}],
    [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
    {"name": "f", "arguments": "{}"}, {"prompt_tokens": 1},
]  # fmt: skip
_PLACES = [
    *((0, name) for name in (
        "choices", "error", "usage", "object", "type", "detail", "id", "new")),
    *((1, name) for name in (
        "index", "delta", "message", "text", "error", "usage", "finish_reason", "logprobs", "new")),
    *((2, name) for name in (
        "role", "content", "refusal", "tool_calls", "function_call", "reasoning",
        "reasoning_content", "reasoning_details", "new")),
]  # fmt: skip


@pytest.mark.parametrize(("level", "name"), _PLACES)
def test_a_chunk_with_only_text_is_read_as_any_other(level: int, name: str) -> None:
    def outcomes(chunk: Any, *, quick: bool) -> list[Any]:
        decoder, results = ChatDecoder(), []
        if not quick:
            decoder._read_text = lambda data: None
        feed = partial(decoder.feed, event(chunk))
        last = partial(decoder.feed, event(ended("stop")))
        steps: list[Callable[[], Any]] = [feed, feed, decoder.finish, last, decoder.finish]
        for step in steps:
            try:
                result = step()
                results.append(list(result) if isinstance(result, Sequence) else result)
            except GenaiError as error:
                results.append((type(error), str(error), vars(error).get("text")))
        return results

    for value, reasoning in product(_VALUES, ({}, {"reasoning": "r"})):
        piece: dict[str, Any] = {"content": "a", **reasoning}
        inner: dict[str, Any] = {"index": 0, "delta": piece, "finish_reason": None}
        chunk: dict[str, Any] = {"object": "chat.completion.chunk", "choices": [inner]}
        (chunk, inner, piece)[level][name] = value
        assert outcomes(chunk, quick=True) == outcomes(chunk, quick=False), chunk
