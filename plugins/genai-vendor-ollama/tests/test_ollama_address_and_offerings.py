"""The address of Ollama, and the models that it offers."""

from __future__ import annotations

import genai_models_open
import genai_vendor_ollama
import pytest
from genai_vendor_ollama.provider import address_of, is_cloud
from hypothesis import given, strategies as st

from genai_host import Config, Host
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

ADDRESSES = {
    "": "http://127.0.0.1:11434", "1.2.3.4": "http://1.2.3.4:11434",
    ":1234": "http://127.0.0.1:1234", "1.2.3.4:1234": "http://1.2.3.4:1234",
    "example.com": "http://example.com:11434", "example.com:1234": "http://example.com:1234",
    "example.com:": "http://example.com:11434", "example.com:no": "http://example.com:11434",
    "example.com:²": "http://example.com:11434", ":66000": "http://127.0.0.1:11434",
    ":-1": "http://127.0.0.1:11434", ":999999999999999999999": "http://127.0.0.1:11434",
    "[::1]": "http://[::1]:11434", "::1": "http://[::1]:11434", "[::1]:1337": "http://[::1]:1337",
    " 1.2.3.4 ": "http://1.2.3.4:11434", '"1.2.3.4"': "http://1.2.3.4:11434",
    ' " 1.2.3.4 " ': "http://1.2.3.4:11434", "'1.2.3.4'": "http://1.2.3.4:11434",
    "http://1.2.3.4": "http://1.2.3.4",  # port 80
    "http://1.2.3.4:4321": "http://1.2.3.4:4321",
    "https://1.2.3.4": "https://1.2.3.4",  # port 443
    "https://1.2.3.4:4321": "https://1.2.3.4:4321",
    "https://1.2.3.4:no": "https://1.2.3.4",
    "https://example.com/ollama": "https://example.com/ollama",
    "example.com/ollama/": "http://example.com:11434/ollama",
    "example.com/": "http://example.com:11434",
    "ollama.com": "https://ollama.com",
    "http://ollama.com": "http://ollama.com",
    # what a server listens on at every interface, one connects to at this machine:
    "0.0.0.0": "http://127.0.0.1:11434", "0.0.0.0:1234": "http://127.0.0.1:1234",
    "[::]": "http://[::1]:11434", "[::]:1234": "http://[::1]:1234",
    "https://0.0.0.0:4321": "https://127.0.0.1:4321",
}  # fmt: skip


@pytest.mark.parametrize("host", ADDRESSES)
def test_a_host_is_read_as_ollama_reads_it(host: str) -> None:
    assert address_of(host) == ADDRESSES[host]


@given(st.text() | st.text(alphabet=":/[]0123456789.@ \"'htps"))
def test_whatever_it_is_it_is_read(host: str) -> None:
    assert "://" in address_of(host)


@pytest.mark.parametrize("address", sorted(set(ADDRESSES.values())))
def test_an_address_stands_for_itself(address: str) -> None:
    assert address_of(address) == address


@pytest.mark.parametrize("host", ["user:secret@x", "http://user:secret@x:1/y", "user@x"])
def test_a_password_is_left_to_be_refused(host: str) -> None:
    assert "@" in address_of(host)


@pytest.mark.parametrize(("name", "cloud"), [
    ("ollama.com", True), ("api.ollama.com", True), ("notollama.com", False),
    ("ollama.com.example.org", False), (None, False),
])  # fmt: skip
def test_the_service_of_ollama_is_known(name: str | None, cloud: bool) -> None:
    assert is_cloud(name) is cloud


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
