"""What plugins hear of calls."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pluggy
import pytest
import requests

from genai_host import Config, Host
from genai_host.api import (
    All,
    Answer,
    Call,
    ChatCall,
    Completion,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    RouteInfo,
    RouteRequest,
    ToolCall,
    ToolOutput,
    Turn,
    hookimpl,
    hooks as hookspecs,
    tool,
)
from genai_host.errors import AuthenticationFailed, Cancelled, RateLimited
from genai_host.plugins.observers import Observers
from genai_host.plugins.watchdog import Watchdog
from genai_host.util.names import GROUP
from genai_host_testing import FakeService, InlinePlugin, ManualClock
from genai_host_testing.fake_service import json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served
from genai_host_testing.services.openai import chat


def hooked(hook: Callable[..., Any], **options: Any) -> InlinePlugin:
    """A plugin with one hook."""
    plugin = InlinePlugin()
    setattr(plugin, hook.__name__, hookimpl(**options)(hook))
    return plugin


class Recorder(InlinePlugin):
    """Records the events that observers receive, in order, with the fields that tests check."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(**declared)
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.ended = threading.Event()  # a request has

    def of(self, what: str) -> list[dict[str, Any]]:
        return [news for name, news in self.notes if name == what]

    def note(self, what: str, **about: Any) -> None:
        self.notes.append((what, about))

    @hookimpl
    def genai_on_turn_start(self, id: str, feature: str, conversation: str, model: str) -> None:
        self.note("turn start", id=id, feature=feature, conversation=conversation, model=model)

    @hookimpl
    def genai_on_turn_end(self, id: str, turn: Any, answer: Any, error: Any) -> None:
        self.note("turn end", id=id, said=turn.message.text, answer=answer, error=error)

    @hookimpl
    def genai_on_call_start(self, id: str, parent: str, route: RouteInfo, call: Call) -> None:
        self.note("call start", id=id, parent=parent, route=route, call=call)

    @hookimpl
    def genai_on_call_end(
        self, id: str, first_token_seconds: float | None, result: Any, error: Any, seconds: float
    ) -> None:
        about = {"result": result, "error": error, "seconds": seconds}
        self.note("call end", id=id, first=first_token_seconds, **about)

    @hookimpl
    def genai_on_tool_start(self, id: str, parent: str, call: ToolCall) -> None:
        AMBIENT.set(id)
        self.note("tool start", id=id, parent=parent, name=call.name)

    @hookimpl
    def genai_on_tool_end(self, id: str, output: ToolOutput | None, error: Any) -> None:
        self.note("tool end", id=id, output=output, error=error)

    @hookimpl
    def genai_on_request_start(self, id: str, request: RouteRequest, route: str) -> None:
        thread = threading.get_ident()
        self.note("request start", id=id, path=request.path, route=route, thread=thread)

    @hookimpl
    def genai_on_request_end(self, id: str, route: str, status: int, seconds: float) -> None:
        self.note("request end", id=id, route=route, status=status, thread=threading.get_ident())
        self.ended.set()

    @hookimpl
    def genai_on_close(self) -> None:
        self.note("close")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def host(make_host: MakeHost, recorder: Recorder) -> Host:
    return make_host(hearing=recorder)


def test_a_turn_is_told_and_is_the_parent_of_its_calls(host: Host, recorder: Recorder) -> None:
    host.open("chat", "mock").say("hi")
    [start], [end] = recorder.of("turn start"), recorder.of("turn end")
    assert start == {"id": end["id"], "feature": "chat", "conversation": "", "model": "mock@mock"}
    assert (end["said"], end["answer"].text, end["error"]) == ("hi", "hi", None)
    [begun], [ended] = recorder.of("call start"), recorder.of("call end")
    assert begun["parent"] == start["id"] != begun["id"] == ended["id"]
    assert begun["route"] == RouteInfo("mock", "mock", "plain")
    assert isinstance(begun["call"], ChatCall)
    assert isinstance(ended["result"], Completion)
    assert (ended["result"].text, ended["error"], ended["first"]) == ("hi", None, None)
    assert ended["seconds"] >= 0
    list(host.prompt(Prompt([Message("user", "hi")]), model="mock"))
    outside = recorder.of("call start")[1]
    assert (outside["parent"], outside["id"] == begun["id"]) == ("", False)
    for _ in range(2):
        host.close()
    assert " ".join(name for name, _ in recorder.notes) == (
        "turn start call start call end turn end call start call end close"
    )


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimited), (401, AuthenticationFailed)])
def test_a_failure_is_told(host: Host, recorder: Recorder, status: int, kind: Any) -> None:
    host.instances.add("script", "mock", {"replies": [{"status": status}]})
    with pytest.raises(kind) as caught:
        host.open("chat", provider="script").say("hi")
    [call], [turn] = recorder.of("call end"), recorder.of("turn end")
    assert isinstance(call["error"], kind)
    assert call["result"] is None
    assert turn["error"] is caught.value
    assert turn["answer"] is None


