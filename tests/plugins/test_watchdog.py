"""Code of plugins that hangs in a turn or a call: it is named, and does not keep the host open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import (
    Answer,
    Cancellation,
    CancelToken,
    Completion,
    Delta,
    Dialect,
    DialectEndpoint,
    ExecutorType,
    Feature,
    FeatureSteps,
    HttpRoute,
    Message,
    Model,
    NoSettings,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    RouteRequest,
    RouteResponse,
    StreamEvent,
    Tool,
    ToolSource,
    Turn,
    hookimpl,
)
from genai_host.errors import Cancelled, ProviderRemoved
from genai_host.plugins import watchdog as watchdog_module
from genai_host.plugins.observers import Observers
from genai_host.plugins.watchdog import HANGS, Watchdog, Watched
from genai_host.serving.router import HttpRoutes
from genai_host.util import concurrency
from genai_host_testing import InlinePlugin, ManualClock

pytestmark = pytest.mark.part

MakeHost = Callable[..., Host]


class Slow(InlinePlugin):
    """A plugin whose methods hang, one of them at a time.

    Attributes:
        where: Name of the method that hangs.
        hangs: Set by the method.
        go_on: Lets it return.
        thread: The thread that runs the method.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.hangs, self.go_on = threading.Event(), threading.Event()
        self.thread = threading.current_thread()
        super().__init__(
            features=[Feature("slow-feature", NoSettings, self.respond)],
            dialects=[SlowDialect(self)],
            providers=[ProviderType("slow-provider", NoSettings, self.open)],
            models=[Model("slow-model", ["slow-dialect"], at={"slow-provider": "m"})],
            tool_sources=[SlowTools(self)],
            executors=[ExecutorType("slow-executor", NoSettings, lambda settings: SlowPool(self))],
            http_routes=[HttpRoute("GET", "/slow", f"{__name__}:SlowRoute.answer")],
        )
        SlowRoute.slow = self

    def called(self, method: str) -> None:
        if method == self.where:
            self.thread = threading.current_thread()
            self.hangs.set()
            self.go_on.wait(60)

    def open(self, settings: Any, services: Any) -> SlowProvider:
        self.called("open")
        return SlowProvider(self)

    def respond(self, turn: Turn[Any]) -> FeatureSteps:
        self.called("respond")
        try:
            completion = yield Prompt([Message("user", "hi")], stream=True)
            self.called("after a step")
        finally:
            self.called("finally")
        return Answer(completion.text)

    @hookimpl
    def genai_on_close(self) -> None:
        self.called("genai_on_close")


class SlowDialect(Dialect[Any, Any]):
    name = "slow-dialect"
    capabilities = frozenset({"stream"})

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def prepare_request(self, call: Any) -> ProviderRequest:
        self.slow.called("prepare_request")
        return ProviderRequest("chat", self.name, call.model_id, {}, call.stream)

    def extract_result(self, call: Any, reply: ProviderReply) -> Completion:
        self.slow.called("extract_result")
        return Completion(Message("assistant", "hello"))

    def decoder(self, call: Any) -> SlowDecoder:
        return SlowDecoder(self.slow)


class SlowDecoder:
    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        self.slow.called("feed")
        self.done = True
        return [Delta(text="hello")]

    def finish(self) -> Completion:
        return Completion(Message("assistant", "hello"))


class SlowProvider(Provider):
    serves = {"slow-dialect": DialectEndpoint()}

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        self.slow.called("send")
        return ProviderReply(b"{}")

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        return SlowStream(self.slow)

    def close(self) -> None:
        self.slow.called("close of the provider")


class SlowStream(ReplyStream):
    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def __iter__(self) -> Iterator[StreamEvent]:
        self.slow.called("stream")
        yield StreamEvent(data=b"{}")

    def close(self) -> None:
        self.slow.called("close")


class SlowTools(ToolSource):
    name = "slow-tools"

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def tools(self, limits: CancelToken) -> Sequence[Tool]:
        return ()

    def close(self) -> None:
        self.slow.called("close of the source of tools")


class SlowPool(ThreadPoolExecutor):
    def __init__(self, slow: Slow) -> None:
        super().__init__(1)
        self.slow = slow

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.slow.called("shutdown")
        super().shutdown(wait, cancel_futures=cancel_futures)


class SlowRoute:
    slow: Slow

    def __init__(self, host: Host) -> None:
        pass

    def answer(self, request: RouteRequest) -> RouteResponse:
        return RouteResponse(b"")

    def close(self) -> None:
        self.slow.called("close of the HTTP route")


