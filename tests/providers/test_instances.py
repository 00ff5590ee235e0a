"""Provider instances: opened late, several of a type, removed while in use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

from genai_host import Config, Host
from genai_host.api import (
    Cancellation,
    CancelToken,
    DialectEndpoint,
    Model,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Secret,
    Services,
    about,
    hookimpl,
)
from genai_host.config import read_config
from genai_host.errors import ConfigurationError, NoRoute, ProviderRemoved
from genai_host.providers.instance import ProviderUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background


@frozen
class Settings:
    answer: str = field(default="yes", metadata=about("what to say", env="ANSWERING_TEXT"))
    key: Secret | None = field(default=None, metadata=about("the key", env="ANSWERING_KEY"))


_KEY = {"key": {"env": "ANSWERING_KEY"}}
"""The variable of the type is that of the instance named like the type alone."""


class Answering(Provider):
    """Says what it is set to; knows how often it was opened and closed."""

    serves = {"plain": DialectEndpoint()}
    opened: list[str] = []
    closed: list[str] = []

    def __init__(self, settings: Settings, services: Services) -> None:
        if settings.answer == "fail":
            raise ZeroDivisionError("cannot be opened")
        self.settings = settings
        self.name = services.instance
        self.opened.append(self.name)

    def unavailable_reason(self) -> str | None:
        if self.settings.answer == "crash":
            raise LookupError("crashed")
        return None if self.settings.key else "no key: set ANSWERING_KEY"

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        text = self.settings.answer
        return ProviderReply(b'{"message": {"role": "assistant", "content": "%s"}}' % text.encode())

    stream = send

    def close(self) -> None:
        self.closed.append(self.name)


@pytest.fixture
def answering(make_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> Any:
    Answering.opened.clear()
    Answering.closed.clear()
    monkeypatch.setenv("ANSWERING_KEY", "canary-key")

    def make(config: Config | None = None, **plugins: object) -> Host:
        plugin = InlinePlugin(
            providers=[ProviderType("answering", Settings, Answering)],
            models=[Model("m", ["plain"], at={"answering": "m"})],
        )
        return make_host(config=config, answering=plugin, **plugins)

    return make


def test_several_instances_of_one_type_are_configured_apart(answering: Any) -> None:
    providers = {
        name: provider_config("answering", **{"answer": name, **_KEY}) for name in ("one", "two")
    }
    host = answering(Config(providers=providers))
    for name in providers:
        assert host.open("chat", "m", provider=name).say("x").text == name
        assert host.open("chat", f"m@{name}").say("x").text == name


def test_each_type_has_an_instance_that_is_opened_once_and_late(answering: Any) -> None:
    host = answering()
    assert Answering.opened == []
    for _ in range(3):
        assert host.open("chat", "m").say("x").text == "yes"
    assert Answering.opened == ["answering"]
    host.close()
    assert Answering.closed == ["answering"]


def test_precedence_of_settings(answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWERING_TEXT", "from environment")
    own = {"own": provider_config("answering", **{"answer": "from file", **_KEY})}
    host = answering(Config(providers=own))
    assert host.open("chat", "m@answering").say("x").text == "from environment"
    assert host.open("chat", "m@own").say("x").text == "from file"


def test_a_secret_is_never_read_from_the_file(answering: Any) -> None:
    host = answering(Config(providers={"own": provider_config("answering", key="in the open")}))
    with pytest.raises(NoRoute, match="is a secret") as caught:
        host.open("chat", "m@own")
    assert "genai-host keys set own --secret key" in str(caught.value)
    assert "in the open" not in str(caught.value)


class TestConfigured:
    """What is wrong in the file is told with its line."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "mine.toml"

    @pytest.mark.parametrize(("lines", "says", "hint"), [
        ('anwser = "x"', ":4: provider own: unknown setting 'anwser'", "did you mean answer?"),
        ("answer = 3", ":4: provider own: answer: expected a string, not an integer",
         "what to say"),
        ('key = "sk-canary"', ":4: provider own: key is a secret", "keys set own"),
        ('key = { env = "UNSET" }', ":4: provider own: key: nothing in", ""),
        ("limits.timeot = 1", ":4: provider own: limits: unknown setting 'timeot'", "timeout?"),
        ("limits = { read_timeout = 0 }", "provider own: limits: 'read_timeout' must be > 0", ""),
    ])  # fmt: skip
    def test_a_wrong_setting(
        self, answering: Any, file: Path, lines: str, says: str, hint: str
    ) -> None:
        file.write_text(f'[providers.own]\ntype = "answering"\n# here\n{lines}\n')
        host = answering(read_config(file))
        with pytest.raises(ConfigurationError) as caught:
            _ = host.instances["own"].provider
        assert says in str(caught.value)
        assert hint in caught.value.hint
        assert "canary" not in str(caught.value)
        if says.startswith(":"):
            assert (caught.value.file, caught.value.line) == (str(file), 4)
            assert str(caught.value).startswith(str(file))

    def test_the_environment_comes_before_it(self, answering: Any, file: Path) -> None:
        file.write_text('[providers.own]\ntype = "answering"\nanswer = "file"\n')
        variable = "GENAI_HOST_PROVIDERS__OWN__ANSWER"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, "environment")
            patch.setenv("GENAI_HOST_PROVIDERS__OWN__KEY", "x")
            patch.setenv("GENAI_HOST_PROVIDERS__OWN__LIMITS__READ_TIMEOUT", "7")
            instance = answering(read_config(file)).instances["own"]
            assert instance.read_settings() == Settings("environment", Secret("x"))
            assert instance.read_limits({"read_timeout": 3}).read_timeout == 7
            patch.setenv("GENAI_HOST_PROVIDERS__OWN__LIMITS__READ_TIMEOUT", "soon")
            with pytest.raises(ConfigurationError, match="LIMITS__READ_TIMEOUT: "):
                _ = answering(read_config(file)).instances["own"].provider
            patch.setenv("GENAI_HOST_PROVIDERS__OWN__ANSWR", "x")
            with pytest.raises(ConfigurationError, match="__ANSWR: unknown setting") as caught:
                _ = answering(read_config(file)).instances["own"].provider
            assert caught.value.hint == "did you mean answer?"

    def test_a_key_that_came_later_is_used_once_it_is_opened_anew(self, answering: Any) -> None:
        host = answering()
        host.instances.add("own", "answering")
        with pytest.raises(NoRoute, match="no key"):
            host.open("chat", "m@own")
        host.keys.set("own", "key", Secret("x"))
        host.instances.reopen("own")
        conversation = host.open("chat", "m@own")
        assert conversation.say("x").text == "yes"
        host.instances.reopen("own")
        assert conversation.say("x").text == "yes"
        assert Answering.closed.count("own") == 2


