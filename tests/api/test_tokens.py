"""Access tokens: got when needed, once for all who wait, and again before they expire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import (
    AccessToken,
    CachedToken,
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    NoSettings,
    ProviderType,
    Secret,
    Services,
)
from genai_host.api.cancellation import Cancellation
from genai_host.errors import AuthenticationFailed, Cancelled, GenaiError
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import FakeService, Reply, json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat


class Source:
    """Gives `access-1`, `access-2` and so on, each valid for so many seconds."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self.asked = 0
        self.held = threading.Event()
        self.held.set()
        self.entered = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self, limits: CancelToken) -> AccessToken:
        self.asked += 1
        number = self.asked
        self.entered.release()
        with limits.on_cancel(self.held.set):
            assert self.held.wait(30)
        limits.check()
        if self.error is not None:
            raise self.error
        return AccessToken(Secret(f"access-{number}"), self.seconds)


def shown(token: CachedToken, limits: Cancellation | None = None) -> str:
    return token.get(limits or Cancellation()).reveal()


@pytest.mark.parametrize(("seconds", "lifetime", "options"), [
    (3600, 3540, {}),
    (120, 60, {}),
    (100, 50, {}),
    (1, 0.5, {}),
    (100, 90, {"early": 10}),
], ids=str)  # fmt: skip
def test_token_is_renewed_before_expiry(
    clock: ManualClock, seconds: float, lifetime: float, options: Any
) -> None:
    token = CachedToken(Source(seconds), clock, **options)
    assert shown(token) == "access-1"
    clock.advance(lifetime - 0.25)
    assert shown(token) == "access-1"
    clock.advance(0.25)
    assert shown(token) == "access-2"
    clock.advance(lifetime - 0.25)
    assert shown(token) == "access-2"


def test_one_whose_end_is_not_known_is_kept(clock: ManualClock) -> None:
    token = CachedToken(Source(), clock)
    for _ in range(3):
        clock.advance(1e6)
        assert shown(token) == "access-1"


def test_one_that_has_expired_already_is_used_once(clock: ManualClock) -> None:
    token = CachedToken(Source(-5), clock)
    assert [shown(token), shown(token)] == ["access-1", "access-2"]


def test_one_that_is_refused_is_got_anew_once(clock: ManualClock) -> None:
    token = CachedToken(Source(), clock)
    first = token.get(Cancellation())
    token.drop(first)
    assert shown(token) == "access-2"
    token.drop(first)  # another call, to which the first was refused as well
    assert shown(token) == "access-2"


def test_all_who_wait_get_the_same(clock: ManualClock) -> None:
    source = Source()
    source.held.clear()
    token = CachedToken(source, clock)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(shown, token) for _ in range(8)]
        assert source.entered.acquire(timeout=30)
        source.held.set()
        assert {each.result(30) for each in futures} == {"access-1"}
    assert source.asked == 1


class CheckedToken(Cancellation):
    """Cancel token with an event that is set when it is first checked."""

    def __init__(self) -> None:
        super().__init__()
        self.checked = threading.Event()

    def check(self) -> None:
        self.checked.set()
        super().check()


def test_concurrent_callers_get_the_same_error(clock: ManualClock) -> None:
    source = Source()
    source.held.clear()
    source.error = AuthenticationFailed("log in first")
    token = CachedToken(source, clock)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(shown, token)
        assert source.entered.acquire(timeout=30)
        others = [CheckedToken() for _ in range(3)]
        futures = [pool.submit(shown, token, each) for each in others]
        for each in others:
            assert each.checked.wait(30)
        with token._changed:  # who has looked waits now
            source.held.set()
        for failing in (first, *futures):
            with pytest.raises(AuthenticationFailed, match="log in first"):
                failing.result(30)
    assert source.asked == 1
    source.error = None
    assert shown(token) == "access-2"


@pytest.mark.parametrize("first", [True, False], ids=["who gets it", "who waits"])
def test_a_call_that_is_cancelled_ends_alone(clock: ManualClock, first: bool) -> None:
    source = Source()
    source.held.clear()
    token = CachedToken(source, clock)
    getting, waiting = Cancellation(), CheckedToken()
    with ThreadPoolExecutor(2) as pool:
        got = pool.submit(shown, token, getting)
        assert source.entered.acquire(timeout=30)
        waited = pool.submit(shown, token, waiting)
        assert waiting.checked.wait(30)
        cancelled, other = (got, waited) if first else (waited, got)
        (getting if first else waiting).cancel()
        with pytest.raises(Cancelled):
            cancelled.result(30)
        source.held.set()
        assert other.result(30) == ("access-2" if first else "access-1")


