"""The host's own dialects, by the suites that strangers' dialects run."""

from __future__ import annotations

import json
from typing import Any

from genai_wire_anthropic.dialect.messages import AnthropicCount, AnthropicMessages
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.completions import OpenAICompletions
from genai_wire_openai.dialect.embeddings import OpenAIEmbed, OpenAIModerate
from genai_wire_openai.dialect.responses import OpenAICount, OpenAIResponses
from genai_wire_openai.dialect.transcriptions import OpenAITranscribe

from genai_host.api import Codec, Completion, Embeddings, Message, StreamEvent, ToolCall, Usage
from genai_host.dialects.plain import Plain, PlainCount, PlainEmbed
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.suites import (
    CompleteDialectSuite,
    CountDialectSuite,
    DialectSuite,
    EmbedDialectSuite,
    ModerateDialectSuite,
    TranscribeDialectSuite,
)

CALL = ToolCall("call_1", "weather", {"city": "Oslo"})


def wire(value: Any) -> bytes:
    return json.dumps(value).encode()


def plain(value: Any) -> Any:
    return Codec().to_json(value)


def piece(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def end(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def refusal(message: str, **more: Any) -> bytes:
    return wire({"error": {"message": message, **more}})


class TestPlain(DialectSuite):
    dialect = Plain()
    usage = Usage(3, 2)
    reply = wire(plain(Completion(Message("assistant", "hello there"), usage=usage)))
    stream = (
        b'{"delta": {"text": "hello"}}',
        b'{"delta": {"text": " there"}}',
        b'{"end": ' + reply + b"}",
    )
    asking = Completion(Message("assistant", CALL), finish="tool_calls")
    calls = (
        wire(plain(asking)),
        [wire({"delta": {"tool_call": plain(CALL)}}), wire({"end": plain(asking)})],
    )


class TestPlainEmbed(EmbedDialectSuite):
    dialect = PlainEmbed()
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    usage = Usage(2)
    reply = wire(plain(Embeddings(vectors, usage=usage)))


class TestOpenAIChat(DialectSuite):
    dialect = OpenAIChat()
    usage = Usage(3, 2)
    reply = wire(
        {
            "choices": [
                {
                    "index": 0, "message": {"role": "assistant", "content": "hello there"},
                    "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    )  # fmt: skip
    stream = (
        wire(piece(role="assistant", content="")),
        wire(piece(content="hello")),
        wire(piece(content=" there")),
        wire(end("stop")),
        wire({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
        b"[DONE]",
    )
    closing_events = 3
    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    asked = {"id": "call_1", "type": "function", "function": function}
    calls = (
        wire(
            {
                "choices": [
                    {
                        "message": {"role": "assistant", "content": None, "tool_calls": [asked]},
                        "finish_reason": "tool_calls"}]}),
        [
            wire(piece(tool_calls=[{"index": 0, **asked, "function": {"name": "weather"}}])),
            wire(piece(tool_calls=[{"index": 0, "function": {"arguments": '{"city":'}}])),
            wire(piece(tool_calls=[{"index": 0, "function": {"arguments": ' "Oslo"}'}}])),
            wire(end("tool_calls")),
            b"[DONE]"],
    )  # fmt: skip
    refusals = (
        (400, refusal("no such field"), BadRequest),
        (401, refusal("wrong key", code="invalid_api_key"), AuthenticationFailed),
        (429, refusal("too fast", type="rate_limit_exceeded"), RateLimited),
        (400, refusal("too long", code="context_length_exceeded"), ContextOverflow),
        (503, refusal("overloaded"), ServiceUnavailable),
    )


def text(text: str, reason: str | None = None, **more: Any) -> bytes:
    return wire({"choices": [{"index": 0, "text": text, "finish_reason": reason}], **more})


class TestOpenAICompletions(CompleteDialectSuite):
    dialect = OpenAICompletions()
    usage = Usage(3, 2)
    reply = text(" there", "stop", usage={"prompt_tokens": 3, "completion_tokens": 2})
    stream = (
        text(" the"),
        text("re"),
        text("", "stop", usage={"prompt_tokens": 3, "completion_tokens": 2}),
        b"[DONE]",
    )
    refusals = (
        (400, refusal("no logprobs"), BadRequest),
        (404, b'{"detail": "Not Found"}', BadRequest),
        (429, refusal("too fast", type="rate_limit_exceeded"), RateLimited),
    )

    def test_its_mark_ends_a_stream(self) -> None:
        decoder = self.decoder()
        for data in self.stream:
            assert not decoder.done
            decoder.feed(StreamEvent(data))
        assert decoder.done


class TestOpenAITranscribe(TranscribeDialectSuite):
    dialect = OpenAITranscribe()
    usage = Usage(7, 2)
    reply = wire(
        {"text": "hello there", "usage": {"type": "tokens", "input_tokens": 7, "output_tokens": 2}}
    )
    refusals = ((400, refusal("no speech"), BadRequest),)

    def test_a_duration_is_no_number_of_tokens(self) -> None:
        used = {"type": "duration", "seconds": 9, "input_tokens": 7}
        assert self.extracted(wire({"text": "", "usage": used})).usage == Usage()


class TestOpenAIEmbed(EmbedDialectSuite):
    dialect = OpenAIEmbed()
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    usage = Usage(2)
    reply = wire(
        {
            "data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)],
            "model": "m-1",
            "usage": {"prompt_tokens": 2},
        }
    )
    refusals = ((400, refusal("no"), BadRequest),)


def response(*output: dict[str, Any], usage: Any = None) -> dict[str, Any]:
    return {"id": "resp_1", "status": "completed", "output": [*output], "usage": usage}


def event(kind: str, **fields: Any) -> bytes:
    return wire({"type": f"response.{kind}", **fields})


class TestOpenAIResponses(DialectSuite):
    dialect = OpenAIResponses()
    usage = Usage(3, 2)
    said = response(
        {
            "id": "msg_1", "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "hello there", "annotations": []}]},
        usage={"input_tokens": 3, "output_tokens": 2},
    )  # fmt: skip
    reply = wire(said)
    stream = (
        event("created", response={"id": "resp_1", "status": "in_progress", "output": []}),
        event("output_text.delta", output_index=0, content_index=0, delta="hello"),
        event("output_text.delta", output_index=0, content_index=0, delta=" there"),
        event("output_text.done", output_index=0, content_index=0, text="hello there"),
        event("completed", response=said),
    )
    asked = {
        "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "weather",
        "arguments": '{"city": "Oslo"}', "status": "completed",
    }  # fmt: skip
    calls = (
        wire(response(asked)),
        [
            event("output_item.added", output_index=0, item={**asked, "arguments": ""}),
            event("function_call_arguments.delta", output_index=0, delta='{"city": "Oslo"}'),
            event("output_item.done", output_index=0, item=asked),
            event("completed", response=response(asked)),
        ],
    )
    refusals = TestOpenAIChat.refusals


class TestOpenAIModerate(ModerateDialectSuite):
    dialect = OpenAIModerate()
    reply = wire({"results": [{"flagged": True, "category_scores": {"violence": 0.9}}]})
    flagged = True
    refusals = ((400, refusal("no"), BadRequest),)


def block(number: int, kind: str, **fields: Any) -> bytes:
    return wire({"type": f"content_block_{kind}", "index": number, **fields})


class TestAnthropicMessages(DialectSuite):
    dialect = AnthropicMessages()
    usage = Usage(6, 2, 1, cache_write_tokens=2)
    text = "hello there"
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1"}
    used = {"input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 1}
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    reply = wire(
        {
            **head, "content": [thought, {"type": "text", "text": "hello there"}],
            "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {**used, "output_tokens": 2}},
    )  # fmt: skip
    began = wire(
        {
            "type": "message_start",
            "message": {**head, "content": [], "usage": {**used, "output_tokens": 1}},
        }
    )
    stream = (
        began,
        block(0, "start", content_block={"type": "thinking", "thinking": "", "signature": ""}),
        wire({"type": "ping"}),
        block(0, "delta", delta={"type": "thinking_delta", "thinking": "hm"}),
        block(0, "delta", delta={"type": "signature_delta", "signature": "c2ln"}),
        block(0, "stop"),
        block(1, "start", content_block={"type": "text", "text": ""}),
        block(1, "delta", delta={"type": "text_delta", "text": "hello"}),
        block(1, "delta", delta={"type": "text_delta", "text": " there"}),
        block(1, "stop"),
        wire({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
              "usage": {"output_tokens": 2}}),
        wire({"type": "message_stop"}),
    )  # fmt: skip
    closing_events = 2
    asked = {"type": "tool_use", "id": "toolu_1", "name": "weather"}
    calls = (
        wire({**head, "content": [{**asked, "input": {"city": "Oslo"}}],
              "stop_reason": "tool_use"}),
        [
            wire({"type": "message_start", "message": {**head, "content": []}}),
            block(0, "start", content_block={**asked, "input": {}}),
            block(0, "delta", delta={"type": "input_json_delta", "partial_json": ""}),
            block(0, "delta", delta={"type": "input_json_delta", "partial_json": '{"city":'}),
            block(0, "delta", delta={"type": "input_json_delta", "partial_json": ' "Oslo"}'}),
            block(0, "stop"),
            wire({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
            wire({"type": "message_stop"}),
        ],
    )  # fmt: skip
    refusals = (
        (400, refusal("no such field", type="invalid_request_error"), BadRequest),
        (400, refusal("prompt is too long: 9 > 8", type="invalid_request_error"), ContextOverflow),
        (401, refusal("wrong key", type="authentication_error"), AuthenticationFailed),
        (403, refusal("not yours", type="permission_error"), AuthenticationFailed),
        (413, refusal("too large", type="request_too_large"), BadRequest),
        (429, refusal("too fast", type="rate_limit_error"), RateLimited),
        (529, refusal("overloaded", type="overloaded_error"), ServiceUnavailable),
    )


class TestPlainCount(CountDialectSuite):
    dialect = PlainCount()
    reply = wire({"tokens": 12})
    count = 12


class TestOpenAICount(CountDialectSuite):
    dialect = OpenAICount()
    reply = wire({"object": "response.input_tokens", "input_tokens": 12})
    count = 12
    refusals = TestOpenAIChat.refusals


class TestAnthropicCount(CountDialectSuite):
    dialect = AnthropicCount()
    reply = wire({"input_tokens": 12})
    count = 12
    refusals = TestAnthropicMessages.refusals
