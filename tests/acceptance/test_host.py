"""Acceptance of the host, item by item of source document 000, as far as the core goes, where parts
of it work together; the others are in the tests of each part. Items 6
and 18 belong to what is built on it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host import Conversation, Host
from genai_host.api import (
    Answer,
    CancelToken,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    Model,
    NoSettings,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
    Turn,
    hookimpl,
    hooks,
)
from genai_host.config import read_config
from genai_host.errors import (
    Cancelled,
    NotFound,
    ProviderRemoved,
)
from genai_host.store import Store
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.assistants_api import until
from genai_host_testing.internal.fixtures import MakeHost, requests_of
from genai_host_testing.services.openai import chat
from genai_host_testing.suites.base import in_background


def test_item_01_three_contracts_are_hooks(make_host: MakeHost) -> None:
    """The same from installed wheels: tests/project/test_installed.py, TestStrangers."""
    for hook in ("genai_providers", "genai_models", "genai_features"):
        assert getattr(hooks, hook).genai_host_spec is not None

    class Own(Provider):
        serves = {"plain": DialectEndpoint()}

        def __init__(self, settings: NoSettings, services: Services) -> None: ...

        def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            return ProviderReply(b'{"message": {"role": "assistant", "content": "own"}}')

        stream = send

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        return Answer((yield from Prompt([turn.message])).text + "!")

    class Plugin:
        @hookimpl
        def genai_providers(self) -> list[ProviderType[NoSettings]]:
            return [ProviderType("own", NoSettings, Own)]

        @hookimpl
        def genai_models(self) -> list[Model]:
            return [Model("own-1", ["plain"], at={"own": "1"})]

        @hookimpl
        def genai_features(self) -> list[Feature[NoSettings]]:
            return [Feature("shout", NoSettings, respond)]

    host = make_host(own=Plugin())
    assert host.open("shout", "own-1").say("hi").text == "own!"


def test_item_11_fifty_conversations_in_parallel_see_only_their_own(host: Host) -> None:
    """Their history, and their parameters."""
    start = threading.Barrier(50)

    def converse(number: int) -> Conversation:
        host.instances.add(f"own-{number}", "mock")
        conversation = host.open("chat", provider=f"own-{number}", parameters={"seed": number})
        start.wait(60)
        for turn in range(5):
            conversation.say(f"conversation {number} turn {turn}")
        return conversation

    with ThreadPoolExecutor(50) as threads:
        conversations = list(threads.map(converse, range(50)))
    for number, conversation in enumerate(conversations):
        texts = [message.text for message in conversation.history]
        assert texts == [f"conversation {number} turn {turn}" for turn in range(5) for _ in "qa"]
        seeds = {each["parameters"]["seed"] for each in requests_of(host, f"own-{number}")}
        assert seeds == {number}


@pytest.mark.parametrize("end", ["remove", "disable"])
def test_item_12_fails_cleanly_where_its_instance_is_gone(host: Host, end: str) -> None:
    host.instances.add("second-account", "mock", {"replies": ["a", {"fault": "hang"}]})
    conversation = host.open("chat", provider="second-account")
    conversation.say("x")
    provider: Any = host.instances["second-account"].provider
    talking = in_background(conversation.say, "y")
    until(lambda: len(provider.requests) == 2)
    getattr(host.instances, end)("second-account")
    error = talking.exception(30)
    assert isinstance(error, ProviderRemoved)
    assert error.provider == "second-account"
    with pytest.raises(ProviderRemoved, match="second-account"):
        conversation.say("z")
    assert len(conversation.history) == 2


class TestItem19:
    """Cancelling in mid-reply closes the upstream connection: `HttpProviderSuite` for each service,
    test_local_cancel.py for the embedded model."""

    def test_closing_releases_everything(self, make_host: MakeHost) -> None:
        before = set(threading.enumerate())
        host = make_host()
        host.instances.add("stuck", "mock", {"replies": [{"fault": "hang"}]})
        conversation = host.open("chat", provider="stuck")
        ended = threading.Event()

        def talk() -> None:
            with pytest.raises(Cancelled):
                conversation.say("x")
            ended.set()

        thread = threading.Thread(target=talk)
        thread.start()
        while not ended.wait(0.05):
            conversation.close()
        thread.join(30)
        host.close()
        assert set(threading.enumerate()) <= before


@pytest.mark.part
def test_item_16_stored_reopened_renamed_exported(make_host: MakeHost, tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        first = make_host(store=store).open("chat", "mock")
        first.say("What was said")
        first.say("and more")
        transcript = first.history
    with Store(tmp_path / "x.db") as store:
        host = make_host(store=store)
        again = host.conversation(first.id)
        assert again.history == transcript
        assert again.say("goes on").text == "goes on"
        store.rename(first.id, "of interest")
        assert [each.title for each in host.conversations()] == ["of interest"]
        copy = store.import_conversation(store.export(first.id), host.codec)
        assert host.conversation(copy).history == again.history
        assert "What was said" in store.markdown(first.id, host.codec)
        store.delete(first.id)
        with pytest.raises(NotFound):
            host.conversation(first.id)
        assert [each.id for each in host.conversations()] == [copy]


KEYS = {"one": "sk-canary-one-83", "two": "sk-canary-two-83"}


@pytest.mark.part
def test_item_02_instances_of_a_type(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP and on a page they are what is built on this."""
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with FakeService() as one, FakeService() as two:
        services = {"one": one, "two": two}
        for name, service in services.items():
            terminal.out(f"config add {name} openai-compatible base_url={service.url}/v1")
            terminal.out(f"keys set {name}", stdin=KEYS[name])
        for name, service in services.items():
            service.replies = [chat(name, streamed=True)]
            assert terminal.out(f"ask -p {name} -m llama hi") == f"{name}\n"
            [sent] = service.requests
            assert sent.headers["authorization"] == f"Bearer {KEYS[name]}"
        assert [row["name"] for row in terminal.json("config list")] == ["one", "two"]
        terminal.out("config set providers.one.default_model=llama")
        assert read_config().providers["one"].settings["default_model"] == "llama"
        terminal.out("config disable one")
        assert "provider 'one' is disabled" in terminal.error("ask -p one hi")
        terminal.out("config enable one")
        terminal.out("config remove two")
        assert "unknown provider 'two'" in terminal.error("ask -p two hi")
        help = terminal.out("config types openai-compatible")
        assert "default_model\tstr\t\t\tdefault model for chat" in help
