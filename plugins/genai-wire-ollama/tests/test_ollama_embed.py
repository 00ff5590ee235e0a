"""What is written for Ollama's embed, and what is read of it."""

from __future__ import annotations

import json
from typing import Any

from genai_wire_ollama.dialect.embed import OllamaEmbed

from genai_host.api import EmbedCall, ProviderReply, Usage
from genai_host.errors import ContextOverflow
from genai_host_testing.internal.vector_replies import VectorReplies

EMBED = OllamaEmbed()


def body_of(*texts: str, **call: Any) -> Any:
    return json.loads(EMBED.prepare_request(EmbedCall(model_id="m", texts=texts, **call)).data())


class TestReplies(VectorReplies):
    dialect = EMBED

    def reply(self, vectors: Any) -> Any:
        return {"model": "m-1", "embeddings": vectors, "prompt_eval_count": 5}

    def test_the_model_and_its_tokens_are_told(self) -> None:
        found = self.read(self.reply([[1], [2]]))
        assert (found.model, found.usage) == ("m-1", Usage(input_tokens=5))


def test_texts_are_sent_at_once_and_whole() -> None:
    assert body_of("é", "") == {"model": "m", "input": ["é", ""], "truncate": False}


def test_parameters_have_their_places() -> None:
    given = {"dimensions": 8, "truncate": True, "keep_alive": 0, "num_ctx": 64}
    body = body_of("a", parameters=given, variant={"options": {"num_gpu": 1}, "keep_alive": "1h"})
    assert body == {
        "model": "m", "input": ["a"], "dimensions": 8, "truncate": True, "keep_alive": 0,
        "options": {"num_gpu": 1, "num_ctx": 64},
    }  # fmt: skip


def test_a_word_stands_before_queries_and_documents_where_a_model_wants_one() -> None:
    variant = {"query": "query: ", "document": "doc: "}
    assert body_of("a", variant=variant, purpose="query")["input"] == ["query: a"]
    assert body_of("a", variant=variant)["input"] == ["doc: a"]


def test_a_text_that_is_too_long_is_told() -> None:
    body = b'{"error": "the input length exceeds the context length"}'
    assert type(EMBED.map_error(ProviderReply(body, 400))) is ContextOverflow
