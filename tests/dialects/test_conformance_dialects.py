"""The host's own dialects, by the suites that strangers' dialects run."""

from __future__ import annotations

import json
from typing import Any, cast

from genai_wire_anthropic.dialect.messages import AnthropicCount, AnthropicMessages
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.operations import (
    OpenAICompletions,
    OpenAIEmbed,
    OpenAIModerate,
    OpenAITranscribe,
)
from genai_wire_openai.dialect.responses import OpenAICount, OpenAIResponses
from ways import Says

from genai_host.api import Codec, Completion, Embeddings, Message, StreamEvent, ToolCall, Usage
from genai_host.dialects.plain import Plain, PlainCount, PlainEmbed
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.services import anthropic as anthropic_service, openai as openai_service
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


def simulated(says: Says) -> tuple[bytes, list[bytes], tuple[bytes, list[bytes]]]:
    """A reply, its stream, and both with a call, as a simulated service sends them."""

    def data(**fields: Any) -> bytes:
        (sent,) = says(**fields).steps
        assert isinstance(sent, bytes)
        return sent.partition(b"\r\n\r\n")[2]

    def events(**fields: Any) -> list[bytes]:
        _, *sent, _ = says(**fields, streamed=True).steps
        return [each.partition(b"data: ")[2].partition(b"\n")[0] for each in cast(Any, sent)]

    text = DialectSuite.text
    return data(text=text), events(text=text), (data(call=True), events(call=True))


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
    usage = Usage(9, 4, cached_tokens=3, reasoning_tokens=2)
    reply, stream, calls = simulated(openai_service.chat)
    closing_events = 3
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
        text(" the"), text("re"),
        text("", "stop", usage={"prompt_tokens": 3, "completion_tokens": 2}), b"[DONE]",
    )  # fmt: skip
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


class TestOpenAIResponses(DialectSuite):
    dialect = OpenAIResponses()
    usage = Usage(9, 4, cached_tokens=3, reasoning_tokens=2)
    reply, stream, calls = simulated(openai_service.responses)
    refusals = TestOpenAIChat.refusals


class TestOpenAIModerate(ModerateDialectSuite):
    dialect = OpenAIModerate()
    reply = wire({"results": [{"flagged": True, "category_scores": {"violence": 0.9}}]})
    flagged = True
    refusals = ((400, refusal("no"), BadRequest),)


class TestAnthropicMessages(DialectSuite):
    dialect = AnthropicMessages()
    usage = Usage(9, 4, cached_tokens=3, reasoning_tokens=2, cache_write_tokens=2)
    reply, stream, calls = simulated(anthropic_service.claude)
    closing_events = 2
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
