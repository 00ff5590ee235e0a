"""The open-weight models at Ollama: that they join, and in which dialects."""

from __future__ import annotations

import genai_models_open
import genai_vendor_ollama
import pytest

from genai_host import Config, Host
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

OFFERINGS = list(genai_vendor_ollama.genai_offerings())


@pytest.fixture
def host(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    gpu = provider_config("ollama", models={"qwen3-8b": "mine:latest"})
    return make_host(
        config=Config(providers={"gpu": gpu}), models=genai_models_open, ollama=genai_vendor_ollama
    )


def test_all_of_them_are_declared_and_run(host: Host) -> None:
    for offering in OFFERINGS:
        model = host.catalog.models[offering.model]
        routes = host.explain(f"{offering.model}@ollama", operation=model.operation)
        assert [each.id for each in routes if each.runs] == [offering.id] * len(routes)
        assert [each.dialect for each in routes] == (
            ["ollama-chat"] if model.operation == "chat" else ["ollama-embed"]
        )


def test_tags_are_named_once() -> None:
    ids = [offering.id for offering in OFFERINGS]
    assert len(set(ids)) == len(ids)
    assert all(":" in id for id in ids)


def test_a_model_can_do_what_it_and_the_dialect_can(host: Host) -> None:
    (chat,) = host.explain("qwen3-8b@ollama")
    assert chat.capabilities == {"tools", "schema", "reasoning", "stream"}
    (deepseek,) = host.explain("deepseek-v3@ollama")
    assert "tools" not in deepseek.capabilities


def test_a_tag_that_is_offered_is_its_model(host: Host) -> None:
    assert host.explain("ollama/qwen3:8b")[0].model.name == "qwen3-8b"
    assert host.explain("ollama/some:tag")[0].id == "some:tag"


def test_an_instance_may_have_another_tag(host: Host) -> None:
    assert {each.id for each in host.explain("qwen3-8b@gpu")} == {"mine:latest"}


def test_models_for_embeddings_get_the_words_that_they_want(host: Host) -> None:
    (route,) = host.explain("nomic-embed-text@ollama", operation="embed")
    assert route.variant["query"] == "search_query: "
    (route,) = host.explain("bge-m3@ollama", operation="embed")
    assert route.variant["query"] == ""


def test_without_declarations_they_go_by_their_names_all_the_same(make_host: MakeHost) -> None:
    host = make_host(ollama=genai_vendor_ollama)
    assert host.explain("qwen3-8b@ollama")[0].id == "qwen3:8b"
    assert {each.dialect for each in host.explain("bge-m3@ollama", operation="embed")} == {
        "ollama-embed"
    }