def watched_host(make_host: MakeHost, slow: Slow, clock: ManualClock) -> Host:
    """A host in real time, whose watchdog has a clock of its own."""
    host = make_host(slow=slow)
    host.observers = Observers(host.plugins.manager, Watchdog(clock, host.registry.owner))
    return host


def watchdog(clock: ManualClock | None = None) -> Watchdog:
    return Watchdog(clock, lambda kind, name: "slow")


WHERE = {
    "respond": "the feature slow-feature", "after a step": "the feature slow-feature",
    "finally": "the feature slow-feature", "close": "the provider slow-provider",
    "prepare_request": "the dialect slow-dialect", "extract_result": "the dialect slow-dialect",
    "feed": "the dialect slow-dialect", "open": "the provider slow-provider",
}  # fmt: skip


@pytest.mark.parametrize("where", WHERE)
def test_hanging_code(make_host: MakeHost, caplog: pytest.LogCaptureFixture, where: str) -> None:
    slow, clock = Slow(where), ManualClock()
    with ThreadPoolExecutor(1) as pool:
        host = watched_host(make_host, slow, clock)

        def ask() -> str:
            conversation = host.open("slow-feature", "slow-model")
            if where == "finally":  # of a turn that is abandoned
                events = conversation.stream("hi")
                next(each for each in events if each.kind == "delta")
                events.close()
                return "hello"
            if where in ("feed", "close"):
                events = conversation.stream("hi")
                return "".join(each.data.text for each in events if each.kind == "delta")
            return conversation.say("hi").text

        future = pool.submit(ask)
        assert slow.hangs.wait(30)
        clock.wait_for_alarm_in(HANGS)
        clock.advance(HANGS)
        method = "respond" if where in ("after a step", "finally") else where
        what = f"{method} of {WHERE[where]}"
        assert f"plugin slow has not returned from {what} for 10 seconds" in caplog.text
        slow.go_on.set()
        assert future.result(30) == "hello"
        assert f"plugin slow has returned from {what} after 10 seconds" in caplog.text
    clock.advance(HANGS)
    assert clock.due_in() == []