def test_a_source_with_a_fault_harms_no_later_call(clock: ManualClock) -> None:
    source = Source()
    source.error = ZeroDivisionError("a fault")
    token = CachedToken(source, clock)
    with pytest.raises(ZeroDivisionError):
        token.get(Cancellation())
    source.error = None
    assert shown(token) == "access-2"


def test_it_is_not_shown(clock: ManualClock) -> None:
    token = CachedToken(Source(60), clock)
    assert "access-1" not in repr(token.get(Cancellation())) + repr(token)
    assert "access-1" not in repr(AccessToken(Secret("access-1")))


@pytest.mark.part
class TestInAProvider:
    """One that is given a token sends it, and gets another once where it is refused."""

    @pytest.fixture
    def source(self) -> Source:
        return Source(3600)

    @pytest.fixture
    def service(self) -> Iterator[FakeService]:
        with FakeService([chat("hello")]) as service:
            yield service

    @pytest.fixture
    def host(
        self, make_host: MakeHost, service: FakeService, clock: ManualClock, source: Source
    ) -> Host:
        class Expiring(HttpProvider):
            serves = {"openai-chat": DialectEndpoint()}

            def __init__(self, settings: NoSettings, services: Services) -> None:
                token = CachedToken(source, services.clock)
                super().__init__(services, service.url, auth_header="x-token: <{key}>", token=token)

        acme = ProviderType("acme", NoSettings, Expiring)
        return make_host(acme=InlinePlugin(providers=[acme]), clock=clock)

    def sent(self, service: FakeService) -> list[str]:
        return [request.headers["x-token"] for request in service.requests]

    def test_sent_until_expiry(self, host: Host, service: FakeService, clock: ManualClock) -> None:
        for seconds in (0, 1800, 1800, 1):
            clock.advance(seconds)
            assert host.open("chat", "acme/m").say("hi").text == "hello"
        assert self.sent(service) == ["<access-1>", "<access-1>", "<access-2>", "<access-2>"]

    @pytest.mark.parametrize("act", ["say", "stream", "list"])
    def test_a_refused_one_is_got_anew(self, host: Host, service: FakeService, act: str) -> None:
        conversation = host.open("chat", "acme/m")
        good: dict[str, tuple[Reply, Callable[[], object]]] = {
            "say": (chat("hello"), lambda: conversation.say("hi").text),
            "stream": (
                chat("hello", streamed=True),
                lambda: "".join(each.text for each in conversation.stream("hi")),
            ),
            "list": (json_reply("hello"), lambda: _provider(host).get("/x", Cancellation())),
        }
        reply, do = good[act]
        service.replies = [json_reply({}, 401), reply]
        assert [do(), do()] == ["hello", "hello"]
        assert self.sent(service) == ["<access-1>", "<access-2>", "<access-2>"]

    def test_once(self, host: Host, service: FakeService) -> None:
        service.replies = [json_reply({"error": f"no: access-{n}"}, 401) for n in (1, 2, 2, 3)]
        for _ in range(2):
            with pytest.raises(AuthenticationFailed, match=r"no: \*\*\*"):
                host.open("chat", "acme/m").say("hi")
        assert self.sent(service) == ["<access-1>", "<access-2>", "<access-2>", "<access-3>"]

    @pytest.mark.parametrize("status", [400, 403, 429, 500])
    def test_other_failures_are_not_its_own(
        self, host: Host, service: FakeService, source: Source, status: int
    ) -> None:
        service.replies = [json_reply({"error": "no"}, status)]
        with pytest.raises(GenaiError):
            host.open("chat", "acme/m").say("hi")
        assert (len(service.requests), source.asked) == (1, 1)

    def test_why_there_is_none_is_why_the_call_fails(
        self, host: Host, service: FakeService, source: Source
    ) -> None:
        source.error = AuthenticationFailed("log in first")
        with pytest.raises(AuthenticationFailed, match="log in first") as caught:
            host.open("chat", "acme/m").say("hi")
        assert caught.value.provider == "acme"
        assert not service.requests

    def test_one_that_cannot_be_sent_is_not_shown(self, host: Host, service: FakeService) -> None:
        wrong = AccessToken(Secret("token\nX: y"))
        _provider(host)._token = CachedToken(lambda limits: wrong, ManualClock())
        with pytest.raises(GenaiError, match="contains invalid characters") as caught:
            host.open("chat", "acme/m").say("hi")
        assert "token\n" not in str(caught.value)
        assert not service.requests


def _provider(host: Host) -> HttpProvider:
    provider = host.instances["acme"].provider
    assert isinstance(provider, HttpProvider)
    return provider
