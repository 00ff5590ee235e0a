"""Suites of dialects of other operations than chat: text completions, token counts, embeddings,
speech to text, moderation.

All have the attributes of `CodecSuite`, `CompleteDialectSuite` those of `StreamSuite` as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from genai_host.api import (
    ChatCall,
    CompleteCall,
    EmbedCall,
    Embeddings,
    File,
    Message,
    ModerateCall,
    ModerationResult,
    ProviderReply,
    TokenCount,
    ToolSchema,
    TranscribeCall,
    Transcription,
    Usage,
)
from genai_host.errors import GenaiError, IncompleteReply, UnsupportedPart
from genai_host_testing.suites.codec import CodecSuite, StreamSuite, fed


class CompleteDialectSuite(StreamSuite):
    """Suite for a dialect of text completions.

        class TestMyDialect(CompleteDialectSuite):
            dialect = MyDialect()
            reply = b'{"text": " there", "tokens": [3, 2]}'
            stream = [b'{"text": " th"}', b'{"text": "ere"}', b'{"tokens": [3, 2]}']
            usage = Usage(3, 2)

    Attributes:
        text: Text of the reply.
    """

    stream: Sequence[bytes]
    text = " there"

    def call(self) -> CompleteCall:
        return CompleteCall(model_id="m-1", prompts=("hello",))

    def test_it_says_whose_models_it_serves(self) -> None:
        assert self.dialect.operation == "complete"
        assert self.dialect.models_of

    def test_texts_and_suffixes_are_written_or_refused(self) -> None:
        plain = self.data(self.call())
        for other in ({"prompts": ("hi",)}, {"prompts": ("hello", "hi")}, {"suffix": "."}):
            try:
                assert self.data(evolve(self.call(), **other)) != plain, f"{other} is left out"
            except UnsupportedPart as error:
                assert error.dialect == self.dialect.name

    def test_tokens_are_written_or_refused(self) -> None:
        call = evolve(self.call(), prompts=((101, 102),))
        if self.dialect.accepts_tokens:
            assert "101" in self.dialect.prepare_request(call).data().decode()
        else:
            with pytest.raises(UnsupportedPart):
                self.dialect.prepare_request(call)

    def test_a_stream_gives_the_same_as_a_reply(self) -> None:
        found = self.extracted(self.reply)
        pieces, streamed = self.decoded(self.stream)
        assert "".join(piece.text for piece in pieces) == self.text
        for each in (found, streamed):
            assert (each.text, each.finish, each.usage) == (self.text, "stop", self.usage)
        assert self.dialect.prepare_request(evolve(self.call(), stream=True)).stream

    def test_a_stream_that_is_cut_is_no_answer(self) -> None:
        for count in range(len(self.stream) - self.closing_events):
            decoder = self.decoder()
            text = "".join(piece.text for piece in fed(decoder, self.stream[:count]))
            with pytest.raises(IncompleteReply) as caught:
                decoder.finish()
            assert caught.value.text == text


class CountDialectSuite(CodecSuite):
    """Suite for a dialect that counts tokens.

        class TestMyCount(CountDialectSuite):
            dialect = MyCount()
            reply = b'{"input_tokens": 12}'
            count = 12

    Attributes:
        count: Tokens in the reply.
    """

    count: int

    def call(self) -> ChatCall:
        weather = {"type": "object", "properties": {"city": {"type": "string"}}}
        messages = [Message("system", "be brief"), Message("user", "one")]
        tools = [ToolSchema("weather", "tells the weather", weather)]
        return ChatCall(model_id="m-1", messages=messages, tools=tools)

    def test_it_says_whose_calls_it_counts(self) -> None:
        assert self.dialect.operation == "count"
        assert self.dialect.models_of

    def test_all_that_takes_tokens_is_written(self) -> None:
        whole = self.data(self.call())
        for message in self.call().messages:
            other = [*self.call().messages, message]
            assert self.data(evolve(self.call(), messages=other)) != whole
        assert self.data(evolve(self.call(), messages=self.call().messages[1:])) != whole
        assert self.data(evolve(self.call(), tools=())) != whole

    def test_a_reply_is_read(self) -> None:
        assert self.extracted(self.reply).tokens == self.count

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, TokenCount) and type(result.tokens) is int and result.tokens >= 0


class EmbedDialectSuite(CodecSuite):
    """Suite for an embedding dialect.

        class TestMyDialect(EmbedDialectSuite):
            dialect = MyDialect()
            reply = b'{"vectors": [[1, 0], [0, 1]]}'
            vectors = [[1, 0], [0, 1]]

    Attributes:
        vectors: Vectors of the reply, which is one for two texts.
        usage: Usage in the reply.
    """

    vectors: Sequence[Sequence[float]]
    usage = Usage()

    def call(self) -> EmbedCall:
        return EmbedCall(model_id="m-1", texts=("one", "two"))

    def test_each_text_is_written(self) -> None:
        whole = self.data(self.call())
        assert whole != self.data(evolve(self.call(), texts=("two", "one")))
        assert whole != self.data(evolve(self.call(), texts=("one",)))

    def test_a_reply_is_read(self) -> None:
        found = self.extracted(self.reply)
        assert [[*vector] for vector in found.vectors] == [[*vector] for vector in self.vectors]
        assert found.usage == self.usage

    def test_a_reply_for_another_number_of_texts_is_a_typed_error(self) -> None:
        for texts in (("one",), ("one", "two", "three")):
            with pytest.raises(GenaiError):
                self.dialect.extract_result(
                    EmbedCall(model_id="m-1", texts=texts), ProviderReply(self.reply)
                )

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, Embeddings) and len(result.vectors) == 2


class TranscribeDialectSuite(CodecSuite):
    """Suite for a dialect that converts speech to text.

        class TestMyDialect(TranscribeDialectSuite):
            dialect = MyDialect()
            reply = b'{"words": "hello there"}'

    Attributes:
        text: Text of the reply.
        usage: Usage in the reply.
    """

    text = "hello there"
    usage = Usage()

    def call(self) -> TranscribeCall:
        return TranscribeCall(model_id="m-1", audio=File(b"RIFF sample", "audio/wav", "a.wav"))

    def test_the_recording_is_written_or_refused(self) -> None:
        call = self.call()
        request = self.dialect.prepare_request(call)
        other = self.dialect.prepare_request(evolve(call, audio=File(b"other", name="a.wav")))
        assert (request.file, request.data()) != (other.file, other.data())
        by_url = evolve(call, audio=File(url="https://x/a.wav"))
        try:
            assert b"https://x/a.wav" in self.dialect.prepare_request(by_url).data()
        except UnsupportedPart as error:
            assert error.dialect == self.dialect.name

    def test_a_reply_is_read(self) -> None:
        found = self.extracted(self.reply)
        assert (found.text, found.usage) == (self.text, self.usage)

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, Transcription) and isinstance(result.text, str)


class ModerateDialectSuite(CodecSuite):
    """Suite for a moderation dialect.

        class TestMyDialect(ModerateDialectSuite):
            dialect = MyDialect()
            reply = b'{"bad": true}'
            flagged = True

    Attributes:
        flagged: Whether the reply flags the text.
    """

    flagged: bool

    def call(self) -> ModerateCall:
        return ModerateCall(model_id="m-1", text="one")

    def test_the_text_is_written(self) -> None:
        assert self.data(self.call()) != self.data(evolve(self.call(), text="two"))

    def test_a_reply_is_read(self) -> None:
        assert self.extracted(self.reply).flagged is self.flagged

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, ModerationResult) and isinstance(result.flagged, bool)
