"""The same for embeddings as `dialect` has it for chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from genai_host.api import EmbedCall, ProviderReply, Usage, Vectors
from genai_host.errors import GenaiError
from genai_host.testing.suites.codec import CodecSuite


class EmbedDialectSuite(CodecSuite):
    """The suite of a dialect for embeddings.

        class TestMyDialect(EmbedDialectSuite):
            dialect = MyDialect()
            reply = b'{"vectors": [[1, 0], [0, 1]]}'
            vectors = [[1, 0], [0, 1]]

    dialect            the one that is tested
    reply              body of a whole reply with the vectors of two texts
    vectors            these vectors
    usage              what the reply says was used
    refusals           replies of status 400 or more: status, body, the class of the error
    parameter_values   for parameters whose JSON Schema is not enough to find one, a value
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
        return isinstance(result, Vectors) and len(result.vectors) == 2
