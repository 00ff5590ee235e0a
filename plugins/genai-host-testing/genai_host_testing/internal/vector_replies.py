"""Suite of what an embedding dialect reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from genai_host.api import Dialect, EmbedCall, Embeddings, ProviderReply
from genai_host.api.codec import default_codec
from genai_host.errors import MalformedReply
from genai_host_testing.internal.garbage import NESTED, WEIRD, json_values, leak
from genai_host_testing.internal.tables import TableSuite
from genai_host_testing.purity import ValuePath, places_in, with_other

CALL = EmbedCall(model_id="m", texts=["a", "b"])


class VectorReplies(TableSuite):
    """Suite of what an embedding dialect reads.

    Attributes:
        wrong: Vectors that are not one for each of two texts.
        malformed: Replies that are malformed.
    """

    tables = {
        "test_what_is_not_one_vector_for_each_text_is_malformed": "wrong",
        "test_what_are_no_vectors_is_malformed": "malformed",
        "test_nothing_in_a_reply_raises_anything_else": "places",
    }
    dialect: Dialect[EmbedCall, Embeddings]
    wrong: Sequence[Any] = (
        *([], [[1]], [[1], [2], [3]], [[1], [2, 3]], [[], []], [1, 2], ["12", "34"], ["é", "é"]),
        *([[1], None], [[1], 2], [[1], [None]], [[1], [[2]]], [[1], ["2"]], [[1], [True]]),
        *([[1], [float("nan")]], [[1], [float("inf")]], [[1], [10**400]], [{"1": 0}, {"2": 0}]),
    )
    malformed: Sequence[Any] = (b"", b"\xff", b"{", [], None, {}, NESTED)

    def reply(self, vectors: Sequence[Any]) -> Any:
        raise NotImplementedError

    def read(self, reply: Any, call: EmbedCall = CALL) -> Embeddings:
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        return self.dialect.extract_result(call, ProviderReply(data))

    @property
    def places(self) -> list[ValuePath]:
        return list(places_in(self.reply([[1.0], [2.0]])))

    def test_vectors_are_read_in_the_order_of_the_texts(self) -> None:
        result = self.read(self.reply([[1, 0.5], [-3e-5, 2]]))
        assert [[*each] for each in result.vectors] == [[1.0, 0.5], [-3e-5, 2.0]]

    def test_what_is_not_one_vector_for_each_text_is_malformed(self, row: Any) -> None:
        with pytest.raises(MalformedReply):
            self.read(self.reply(row))

    def test_what_are_no_vectors_is_malformed(self, row: Any) -> None:
        with pytest.raises(MalformedReply):
            self.read(row)

    def test_nothing_in_a_reply_raises_anything_else(self, row: ValuePath) -> None:
        for weird in WEIRD:
            reply = with_other(self.reply([[1.0], [2.0]]), row, weird)
            self._is_safe(lambda reply=reply: self.keep(self.read(reply)))  # type: ignore[misc]

    def keep(self, vectors: Embeddings) -> None:
        """Put vectors on record."""
        written = json.dumps(default_codec().to_json(vectors), allow_nan=False)
        assert default_codec().from_json(json.loads(written), Embeddings).model == vectors.model

    def test_no_bytes_raise_anything_else(self) -> None:
        keys = {*re.findall(r'"(\w+)":', json.dumps(self.reply([[1], [2]])))}
        names = keys | {"error", "code", "type", "message"}

        @given(json_values(names).map(lambda value: json.dumps(value).encode()) | st.binary())
        @example(NESTED)
        @example(b'{"%b": ' % min(keys).encode() + NESTED + b"}")
        def check(data: bytes) -> None:
            self._is_safe(lambda: self.read(data))
            self._is_safe(lambda: self.dialect.map_error(ProviderReply(data, 400)))

        check()

    def _is_safe(self, act: Callable[[], object]) -> None:
        assert not leak(act)