@pytest.mark.parametrize(("settings", "reason"), [
    ({"answer": "fail"}, "ZeroDivisionError: cannot be opened"),
    ({"answer": "crash"}, "its plugin failed: LookupError: crashed"),
    ({"anwser": "x"}, "unknown setting 'anwser'; did you mean answer?"),
    ({"answer": 3}, "expected a string, not an integer"),
])  # fmt: skip
def test_one_that_cannot_open_disturbs_no_other(answering: Any, settings: Any, reason: str) -> None:
    host = answering(Config(providers={"bad": provider_config("answering", **settings)}))
    assert host.open("chat", "m").say("x").text == "yes"
    with pytest.raises(NoRoute) as caught:
        host.open("chat", "m@bad")
    assert reason in str(caught.value)


def test_an_instance_of_an_unknown_type_says_so(answering: Any) -> None:
    host = answering(Config(providers={"odd": provider_config("nonexistent")}))
    why = "the provider 'odd' cannot run: unknown provider type 'nonexistent'"
    for name, provider in (("m", "odd"), ("m@odd", None), ("odd/m", None)):
        with pytest.raises(NoRoute, match=f"^{why}$"):
            host.open("chat", name, provider=provider)


def test_one_of_a_misspelt_type_is_told_with_its_line(answering: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[providers.odd]\ntype = 'answring'\n")
    reason = answering(read_config(file)).instances.unknown["odd"]
    assert reason == (f"{file}:2: unknown provider type 'answring'; did you mean answering?")


def test_what_one_lacks_is_a_reason(answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANSWERING_KEY")
    with pytest.raises(NoRoute, match="no key: set ANSWERING_KEY"):
        answering().open("chat", "m")


class TestWhileRunning:
    def test_an_instance_can_be_added(self, answering: Any) -> None:
        host = answering()
        host.instances.add("more", "answering", {"answer": "more", **_KEY}, {"own": "m-1"})
        assert host.open("chat", "m@more").say("x").text == "more"
        assert host.open("chat", "own").say("x").text == "more"

    def test_what_cannot_be_added_is_refused(self, answering: Any) -> None:
        host = answering()
        for name, kind, reason in (
            ("answering", "answering", "provider 'answering' already exists"),
            ("x", "ollama", "unknown provider type"),
            ("Not Plain", "answering", "invalid provider name"),
        ):
            with pytest.raises(ConfigurationError, match=reason) as caught:
                host.instances.add(name, kind)
            assert ("genai-vendor-ollama" in caught.value.hint) is (kind == "ollama")

    @pytest.mark.parametrize(
        ("end", "says"),
        [("remove", "provider 'more' was removed"), ("disable", "provider 'more' is disabled")],
    )
    def test_conversations_fail_and_name_it(self, answering: Any, end: str, says: str) -> None:
        host = answering()
        host.instances.add("more", "answering", _KEY)
        conversation = host.open("chat", "m@more")
        conversation.say("x")
        getattr(host.instances, end)("more")
        with pytest.raises(ProviderRemoved, match=says) as caught:
            conversation.say("y")
        assert caught.value.provider == "more"
        assert len(conversation.history) == 2
        assert Answering.closed == ["more"]
        assert host.open("chat", "m").say("x").text == "yes"

    def test_a_disabled_instance_can_be_enabled_again(self, answering: Any) -> None:
        host = answering()
        conversation = host.open("chat", "m")
        host.instances.disable("answering")
        with pytest.raises(NoRoute, match="is disabled"):
            host.open("chat", "m")
        host.instances.enable("answering")
        assert conversation.say("x").text == "yes"
        assert host.open("chat", "m").say("x").text == "yes"

    def test_removing_an_instance_ends_the_calls_under_way(self, host: Host) -> None:
        host.instances.add("stuck", "mock", {"replies": [{"fault": "hang"}]})
        conversation = host.open("chat", provider="stuck")
        begun = threading.Event()

        def run() -> None:
            begun.set()
            conversation.say("x")

        running = in_background(run)
        assert begun.wait(30)
        host.instances.remove("stuck")
        error = running.exception(30)
        assert isinstance(error, ProviderRemoved)
        assert "stuck" in str(error)

    def test_what_is_gone_cannot_be_opened_or_used(self, answering: Any) -> None:
        host = answering()
        instance = host.instances.add("more", "answering")
        host.instances.remove("more")
        with pytest.raises(ProviderRemoved), instance.attempt(Cancellation()):
            pytest.fail("it was opened")
        with pytest.raises(ProviderRemoved):
            _ = instance.provider
        assert isinstance(instance.look(), ProviderUnavailable)
        with pytest.raises(ProviderRemoved, match="provider 'more' was removed"):
            host.instances.remove("more")
        host.instances.add("more", "answering")
        host.instances.remove("more")

    def test_what_never_was_is_not_said_to_be_removed(self, make_host: MakeHost) -> None:
        instances = make_host(config=Config(providers={"mine": provider_config("gone")})).instances
        for ask in (instances.__getitem__, instances.remove, instances.disable, instances.enable):
            with pytest.raises(NoRoute, match=r"^unknown provider 'moc'$") as caught:
                ask("moc")
            assert caught.value.suggestions == ("mock",)
            assert caught.value.hint == "did you mean mock?"
            with pytest.raises(NoRoute, match="'mine': unknown provider type 'gone'"):
                ask("mine")
        with pytest.raises(NoRoute) as caught:
            instances["xyz"]
        assert caught.value.hint == "choose from mock"
        with pytest.raises(NoRoute) as caught:
            instances["ollama"]
        bring = "install its plugin: genai-host install genai-vendor-ollama"
        assert caught.value.hint == f"choose from mock; {bring}"

    def test_what_is_being_disabled(self, answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """While its provider is closed, which may take long."""
        host = answering()
        messages: list[str] = []

        def close() -> None:
            with pytest.raises(ProviderRemoved) as caught:
                host.instances["answering"]
            messages.append(str(caught.value))

        monkeypatch.setattr(host.instances["answering"].provider, "close", close)
        host.instances.disable("answering")
        assert messages == ["provider 'answering' was disabled"]


class Watching(InlinePlugin):
    """Hears of changes and of calls; breaks if it is told to."""

    def __init__(self, *, breaks: bool = False) -> None:
        super().__init__()
        self.events: list[Any] = []
        self._breaks = breaks

    @hookimpl
    def genai_on_change(self, kind: str, name: str, added: bool) -> None:
        if self._breaks:
            raise RuntimeError("broken observer")
        self.events.append((kind, name, added))


class TestObservers:
    def test_they_hear_of_what_is_added_and_removed(self, answering: Any) -> None:
        watching = Watching()
        host = answering(watching=watching)
        host.instances.add("more", "answering")
        for change in ("disable", "enable", "enable", "remove"):
            getattr(host.instances, change)("more")
        added = [True, False, True, False]
        assert watching.events == [("provider", "more", each) for each in added]

    def test_failures_are_logged(self, answering: Any, caplog: pytest.LogCaptureFixture) -> None:
        broken, watching = Watching(breaks=True), Watching()
        answering(broken=broken, watching=watching).instances.add("more", "answering")
        assert watching.events == [("provider", "more", True)]
        assert "plugin broken raised in genai_on_change" in caplog.text
