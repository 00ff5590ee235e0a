"""What is read of Ollama's replies, whole and in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_ollama.dialect.operations import OllamaChat
from hypothesis import strategies as st

from genai_host.api import (
    ChatCall,
    Delta,
    Image,
    Message,
    ProviderReply,
    Reasoning,
    ToolCall,
    Usage,
)
from genai_host.api.stream_parsers import read_ndjson
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    IncompleteReply,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.internal.chat_replies import ARGUMENTS, ChatReplies, Pieces, answer
from genai_host_testing.services.ollama import CALL, END, chat_event

LARGER = "shorten the prompt, or raise num_ctx: --param num_ctx=N, or num_ctx of the provider"
LIST = "list the models: ollama list"
PULL = "ollama pull "
SIGN_IN = "this model requires an account at ollama.com: ollama signin"
LOOK = {"name": "look", "arguments": {"at": "é"}}
CALLS = [ToolCall(f"call_{at}", "look", {"at": "é"}) for at in range(3)]


def reply(text: Any = "", end: Any = END, **message: Any) -> Any:
    return {"model": "m-1", "done": False, "message": {"content": text, **message}, **(end or {})}


def piece(text: Any = "", **message: Any) -> Any:
    return reply(text, None, **message)


letters = st.characters(exclude_categories=["Cs"])


class TestReplies(ChatReplies):
    dialect = OllamaChat()
    end = (reply(),)
    finishes = [("stop", "stop"), ("length", "length"), ("load", "other"), ("unload", "other"),
                ("something new", "stop"), ("max_tokens", "length"), (None, "stop")]  # fmt: skip
    broken = ("error",)
    arguments = [(arguments_of_call, ToolCall("call_0", "f", call.arguments, call.malformed))
                 for arguments_of_call, call in ARGUMENTS]  # fmt: skip
    replies = {
        "all kinds": (
            reply("hello", thinking="hm", images=["iVBORw=="], tool_calls=[CALL]),
            answer(Reasoning("hm"), "hello", Image(b"\x89PNG"), CALLS[0], finish="tool_calls",
                   usage=Usage(3, 2), vendor="stop")),
        "a call at the limit": (
            reply(end={"done": True, "done_reason": "length"}, tool_calls=[CALL]),
            answer(CALLS[0], finish="length", vendor="length")),
        "parts as content": (reply([{"type": "text", "text": "hello"}]),
                             answer("hello", usage=Usage(3, 2), vendor="stop")),
    }  # fmt: skip
    streams = {
        "all kinds": (
            [piece(thinking="h"), piece("he", thinking="m"), piece("llo"), piece(tool_calls=[CALL]),
             piece(tool_calls=[CALL, CALL]), reply()],
            [Delta(reasoning="h"), Delta("he", "m"), Delta("llo"),
             *(Delta(tool_call=call) for call in CALLS)],
            answer(Reasoning("hm"), "hello", *CALLS, finish="tool_calls", usage=Usage(3, 2),
                   vendor="stop")),
        **{f"the end {last!r}": ([piece("hello"), last], [Delta("hello")],
                                 answer("hello", vendor=vendor))
           for last, vendor in [
               ({"done": True, "done_reason": "stop"}, "stop"),
               ({"message": {}, "done_reason": "stop"}, "stop"),
               (b"[DONE]", "")]},
        "a repeated end": (
            [reply(tool_calls=[{"id": "c", **CALL}])] * 2,
            [Delta(tool_call=ToolCall("c", "look", {"at": "é"}))],
            answer(ToolCall("c", "look", {"at": "é"}), finish="tool_calls", usage=Usage(3, 2),
                   vendor="stop")),
    }  # fmt: skip
    failures = [
        (status, {"error": error, **more}, kind, {"hint": hint})
        for status, error, kind, hint, more in [
            (404, "model 'llama9:7b' not found", BadRequest, PULL + "llama9:7b", {}),
            (404, 'model "a/b" not found, try pulling it first', BadRequest, PULL + "a/b", {}),
            (404, "no such model", BadRequest, LIST, {}),
            (404, "model '$(rm -rf)' not found", BadRequest, LIST, {}),
            (401, "unauthorized", AuthenticationFailed, SIGN_IN, {"signin_url": "https://x.test"}),
            (401, "unauthorized", AuthenticationFailed, "", {}),
            (400, "the input length exceeds the context length", ContextOverflow, LARGER, {}),
            (400, "the request exceeds the available context size", ContextOverflow, LARGER, {}),
            (400, '"m" does not support tools', BadRequest, "", {}),
            (429, "slow down", RateLimited, "", {}),
            (500, "context length", ServiceUnavailable, "", {}),
            (503, {"message": "busy", "code": 503}, ServiceUnavailable, "", {})]
    ] + [
        (400, {"error": "a\nb\t" + "c" * 10_000}, BadRequest, {"message": "a b " + "c" * 996}),
    ]  # fmt: skip
    late_failures = [
        ({"error": "the model failed"}, ServiceUnavailable, {"message": "the model failed"}),
        ({"error": "slow down", "status": 429}, RateLimited, {}),
        (("error", b'{"message": "it failed"}'), ServiceUnavailable, {"message": "it failed"}),
    ]  # fmt: skip
    malformed = [
        {}, {"done": True}, {"message": 1, "done": True}, reply(tool_calls=[1]),
        *(reply(images=[image]) for image in ("no base64!", 1, "")),
    ]  # fmt: skip
    malformed_events = [b"{", [], {"message": 1}, piece(5), piece(tool_calls=[1])]
    reply = reply("hi", thinking="hm", images=["iVBORw=="], tool_calls=[CALL])
    events = [piece(thinking="h"), piece("he", tool_calls=[CALL]), reply]
    wholes = st.builds(
        lambda text, thinking, calls: piece(text, thinking=thinking, tool_calls=calls) | END,
        st.text(letters), st.text(max_size=3, alphabet="é\u2028\n\r "),
        st.sampled_from([[], [CALL], [CALL, {"id": "c", **CALL}]]),
    )  # fmt: skip

    def saying(self, text: str, finish: Any) -> Any:
        return piece(text) | {"done": True, "done_reason": finish}

    def calling(self, arguments: Any) -> Any:
        return piece(tool_calls=[{"function": {"name": "f", "arguments": arguments}}]) | END

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        message = reply["message"]
        calls = message.get("tool_calls", [])
        return [
            *(piece(thinking=each) for each in pieces.cut(message.get("thinking", ""))),
            *(piece(each) for each in pieces.cut(message["content"])),
            *(piece(tool_calls=[each]) for each in calls),
            {**reply, "message": {"content": ""}},
        ]

    def returned(self, reply: Any, body: Any) -> None:
        completion = self.read(reply)
        message = body["messages"][1] if len(body["messages"]) > 2 else {}
        assert message.get("content", "") == completion.text
        again = piece(text="", tool_calls=message.get("tool_calls", [])) | END
        assert self.read(again).tool_calls == completion.tool_calls

    def test_an_answer_that_does_not_say_that_it_is_done_is_none(self) -> None:
        for done in (False, None, 1, "true"):
            with pytest.raises(IncompleteReply) as caught:
                self.read(piece("hel") | {"done": done})
            assert caught.value.text == "hel"

    @pytest.mark.parametrize(("before", "ids"), [
        (["call_0", "x"], ["call_2", "call_ab", "call_4"]),
        (["call_1"], ["call_2", "call_ab", "call_3"]),  # the beginning is not shown
    ])  # fmt: skip
    def test_ids_of_calls_are_given_or_numbered(self, before: list[str], ids: list[str]) -> None:
        calls = [ToolCall(id, "look") for id in before]
        call = ChatCall(model_id="m", messages=[Message("assistant", calls)])
        body = chat_event(fields=END, tool_calls=[CALL, {**CALL, "id": "call_ab"}, CALL])
        for _ in range(2):
            completion = self.dialect.extract_result(call, ProviderReply(body))
            assert [each.id for each in completion.tool_calls] == ids

    def test_two_calls_with_one_id_are_two(self) -> None:
        calls = [{"id": "c", "function": {**LOOK, "arguments": {"at": at}}} for at in "ab"]
        completion = self.read(piece(tool_calls=calls) | END)
        assert len({call.id for call in completion.tool_calls}) == 2

    def test_a_stream_that_is_cut_at_any_byte_is_no_answer(self) -> None:
        events = [json.dumps(piece(f"w{number} ")).encode() for number in range(20)]
        data = b"".join(each + b"\n" for each in (*events, chat_event(fields=END)))
        for length in range(len(data) - 1):  # without its last byte, a line end, it is whole
            with pytest.raises((IncompleteReply, MalformedReply)):
                self.streamed(each.data for each in read_ndjson([data[:length]]))
        completion = self.streamed(each.data for each in read_ndjson([data[:-1]]))[1]
        assert completion.usage == Usage(3, 2)