@pytest.mark.parametrize("where", ["send", "stream"])
def test_a_provider_may_wait_until_its_call_is_cancelled(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    slow, clock = Slow(where), ManualClock()
    with ThreadPoolExecutor(1) as pool:
        conversation = watched_host(make_host, slow, clock).open("slow-feature", "slow-model")
        ask = conversation.say if where == "send" else lambda text: list(conversation.stream(text))
        future = pool.submit(ask, "hi")
        assert slow.hangs.wait(30)
        clock.wait_for_alarm_in(HANGS)
        clock.advance(HANGS)
        assert f"{where} of the provider slow" not in caplog.text
        conversation.cancel()
        clock.advance(HANGS)  # it may have been cancelled just now
        assert f"{where} of the provider slow" not in caplog.text
        clock.advance(HANGS)
        what = f"{where} of the provider slow-provider"
        assert f"plugin slow has not returned from {what}" in caplog.text
        slow.go_on.set()
        with pytest.raises(Cancelled):
            future.result(30)


def test_a_provider_that_is_being_opened_does_not_keep_the_host_open(make_host: MakeHost) -> None:
    slow = Slow("open")
    with ThreadPoolExecutor(1) as pool:
        host = make_host(slow=slow)
        future = pool.submit(lambda: host.instances["slow-provider"].provider)
        assert slow.hangs.wait(30)
        host.close()
        slow.go_on.set()
        with pytest.raises(ProviderRemoved):
            future.result(30)


CLOSES: dict[str, tuple[str, Callable[[Host], object]]] = {
    "close of the provider": ("close of the provider slow-provider", Host.close),
    "close of the source of tools": ("close of the source of tools slow-tools", Host.close),
    "genai_on_close": ("genai_on_close", Host.close),
    "close of the HTTP route": (
        "close of the HTTP route GET /slow",
        lambda host: answered(host).close(),
    ),
    "shutdown": (
        "shutdown of the executor slow-executor",
        lambda host: host.open_executor("slow-executor", {}).shutdown(wait=False),
    ),
}


def answered(host: Host) -> HttpRoutes:
    routes = HttpRoutes(host)
    routes.answer(RouteRequest("GET", "/slow", limits=Cancellation()))
    return routes


@pytest.mark.parametrize("where", CLOSES)
def test_code_that_hangs_at_its_end_does_not_keep_the_host_open(
    make_host: MakeHost, clock: ManualClock, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, where: str,
) -> None:  # fmt: skip
    """The given clock stands still."""
    monkeypatch.setattr(watchdog_module, "HANGS", 0.0)
    slow = Slow(where)
    what, close = CLOSES[where]
    host = make_host(slow=slow, clock=clock)
    host.open("slow-feature", "slow-model").say("hi")
    host.tools()
    watching = host.observers.watchdog
    try:
        close(host)
        assert f"plugin slow has not returned from {what} for 0 seconds" in caplog.text
        assert "slow" in watching.hanging or where != "genai_on_close"
        assert slow.hangs.wait(30)
    finally:
        slow.go_on.set()
    slow.thread.join(30)
    assert "slow" not in watching.hanging or where != "genai_on_close"


def test_a_stream_that_hangs_while_it_is_closed_does_not_keep_the_host_open(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    slow, clock = Slow("close"), ManualClock()
    host = watched_host(make_host, slow, clock)
    events = host.open("slow-feature", "slow-model").stream("hi")
    next(each for each in events if each.kind == "delta")
    host.close()
    assert slow.hangs.wait(30)
    clock.advance(HANGS)
    assert "has not returned from close of the provider slow-provider" in caplog.text
    slow.go_on.set()
    events.close()


def test_logs_late_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(watchdog_module, "HANGS", 0.0)
    hangs, go_on = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def close() -> None:
        threads.append(threading.current_thread())
        hangs.set()
        go_on.wait(60)
        raise OSError("too late")

    try:
        watchdog().run("provider", "slow", "close", close)
        assert "has not returned from close of the provider slow" in caplog.text
        assert hangs.wait(30)
    finally:
        go_on.set()
    threads[0].join(30)
    assert "too late" in caplog.text


def test_code_that_returned_just_after_the_timeout_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class TimedOut(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            super().wait(30)
            return False

    monkeypatch.setattr(concurrency, "new_event", TimedOut)
    watchdog().run("provider", "timely", "close", lambda: None)
    assert "provider timely" not in caplog.text


def test_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One after its timeout in real time, and the other by its timer."""
    monkeypatch.setattr(watchdog_module, "HANGS", 0.0)
    clock, go_on, other_looked = ManualClock(), threading.Event(), threading.Event()
    watching = watchdog(clock)

    class Lock:
        """The lock of the watchdog; a thread that has to wait for it has looked."""

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __enter__(self) -> None:
            if not self.lock.acquire(blocking=False):
                other_looked.set()
                self.lock.acquire()

        def __exit__(self, *exc: object) -> None:
            self.lock.release()

    def look() -> None:
        clock.advance(0.0)
        other_looked.set()

    other = threading.Thread(target=look)

    class Found(Watched):
        """Another thread looks at it between the test and the change of `hangs`."""

        value = False

        @property
        def hangs(self) -> bool:
            before = self.value
            if other.ident is None:
                other.start()
                assert other_looked.wait(30)
            return before

        @hangs.setter
        def hangs(self, value: bool) -> None:
            self.value = value

    monkeypatch.setattr(watching, "_lock", Lock())
    found = Found(watching, "provider", "slow", "close", "", None)
    monkeypatch.setattr(watching, "watch", lambda *args, **named: found)
    try:
        watching.run("provider", "slow", "close", lambda: go_on.wait(60))
        other.join(30)
        assert caplog.text.count("has not returned from close of the provider slow") == 1
    finally:
        go_on.set()


def test_code_that_goes_on_after_its_caller_does_not_hang(caplog: pytest.LogCaptureFixture) -> None:
    clock, limits = ManualClock(), Cancellation()
    with watchdog(clock).watch("provider", "going", "stream", limits=limits) as watched:
        limits.cancel()
        clock.advance(HANGS)  # it is seen to be cancelled
        watched.pause()
        watched.resume()
        clock.advance(HANGS)
        assert "provider going" not in caplog.text
        clock.advance(HANGS)
    assert "has not returned from stream of the provider going" in caplog.text


@pytest.mark.parametrize("runs", [True, False])
def test_code_that_was_left_is_not_logged(caplog: pytest.LogCaptureFixture, runs: bool) -> None:
    clock, limits = ManualClock(), Cancellation()
    with watchdog(clock).watch("HTTP route", "GET /slow", "body", limits=limits) as watched:
        if not runs:
            watched.pause()
        limits.cancel()
        clock.advance(HANGS)
        clock.advance(HANGS)
        assert ("plugin slow has not returned from body" in caplog.text) is runs