def test_what_is_abandoned_is_told_as_cancelled(host: Host, recorder: Recorder) -> None:
    list(host.open("chat", "mock").stream("hi there"))
    stream = host.open("chat", "mock").stream("a b c")
    next(stream)
    stream.close()
    errors = [each["error"] for what in ("call end", "turn end") for each in recorder.of(what)]
    assert errors == [None, Cancelled("abandoned")] * 2
    assert recorder.of("call end")[0]["first"] >= 0  # seconds to the first piece


def test_hook_receives_only_its_arguments(make_host: MakeHost) -> None:
    durations: list[float] = []

    def genai_on_call_end(seconds: float) -> None:
        durations.append(seconds)

    make_host(curt=hooked(genai_on_call_end)).open("chat", "mock").say("hi")
    assert len(durations) == 1


def plain(name: str, log: list[str], **options: Any) -> InlinePlugin:
    """Writes down when it is called, in a list that several share."""

    def genai_on_call_start() -> None:
        log.append(name)

    return hooked(genai_on_call_start, **options)


def wrapper(name: str, log: list[str]) -> InlinePlugin:
    def genai_on_call_start(id: str) -> Generator[None, Any, Any]:
        log.append(f"before {name}")
        result = yield
        log.append(f"after {name} {bool(id)}")
        return result

    return hooked(genai_on_call_start, wrapper=True)


def old_wrapper(name: str, log: list[str]) -> InlinePlugin:
    def genai_on_call_start() -> Generator[None, Any, None]:
        log.append(f"before {name}")
        outcome = yield
        log.append(f"after {name} {outcome.get_result()}")

    return hooked(genai_on_call_start, hookwrapper=True)


def test_observers_run_as_pluggy_runs_hooks(make_host: MakeHost) -> None:
    log: list[str] = []
    plugins = {
        "first": plain("first", log, tryfirst=True), "b": plain("b", log),
        "old": old_wrapper("old", log), "last": plain("last", log, trylast=True),
        "a": plain("a", log), "w": wrapper("w", log),
    }  # fmt: skip
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    for name, plugin in plugins.items():
        manager.register(plugin, name)
    manager.hook.genai_on_call_start(id="x", parent="", operation="chat", route=None, call=None)
    by_pluggy = [*log]
    log.clear()
    make_host(**plugins).open("chat", "mock").say("hi")
    assert log == by_pluggy
    assert log == [
        "before w", "before old", "first", "a", "b", "last", "after old []", "after w True",
    ]  # fmt: skip


def _failing() -> Any:
    raise RuntimeError("broken before")


class Breaking:
    """Hooks that break, each in another way."""

    @staticmethod
    def plainly() -> None:
        raise RuntimeError("broken")

    @staticmethod
    def before() -> Generator[None, Any, Any]:
        yield from _failing()

    @staticmethod
    def after() -> Generator[None, Any, Any]:
        yield
        raise RuntimeError("broken after")

    @staticmethod
    def never_yields() -> Generator[None, Any, Any]:
        yield from ()

    @staticmethod
    def yields_twice() -> Generator[None, Any, Any]:
        yield
        yield

    @staticmethod
    def cannot_be_closed() -> Generator[None, Any, Any]:
        for _ in range(3):
            with contextlib.suppress(GeneratorExit):
                yield


