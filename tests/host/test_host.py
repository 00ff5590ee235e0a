"""Opening conversations: which feature, which model, which provider."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

import genai_host
from genai_host import Config, Host, InMemoryRecord, StaticPlugins
from genai_host.api import Answer, Feature, FeatureSteps, Model, NoSettings, Now, Turn, hookimpl
from genai_host.errors import (
    ConfigurationError,
    ConversationClosed,
    NoRoute,
    ReplayError,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background


def idle(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from Now()
    return Answer("done")


class TestChoosing:
    def test_the_configured_feature_and_models_are_used(self, make_host: MakeHost) -> None:
        config = Config(feature="own", models={"chat": "mock"})
        host = make_host(
            config=config, own=InlinePlugin(features=[Feature("own", NoSettings, idle)])
        )
        conversation = host.open()
        assert conversation.feature.name == "own"
        assert conversation.models == {"main": "mock@mock"}

    def test_a_stand_in_is_not_chosen_unasked(self, host: Host) -> None:
        with pytest.raises(NoRoute, match="no default model"):
            host.open("chat")
        assert host.open("chat", provider="mock").models == {"main": "mock@mock"}

    def test_an_unknown_feature_says_which_there_are(self, host: Host) -> None:
        with pytest.raises(ConfigurationError, match="unknown feature 'agent'") as caught:
            host.open("agent", "mock")
        assert "choose from chat" in caught.value.hint
        assert "genai-host install genai-feature-agent" in caught.value.hint

    def test_an_unknown_role_says_which_there_are(self, host: Host) -> None:
        with pytest.raises(ConfigurationError, match="unknown role 'judge'") as caught:
            host.open("chat", "mock", models={"judge": "mock"})
        assert "main, support" in caught.value.hint

    def test_a_feature_that_uses_no_model_takes_none(self, make_host: MakeHost) -> None:
        host = make_host(f=InlinePlugin(features=[Feature("f", NoSettings, idle, roles={})]))
        with pytest.raises(ConfigurationError, match="uses no model"):
            host.open("f", "mock")
        assert host.open("f").say("x").text == "done"

    def test_a_role_gets_the_default_of_its_operation(self, make_host: MakeHost) -> None:
        roles = {"main": "chat", "embed": "embed"}
        feature = Feature("f", NoSettings, idle, roles=roles)  # type: ignore[arg-type]
        config = Config(models={"embed": "mock-embed"})
        host = make_host(config=config, f=InlinePlugin(features=[feature]))
        assert host.open("f", "mock").models["embed"] == "mock-embed@mock"
        with pytest.raises(NoRoute, match="mock is a model for chat, not embed"):
            host.open("f", "mock", models={"embed": "mock"})

    @pytest.mark.parametrize("model", [None, "own"])
    def test_main_is_a_role_as_others(self, host: Host, model: str | None) -> None:
        host.instances.add("more", "mock", models={"own": "x"})
        assert host.open("chat", model, models={"main": "own"}).models == {"main": "own@more"}
        with pytest.raises(ConfigurationError, match="two models for the role main"):
            host.open("chat", "mock", models={"main": "own"})

    def test_a_model_of_a_plugin_that_is_blocked_is_unknown(self, make_host: MakeHost) -> None:
        extra = InlinePlugin(models=[Model("extra", ["plain"], at={"mock": "x"})])
        assert make_host(extra=extra).open("chat", "extra").models
        with pytest.raises(NoRoute):
            make_host(extra=extra, config=Config(disabled=["extra"])).open("chat", "extra")


class TestClosing:
    def test_it_ends_everything_that_was_opened(self, make_host: MakeHost) -> None:
        host = make_host()
        conversations = [host.open("chat", "mock") for _ in range(3)]
        provider = host.instances["mock"].provider
        host.close()
        host.close()
        assert [conversation.status for conversation in conversations] == ["closed"] * 3
        assert provider.closed  # type: ignore[attr-defined]
        with pytest.raises(ConversationClosed):
            host.open("chat", "mock")

    def test_a_turn_under_way_ends(self, make_host: MakeHost) -> None:
        host = make_host()
        host.instances.add("stuck", "mock", {"replies": [{"fault": "hang"}]})
        saying = in_background(host.open("chat", provider="stuck").say, "x")
        while not saying.done():
            host.close()
            wait([saying], 0.05)
        assert isinstance(saying.exception(), genai_host.GenaiError)

    def test_a_host_that_was_never_used_loads_no_plugin(self, make_host: MakeHost) -> None:
        class Unloadable:
            def __getattr__(self, name: str) -> object:
                raise AssertionError("it was looked at")

        make_host(unloadable=Unloadable()).close()


def test_item_1_without_plugins_it_says_in_one_line_what_to_add() -> None:
    with (
        Host(config=Config(), discovery=StaticPlugins({})) as alone,
        pytest.raises(ConfigurationError, match="no feature is installed") as caught,
    ):
        alone.open("chat")
    assert caught.value.hint == 'add the chat and a model: genai-host install "genai-host[starter]"'


def test_two_hosts_know_nothing_of_each_other(make_host: MakeHost) -> None:
    one, two = make_host(), make_host()
    one.instances.add("only-here", "mock")
    assert "only-here" not in two.instances
    one.close()
    assert two.open("chat", "mock").say("hi").text == "hi"


def test_routes_are_made_once_and_anew_when_an_instance_changes(host: Host) -> None:
    catalog = host.catalog
    assert host.catalog is catalog
    host.instances.add("more", "mock", models={"own": "x"})
    assert host.catalog is not catalog
    assert host.open("chat", "own").models == {"main": "own@more"}


def test_unknown_names_keep_no_memory_of_the_known(host: Host) -> None:
    """Each has it looked anew which models there are."""
    host.open("chat", "mock/first")
    catalog = weakref.ref(host.catalog)
    with pytest.raises(NoRoute):
        host.open("chat", "nobody/some-model")
    host.open("chat", "mock/second")
    gc.collect()
    assert catalog() is None


def test_only_a_record_can_be_reopened(host: Host) -> None:
    with pytest.raises(ReplayError):
        host.reopen(InMemoryRecord())


@pytest.mark.part  # urllib3 opens a socket when it is imported
def test_every_public_name_is_there() -> None:
    assert sorted(genai_host.__all__) == genai_host.__all__
    assert set(genai_host._HOMES) == set(genai_host.__all__)
    for name in genai_host.__all__:
        assert getattr(genai_host, name) is not None
    assert set(genai_host.__all__) <= set(dir(genai_host))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        genai_host.nonsense  # noqa: B018 - looking is the test


def test_a_hundred_threads_may_open_at_once(make_host: MakeHost) -> None:
    """The plugins are loaded once, whoever comes first."""
    loads: list[int] = []

    class Counting(InlinePlugin):
        @hookimpl
        def genai_models(self) -> list[Model]:
            loads.append(1)
            return []

    host = make_host(counting=Counting())
    start = threading.Barrier(100)

    def run(_: int) -> str:
        start.wait(60)
        return host.open("chat", "mock").say("hi").text

    with ThreadPoolExecutor(100) as threads:
        assert list(threads.map(run, range(100))) == ["hi"] * 100
    assert loads == [1]
