"""Incorrect providers and models, each with one defect, with the suites that must detect it.

`fails` are the tests that must fail, and no others; `only` lists the tests to run, if not all.
test_suites.py runs them.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import requests
from attrs import field, frozen

from genai_host import api
from genai_host.errors import ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.suites import (
    HttpProviderSuite,
    ModelSuite,
    OpenAIChatReplies,
    ProviderSuite,
)

from .wrong_dialects import PlainSamples


class _Sayer(api.Provider):
    """A provider that gives the same reply to every request, in the dialect `plain`."""

    serves = {"plain": api.DialectEndpoint()}

    def __init__(self, settings: Any, services: api.Services) -> None:
        self._slow = getattr(settings, "slow", False)

    def send(self, request: api.ProviderRequest, limits: api.CancelToken) -> api.ProviderReply:
        self.wait(limits)
        return api.ProviderReply(PlainSamples.reply)

    def stream(self, request: api.ProviderRequest, limits: api.CancelToken) -> Any:
        return _Events(self.events(limits))

    def events(self, limits: api.CancelToken) -> Iterator[api.StreamEvent]:
        first, *others = PlainSamples.stream
        yield api.StreamEvent(first)
        self.wait(limits)
        yield from map(api.StreamEvent, others)

    def wait(self, limits: api.CancelToken) -> None:
        if self._slow:
            woken = threading.Event()
            with limits.on_cancel(woken.set):
                woken.wait()
                limits.check()


class _Events:
    def __init__(self, events: Iterator[api.StreamEvent]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[api.StreamEvent]:
        return self._events

    def close(self) -> None:
        """`limits` wakes all waiting calls."""


@frozen
class _Settings:
    slow: bool = field(default=False, metadata=api.about("whether it never ends"))


class _SayerSuite(ProviderSuite):
    fails: ClassVar[set[str]]
    provider = "sayer"
    dialect = "plain"
    model_id = "sayer-1"
    slow = {"slow": True}


class TestARightProvider(_SayerSuite):
    plugin = InlinePlugin(providers=[api.ProviderType("sayer", _Settings, _Sayer)])
    fails = set()


class _Deaf(_Sayer):
    def wait(self, limits: api.CancelToken) -> None:
        if self._slow:
            threading.Event().wait(60)


class TestAProviderThatIgnoresCancel(_SayerSuite):
    plugin = InlinePlugin(providers=[api.ProviderType("sayer", _Settings, _Deaf)])
    patience = 1.0
    only = "ends and not left"
    fails = {
        "test_a_call_that_is_cancelled_ends",
        "test_a_stream_that_is_cancelled_ends",
        "test_a_call_ends_with_its_instance",
    }


class _Eager(_Sayer):
    def __init__(self, settings: Any, services: api.Services) -> None:
        super().__init__(settings, services)
        socket.create_connection(("127.0.0.1", 9), timeout=1).close()


class TestAProviderThatConnectsWhenItIsMade(_SayerSuite):
    plugin = InlinePlugin(providers=[api.ProviderType("sayer", _Settings, _Eager)])
    fails = {"test_opening_it_does_no_io"}
    only = "opening"


@frozen
class _Undescribed:
    api_key: str = "none"
    slow: bool = False


class TestAProviderThatShowsItsKey(_SayerSuite):
    plugin = InlinePlugin(providers=[api.ProviderType("sayer", _Undescribed, _Sayer)])
    fails = {"test_its_settings_are_described"}


@frozen
class _OfAcme:
    base_url: str = field(default="http://acme.invalid", metadata=api.about("address"))
    api_key: api.Secret | None = field(default=None, metadata=api.about("its key", env="ACME_KEY"))


class _OwnHttp(api.Provider):
    """Has its own HTTP client, which follows redirects, retries and cannot be cancelled."""

    serves = {"openai-chat": api.DialectEndpoint(unsupported={"stream"})}

    def __init__(self, settings: _OfAcme, services: api.Services) -> None:
        self.url = settings.base_url
        self.key = settings.api_key.reveal() if settings.api_key else ""

    def send(self, request: api.ProviderRequest, limits: api.CancelToken) -> api.ProviderReply:
        for _ in range(2):
            try:
                reply = requests.post(
                    f"{self.url}{request.path}?key={self.key}",
                    data=request.data(), headers={"x-api-key": self.key}, timeout=5,
                )  # fmt: skip
            except requests.RequestException as error:
                raise ServiceUnavailable(str(error)) from error
            if reply.status_code < 500:
                break
        return api.ProviderReply(reply.content, reply.status_code, dict(reply.headers))

    stream = send


class TestAProviderWithHttpOfItsOwn(OpenAIChatReplies, HttpProviderSuite):
    plugin = InlinePlugin(providers=[api.ProviderType("acme", _OfAcme, _OwnHttp)])
    provider = "acme"
    settings = {"base_url": "{url}"}
    keys = ["ACME_KEY"]
    patience = 1.0
    only = "one_request or three_times or redirect or key_is_nowhere or cancelled_ends"
    fails = {
        "test_an_answer_takes_one_request",  # the key is in the URL
        "test_temporary_error_is_attempted_three_times", "test_a_redirect_is_not_followed",
        "test_a_call_that_is_cancelled_ends", "test_the_key_is_nowhere",
    }  # fmt: skip


class _Talkative(api.HttpProvider):
    serves = {"openai-chat": api.DialectEndpoint()}

    def __init__(self, settings: _OfAcme, services: api.Services) -> None:
        super().__init__(services, settings.base_url, key=settings.api_key)

    def authorize(self, request: api.HttpRequest, limits: api.CancelToken) -> api.HttpRequest:
        logging.getLogger("acme").debug("sending %s", request.headers)
        return request


class TestAProviderThatLogsItsKey(OpenAIChatReplies, HttpProviderSuite):
    plugin = InlinePlugin(providers=[api.ProviderType("acme", _OfAcme, _Talkative)])
    provider = "acme"
    settings = {"base_url": "{url}"}
    keys = ["ACME_KEY"]
    only = "one_request or key_is_nowhere"
    fails = {"test_the_key_is_nowhere"}


class TestModelsThatAreWrong(ModelSuite):
    plugin = InlinePlugin(
        models=[
            api.Model(
                "Some@Model", ["openai-chat", "morse"], capabilities={"telepathy"}, window=100,
                max_output=200, defaults={"temprature": 1},
                variant={"openai-chat": {"max_tokns": "x"}},
                at={"nobody": "m"},
            )
        ]
    )  # fmt: skip
    fails = {
        "test_their_names_can_be_typed", "test_their_dialects_are_there",
        "test_their_capabilities_are_known", "test_their_sizes_fit",
        "test_their_parameters_are_taken", "test_their_usual_values_fit",
        "test_their_variants_are_known", "test_their_providers_are_there",
    }  # fmt: skip


class TestModelsWithWrongParameters(ModelSuite):
    plugin = InlinePlugin(
        models=[api.Model("m", ["openai-chat"], parameters={"temperature": {"type": "nmber"}})],
        offerings=[api.Offering("m", "fake", "m-1", unsupported={"telepathy"}, variant={"x": 1})],
    )
    fails = {
        "test_their_parameters_are_taken",
        "test_their_providers_are_there",
        "test_offerings_fit_their_models",
    }


class TestAnOfferingInOneDialectOfSeveral(ModelSuite):
    """Its variants are those of that dialect; other dialects need not be installed."""

    plugin = InlinePlugin(
        providers=[
            api.http_provider(
                "acme", "https://acme.invalid", {"openai-chat": api.DialectEndpoint()}
            )
        ],
        offerings=[
            api.Offering("m", "acme", "m-1", dialects=["openai-chat"], variant={"strict": True})
        ],
    )
    beside = {"models": InlinePlugin(models=[api.Model("m", ["openai-chat", "plain", "morse"])])}
    fails: ClassVar[set[str]] = set()
