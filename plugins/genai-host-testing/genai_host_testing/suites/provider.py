"""Suite for providers: declared settings, opening without I/O, calls from many threads, and prompt
cancellation."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from genai_host.api import Clock, DialectEndpoint, ListedModel, Model, Offering, RouteInfo, hookimpl
from genai_host.api.cancellation import Cancellation
from genai_host.api.dialects import CAPABILITIES
from genai_host.api.services import TurnLimits
from genai_host.api.settings import read_settings
from genai_host.calls.retry import RetryPolicy
from genai_host.config import Config, InstanceConfig
from genai_host.conversations.conversation import Conversation
from genai_host.errors import Cancelled, GenaiError, ProviderRemoved
from genai_host.host import Host
from genai_host.providers.limits import CallLimits
from genai_host_testing.fake_model import ASKING
from genai_host_testing.plugins import InlinePlugin
from genai_host_testing.suites.base import PluginSuite, in_background, recommended

both_ways = pytest.mark.parametrize("way", ["whole", "streamed"])
"""Parameter for whole and streamed replies."""

MODEL = "tested-model"

NO_WAITER = RetryPolicy(jitter=lambda _: 0.0)


class Observer(InlinePlugin):
    """Plugin that records model calls.

    Args:
        declared: A plugin whose contributions it adds.

    Attributes:
        begun: Set when a call has started.
    """

    def __init__(self, **declared: Any) -> None:
        super().__init__(**declared)
        self.begun: list[RouteInfo] = []

    @hookimpl
    def genai_on_call_start(self, id: str, route: RouteInfo) -> None:
        self.begun.append(route)


class ProviderSuite(PluginSuite):
    """Suite for any provider.

        class TestMine(ProviderSuite):
            plugin = my_plugin
            provider = "mine"
            dialect = "plain"
            model_id = "mine-1"
            slow = {"delay": 1000}

    Attributes:
        provider: Name of the provider type.
        dialect: A chat dialect that it serves.
        model_id: Id of a model that it can run.
        settings: Settings of the tested instance.
        slow: Changed settings of an instance that answers `question` slowly, so that the call can
            be cancelled.
        question: Text of the prompt.
    """

    provider: str
    dialect: str
    model_id: str
    settings: Mapping[str, Any] = {}
    slow: Mapping[str, Any] = {}
    question = "Count from one to ten thousand."

    def stage(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        patience: RetryPolicy = NO_WAITER,
        instances: Mapping[str, InstanceConfig] | None = None,
        **limits: Any,
    ) -> Host:
        """A host with a provider `tested` of the tested type that offers the model.

        Args:
            settings: Settings of the provider; None for those of the suite.
            clock: Source of time.
            patience: Retry policy.
            instances: Further providers by name.
            **limits: Call limits, for example `read_timeout=10`.
        """
        self.observer = Observer(
            features=[ASKING],
            models=[Model(MODEL, [self.dialect], capabilities=_ALL)],
            offerings=[Offering(MODEL, self.provider, self.model_id)],
        )
        chosen = self.settings if settings is None else settings
        tested = InstanceConfig(self.provider, settings=chosen, limits=limits)
        config = Config(providers={"tested": tested, **(instances or {})})
        discovery = self.plugins(suite=self.observer)
        return self.opened_host(config, discovery=discovery, clock=clock, retry_policy=patience)

    def open(self, host: Host, way: str, *, at: str = "@tested") -> Conversation:
        """Open a conversation with the model, without a time limit.

        Args:
            host: The host.
            way: Name of the dialect.
            at: The provider, with `@`; empty for any.
        """
        [candidate, *_] = host.catalog.resolve(f"{MODEL}{at}")
        if way == "streamed" and "stream" not in candidate.capabilities:
            pytest.skip(f"{self.provider} does not stream")
        return host.open("asking", f"{MODEL}{at}", turn_limits=TurnLimits(seconds=None))

    def take(
        self,
        conversation: Conversation,
        way: str,
        said: str = "hi",
        hear: Callable[[str], object] = bool,
    ) -> str:
        """Send a message and return the answer; `hear` is called with each chunk."""
        if way == "whole":
            text = conversation.say(said).text
            hear(text)
            return text
        for event in conversation.stream(said):
            if event.text:
                hear(event.text)
        assert event.answer is not None
        return event.answer.text

    def ask(self, host: Host, way: str, *, at: str = "@tested") -> tuple[str, Any]:
        """The streamed text, and the text of the answer or the error."""
        pieces: list[str] = []
        try:
            answer: Any = self.take(self.open(host, way, at=at), way, hear=pieces.append)
        except GenaiError as error:
            answer = error
        return "".join(pieces), answer

    def will_answer(self, way: str) -> None:
        """Called before a question that must be answered in this way."""

    def will_stall(self, way: str) -> None:
        """Called before a question that will be cancelled."""

    # declarations

    def test_its_type_is_declared(self) -> None:
        assert self.provider in {each.name for each in self.declared().providers}

    def test_opening_it_does_no_io(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Opening it and `unavailable_reason` do no I/O, because lists of models and routes use
        both."""
        host = self.stage()
        with monkeypatch.context() as patch:
            for name in ("connect", "connect_ex"):
                patch.setattr(socket.socket, name, _no_network)
            patch.setattr(socket, "getaddrinfo", _no_network)
            provider = host.instances["tested"].provider
            missing = provider.unavailable_reason()
            assert missing is None or isinstance(missing, str)
            assert isinstance(provider.unavailable_models(), Mapping)
            step = provider.preparation(self.model_id)
            assert step is None or "\n" not in step.label
        assert missing is None, f"it cannot run with the settings of the suite: {missing}"

    def test_served_dialects_are_known(self) -> None:
        host = self.stage()
        provider = host.instances["tested"].provider
        assert provider.serves, "it serves no dialect"
        for name, serve in provider.serves.items():
            assert isinstance(serve, DialectEndpoint)
            assert serve.unsupported <= CAPABILITIES.keys(), name
            dialect = host.registry.dialects.get(name)
            assert dialect is not None or serve.install, (
                f"no plugin declares {name}: set `install`, or add the plugin to `beside`"
            )
            if dialect is not None:
                assert serve.variant.keys() <= dialect.variant.keys(), name
        for operation, model in provider.default_models.items():
            found = host.explain(model, "tested", operation)
            assert any(each.operation == operation for each in found), f"no model {model}"
        read_settings(CallLimits, provider.call_limits, owner="call_limits")

    # calls

    @both_ways
    def test_it_answers(self, way: str) -> None:
        host = self.stage()
        self.will_answer(way)
        streamed, text = self.ask(host, way)
        assert isinstance(text, str), f"{text!r}"
        assert text
        assert streamed == text

    @both_ways
    def test_second_turn_is_answered(self, way: str) -> None:
        host = self.stage()
        self.will_answer(way)
        conversation = self.open(host, way)
        self.take(conversation, way)
        self.take(conversation, way, "and now?")
        assert len(conversation.history) == 4

    @both_ways
    def test_many_threads_call_at_once(self, way: str) -> None:
        host = self.stage()
        self.will_answer(way)
        self.open(host, way)
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(self.ask, host, way) for _ in range(8)]
            for each in answers:
                _, text = each.result(self.patience)
                assert isinstance(text, str), f"{text!r}"

    @recommended
    def test_its_models_are_listed(self) -> None:
        provider = self.stage().instances["tested"].provider
        assert all(isinstance(each, ListedModel) for each in provider.list_models(Cancellation()))

    # cancellation

    @both_ways
    def test_a_call_that_is_cancelled_ends(self, way: str) -> None:
        """Another thread cancels the call while it waits for the reply."""
        conversation = self.stall(way)
        answering = in_background(self.take, conversation, way, self.question)
        self.wait_until_under_way()
        conversation.cancel()
        assert isinstance(self.ended(answering), Cancelled)
        assert conversation.history == ()

    def test_a_stream_that_is_cancelled_ends(self) -> None:
        """Another thread cancels the stream after its first chunk, while a thread waits for the
        next."""
        conversation = self.stall("streamed")
        began = threading.Event()
        listening = in_background(
            self.take, conversation, "streamed", self.question, lambda _: began.set()
        )
        assert began.wait(self.patience), "no piece came"
        conversation.cancel()
        assert isinstance(self.ended(listening), Cancelled)

    def test_a_stream_that_is_left_ends(self) -> None:
        """The reader closes the stream after its first chunk."""
        conversation = self.stall("streamed")
        events = conversation.stream(self.question)
        while not next(events).text:
            pass
        assert self.ended(in_background(events.close)) is None
        assert conversation.history == ()
        assert conversation.status == "idle"

    @both_ways
    def test_a_call_ends_with_its_instance(self, way: str) -> None:
        """A call ends when its instance is removed, or its host is closed."""
        conversation = self.stall(way)
        answering = in_background(self.take, conversation, way, self.question)
        self.wait_until_under_way()
        [host] = self.hosts
        assert self.ended(in_background(host.instances.remove, "tested")) is None
        assert isinstance(self.ended(answering), ProviderRemoved)

    def test_it_can_be_closed_twice_and_unused(self) -> None:
        provider = self.stage().instances["tested"].provider
        provider.close()
        provider.close()

    def stall(self, way: str) -> Conversation:
        """A conversation with a slow answer."""
        host = self.stage(settings={**self.settings, **self.slow})
        self.will_stall(way)
        conversation = self.open(host, way)
        self._under_way = threading.Event()
        provider = host.instances["tested"].provider
        for name in ("send", "stream"):
            vars(provider)[name] = _signalling(getattr(provider, name), self._under_way)
        return conversation

    def wait_until_under_way(self) -> None:
        """Wait until the provider has received the request."""
        assert self._under_way.wait(self.patience)


_ALL = CAPABILITIES.keys() - {"stream"}


def _signalling(call: Callable[..., Any], under_way: threading.Event) -> Callable[..., Any]:
    def signal(*arguments: Any) -> Any:
        under_way.set()
        return call(*arguments)

    return signal


def _no_network(*_: Any) -> Any:
    raise AssertionError("it uses the network")
