"""Incorrect dialects, each with one defect, with the suites that must detect it.

`fails` are the tests that must fail, and no others; test_suites.py runs them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from attrs import evolve

from genai_host import api
from genai_host.dialects.plain import Plain
from genai_host_testing.suites import DialectSuite

_CALL = b'{"type": "tool_call", "id": "1", "name": "weather", "arguments": {}}'


def _said(part: bytes, more: bytes = b"") -> bytes:
    return b'{"message": {"role": "assistant", "content": [' + part + b"]}" + more + b"}"


class PlainSamples(DialectSuite):
    fails: ClassVar[set[str]]
    dialect = Plain()
    reply = (
        b'{"message": {"role": "assistant", "content": [{"type": "text", "text": "hello there"}]}}'
    )
    stream = [
        b'{"delta": {"text": "hello"}}',
        b'{"delta": {"text": " there"}}',
        b'{"end": ' + reply + b"}",
    ]
    completion = _said(_CALL, b', "finish": "tool_calls"')
    calls = (
        completion,
        [b'{"delta": {"tool_call": ' + _CALL + b"}}", b'{"end": ' + completion + b"}"],
    )


class _Trusting(Plain):
    def extract_result(self, call: api.ChatCall, reply: api.ProviderReply) -> api.Completion:
        content = json.loads(reply.body)["message"]["content"]
        if content[0]["type"] == "text":
            return api.Completion(api.Message("assistant", content[0]["text"]))
        call_ = api.ToolCall("1", content[0]["name"])
        return api.Completion(api.Message("assistant", call_), "tool_calls")


class TestADialectThatTrustsReplies(PlainSamples):
    dialect = _Trusting()
    fails = {
        "test_invalid_reply_raises_typed_error",
        "test_a_damaged_reply_is_read_or_is_a_typed_error",
        "test_truncated_reply_is_never_complete",
    }


class _Remembering(Plain):
    def __init__(self) -> None:
        self.count = 0

    def prepare_request(self, call: api.ChatCall) -> api.ProviderRequest:
        self.count += 1
        request = super().prepare_request(call)
        return evolve(request, body={**request.body, "number": self.count})


class TestADialectThatCounts(PlainSamples):
    dialect = _Remembering()
    fails = {"test_equal_calls_are_written_equally", "test_omitted_variant_equals_default_variant"}


class _TextsOnly(Plain):
    def prepare_request(self, call: api.ChatCall) -> api.ProviderRequest:
        texts = [
            api.Message(
                message.role, [part for part in message.content if isinstance(part, api.Text)]
            )
            for message in call.messages
            if message.text
        ]
        return super().prepare_request(evolve(call, messages=texts))


class TestADialectThatLeavesPartsOut(PlainSamples):
    dialect = _TextsOnly()
    fails = {
        "test_images_in_answers_are_written_if_declared", "test_each_message_is_written",
        "test_parts_are_written_or_refused", "test_texts_are_separate",
        "test_unknown_part_is_written_or_refused", "test_answer_can_be_sent_back",
    }  # fmt: skip


class _Hasty(Plain):
    def decoder(self, call: api.ChatCall) -> Any:
        return _HastyDecoder(super().decoder(call))


class _HastyDecoder:
    """A decoder that treats any received data as complete."""

    def __init__(self, inner: api.StreamDecoder[api.Completion]) -> None:
        self._inner = inner
        self._text = ""
        self.done = True

    def feed(self, event: api.StreamEvent) -> Sequence[api.Delta]:
        deltas = self._inner.feed(event)
        self._text += "".join(delta.text for delta in deltas)
        return deltas

    def finish(self) -> api.Completion:
        if self._inner.done:
            return self._inner.finish()
        return api.Completion(api.Message("assistant", self._text))


class TestADialectThatTakesAnyEndForTheEnd(PlainSamples):
    dialect = _Hasty()
    fails = {"test_a_stream_that_is_cut_is_no_answer"}