@pytest.mark.parametrize(("hook", "options"), [
    (Breaking.plainly, {}),
    (Breaking.before, {"wrapper": True}),
    (Breaking.after, {"wrapper": True}),
    (Breaking.after, {"hookwrapper": True}),
    (Breaking.never_yields, {"wrapper": True}),
    (Breaking.yields_twice, {"wrapper": True}),
    (Breaking.cannot_be_closed, {"wrapper": True}),
])  # fmt: skip
def test_one_that_breaks_breaks_neither_the_call_nor_other_observers(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture, hook: Any, options: Any
) -> None:
    broken: Any = InlinePlugin()
    broken.genai_on_call_start = hookimpl(**options)(hook)
    log: list[str] = []
    host = make_host(one=plain("one", log), broken=broken, two=wrapper("two", log))
    assert host.open("chat", "mock").say("hi").text == "hi"
    assert log == ["before two", "one", "after two True"]
    assert "plugin broken raised in genai_on_call_start" in caplog.text


AMBIENT: ContextVar[str] = ContextVar("ambient", default="")


def test_calls_of_steps_at_once_have_their_turn_for_parent(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from All([Prompt([turn.message]) for _ in range(4)])
        return Answer("done")

    recorder = Recorder(features=[Feature("many", NoSettings, respond, roles={"main": "chat"})])
    host = make_host(hearing=recorder)
    host.open("many", "mock").say("hi")
    host.open("many", "mock").say("hi")
    turns = [each["id"] for each in recorder.of("turn start")]
    assert len(set(turns)) == 2
    assert sorted([each["parent"] for each in recorder.of("call start")]) == sorted(turns * 4)


@pytest.mark.part
def test_added_headers_are_sent(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-8f10")

    class Adding(InlinePlugin):
        @hookimpl
        def genai_on_call_start(self, id: str) -> None:
            self.id = id

        @hookimpl
        def genai_call_headers(self, id: str, route: RouteInfo) -> dict[str, str]:
            return {"x-call": id, "x-provider": route.provider}

    import genai_vendor_openai

    adding = Adding()
    body = {"choices": [{"message": {"content": "well"}, "finish_reason": "stop"}]}
    with FakeService([json_reply(body)]) as service:
        instance = provider_config("openai", base_url=f"{service.url}/v1")
        config = Config(providers={"openai": instance})
        host = make_host(config=config, openai=genai_vendor_openai, adding=adding)
        host.open("chat", "openai/gpt-x").say("hi")
        [request] = service.requests
    assert (request.headers["x-call"], request.headers["x-provider"]) == (adding.id, "openai")


def adds(headers: Any) -> InlinePlugin:
    def genai_call_headers() -> Any:
        return headers

    return hooked(genai_call_headers)


def gives(change: Callable[[Any], Any]) -> InlinePlugin:
    """A wrapper that changes the headers of all."""

    def genai_call_headers() -> Generator[None, Any, Any]:
        return change((yield))

    return hooked(genai_call_headers, wrapper=True)


ROUTE = RouteInfo("m", "p", "plain")
OF_A = {"x-who": "a", "x-a": 1}


def test_of_two_that_add_one_header_the_first_holds(make_host: MakeHost) -> None:
    around = gives(lambda reactions: [{"x-around": len(reactions)}, *reactions])
    host = make_host(a=adds(OF_A), b=adds({"x-who": "b", "x-b": 1}), around=around)
    assert host.observers.headers("x", ROUTE) == {
        "x-who": "b", "x-a": "1", "x-b": "1", "x-around": "2",
    }  # fmt: skip


@pytest.mark.parametrize(("odd", "headers", "message"), [
    (adds(7), {"x-who": "a", "x-a": "1"}, "plugin odd raised in genai_call_headers"),
    (gives(lambda _: 7), {}, "genai_call_headers returned a int"),
    (gives(lambda _: [[("authorization", "canary-8f10")]]), {}, "headers returned a list"),
], ids=["one", "all", "pairs"])  # fmt: skip
def test_headers_that_are_none_are_logged_without_what_they_hold(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture, odd: Any, headers: Any, message: str
) -> None:
    assert make_host(a=adds(OF_A), odd=odd).observers.headers("x", ROUTE) == headers
    assert message in caplog.text
    assert "canary-8f10" not in caplog.text


def test_a_tool_is_told_and_inherits_the_context_of_who_is_told(make_host: MakeHost) -> None:
    inside: list[str] = []

    def look(text: str) -> str:
        """Look."""
        inside.append(AMBIENT.get())
        return text.upper()

    recorder = Recorder(tools=[tool(look)])
    host = make_host(hearing=recorder)
    assert host.call_tool("look", {"text": "a"}).text == "A"
    assert host.call_tool("nothing").error
    [start], [end] = recorder.of("tool start"), recorder.of("tool end")
    assert (start["name"], start["parent"]) == ("look", "")
    assert (end["id"], end["output"].text) == (start["id"], "A")
    assert inside == [start["id"]]


@pytest.mark.part
def test_a_request_is_told_in_the_thread_that_answers_it(host: Host, recorder: Recorder) -> None:
    with served(host) as server:
        body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
        assert requests.post(f"{server.url}/v1/chat/completions", json=body).status_code == 200
        assert recorder.ended.wait(10)
        recorder.ended.clear()
        assert requests.get(f"{server.url}/nothing").status_code == 404
        assert recorder.ended.wait(10)
    names = [name for name, _ in recorder.notes]
    assert names[:4] == ["request start", "call start", "call end", "request end"]
    begun, ended = recorder.of("request start"), recorder.of("request end")
    assert [(each["path"], each["route"]) for each in begun] == [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/nothing", ""),
    ]
    assert [each["status"] for each in ended] == [200, 404]
    assert [each["id"] for each in begun] == [each["id"] for each in ended]
    assert begun[0]["thread"] == ended[0]["thread"]


def test_no_ids_without_observers(make_host: MakeHost) -> None:
    with make_host().observers.tool("", ToolCall("1", "t"), ManualClock()) as watched:
        assert watched.id == ""


class Hanging(InlinePlugin):
    """It hangs in a hook until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.go_on = threading.Event(), threading.Event()
        self.ids: list[str] = []

    def hang(self) -> None:
        if not self.go_on.is_set():
            self.hangs.set()
            self.go_on.wait(60)

    @hookimpl
    def genai_on_turn_end(self, id: str) -> None:
        self.ids.append(id)


class InStart(Hanging):
    @hookimpl
    def genai_on_turn_start(self, id: str) -> None:
        self.hang()


class InHeaders(Hanging):
    @hookimpl
    def genai_call_headers(self, id: str) -> None:
        self.hang()

    @hookimpl
    def genai_on_call_end(self, id: str) -> None:
        """Without it, calls are not watched."""


class BeforeOthers(Hanging):
    @hookimpl(wrapper=True)
    def genai_on_turn_start(self, id: str) -> Generator[None, Any, Any]:
        self.hang()
        return (yield)


class AfterOthers(Hanging):
    @hookimpl(wrapper=True)
    def genai_on_turn_start(self, id: str) -> Generator[None, Any, Any]:
        result = yield
        self.hang()
        return result


@pytest.mark.part
@pytest.mark.parametrize("kind", [InStart, InHeaders, BeforeOthers, AfterOthers])
def test_a_hook_that_hangs_is_named_and_its_plugin_is_left_out_until_it_returns(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture, kind: type[Hanging]
) -> None:
    import genai_vendor_openai

    clock, slow = ManualClock(), kind()
    with FakeService() as service, ThreadPoolExecutor(1) as pool:
        service.replies = [chat("hello")]
        remote = provider_config("openai-compatible", base_url=f"{service.url}/v1")
        config = Config(providers={"remote": remote})
        host = make_host(slow=slow, openai=genai_vendor_openai, config=config)
        host.observers = Observers(host.plugins.manager, Watchdog(clock))
        hook = next(name for name in vars(kind) if name.startswith("genai_"))
        stuck = pool.submit(host.open("chat", "remote/m").say, "hi")
        assert slow.hangs.wait(30)
        clock.wait_for_alarm_in(10.0)
        clock.advance(10.0)
        [warning] = [each.getMessage() for each in caplog.records if "plugin slow" in each.message]
        assert f"plugin slow has not returned from {hook} for 10 seconds" in warning
        assert host.open("chat", "remote/m").say("hi").text == "hello"
        assert not stuck.done()
        assert slow.ids == []
        slow.go_on.set()
        assert stuck.result(30).text == "hello"
        assert len(slow.ids) == 1
        host.open("chat", "remote/m").say("hi")
        assert len(slow.ids) == 2
        assert f"plugin slow has returned from {hook}" in caplog.text


def test_hooks_that_return_are_not_watched(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    host.observers = Observers(host.plugins.manager, Watchdog(clock))
    for _ in range(3):
        host.open("chat", "mock").say("hi")
        clock.advance(10.0)
    assert "hearing" not in caplog.text
    assert clock.due_in() == []
