"""What is written for Ollama's embed, and what is read of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_ollama.dialect.embed import OllamaEmbed

from genai_host.api import EmbedCall, ProviderReply, Usage
from genai_host.errors import ContextOverflow, MalformedReply

EMBED = OllamaEmbed()


def body_of(*texts: str, **call: Any) -> Any:
    return json.loads(EMBED.prepare_request(EmbedCall(model_id="m", texts=texts, **call)).data())


def read(*embeddings: Any, texts: int = 2) -> Any:
    body = json.dumps({"model": "m-1", "embeddings": embeddings, "prompt_eval_count": 5}).encode()
    return EMBED.extract_result(EmbedCall(model_id="m", texts=["a"] * texts), ProviderReply(body))


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


def test_vectors_are_read() -> None:
    found = read([1, 0.5], [0, -2])
    assert found.vectors == [[1.0, 0.5], [0.0, -2.0]]
    assert (found.model, found.usage) == ("m-1", Usage(input_tokens=5))


@pytest.mark.parametrize(
    "embeddings",
    [
        [],
        [[1]],
        [[1], [1], [1]],
        [[1], [1, 2]],
        [[], []],
        [[1], ["2"]],
        [[1], [True]],
        [[1], [10**400]],
        [1, 2],
    ],
)
def test_what_is_not_one_vector_for_each_text_is_malformed(embeddings: list[Any]) -> None:
    with pytest.raises(MalformedReply):
        read(*embeddings)


def test_a_text_that_is_too_long_is_told() -> None:
    body = b'{"error": "the input length exceeds the context length"}'
    assert type(EMBED.map_error(ProviderReply(body, 400))) is ContextOverflow
