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
    tool,
)
from genai_host.api import hooks as hookspecs
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


class Watching(InlinePlugin):
    def __init__(self) -> None:
        super().__init__()
        self.started: list[tuple[str, RouteInfo]] = []
        self.ended: list[dict[str, Any]] = []

    @hookimpl
    def genai_on_call_start(self, id: str, route: RouteInfo) -> None:
        self.started.append((id, route))

    @hookimpl
    def genai_on_call_end(
        self, id: str, result: object, error: Exception | None, seconds: float
    ) -> None:
        self.ended.append({"id": id, "result": result, "error": error, "seconds": seconds})


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
def host(make_host: Callable[..., Host], watching: Watching) -> Host:
    return make_host(watching=watching)


def test_a_call_is_told_when_it_starts_and_when_it_ends(host: Host, watching: Watching) -> None:
    host.open("chat", "mock").say("hi")
    [(id, route)] = watching.started
    [end] = watching.ended
    assert route == RouteInfo("mock", "mock", "plain")
    assert end["id"] == id
    assert isinstance(end["result"], Completion)
    assert end["result"].text == "hi"
    assert end["error"] is None
    assert end["seconds"] >= 0


def test_each_call_has_an_id_of_its_own(host: Host, watching: Watching) -> None:
    conversation = host.open("chat", "mock")
    for _ in range(3):
        conversation.say("hi")
    assert len({id for id, _ in watching.started}) == 3


def test_a_failed_call_is_told_with_its_error(host: Host, watching: Watching) -> None:
    host.instances.add("script", "mock", {"replies": [{"status": 429}]})
    with pytest.raises(RateLimited):
        host.open("chat", provider="script").say("hi")
    [end] = watching.ended
    assert isinstance(end["error"], RateLimited)
    assert end["result"] is None


def test_an_abandoned_call_is_told_as_cancelled(host: Host, watching: Watching) -> None:
    stream = host.open("chat", "mock").stream("a b c")
    next(stream)
    stream.close()
    assert watching.ended[0]["error"] == Cancelled("abandoned")


def test_who_asks_for_less_is_told_less(make_host: Callable[..., Host]) -> None:
    class Curt(InlinePlugin):
        heard = 0

        @hookimpl
        def genai_on_call_end(self, seconds: float) -> None:
            self.heard += 1

    curt = Curt()
    make_host(curt=curt).open("chat", "mock").say("hi")
    assert curt.heard == 1


def test_an_observer_that_breaks_does_not_break_the_call(
    make_host: Callable[..., Host], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(InlinePlugin):
        @hookimpl
        def genai_on_call_start(self) -> None:
            raise RuntimeError("broken observer")

    assert make_host(broken=Broken()).open("chat", "mock").say("hi").text == "hi"
    assert "plugin broken raised in genai_on_call_start" in caplog.text


class Named(InlinePlugin):
    """Writes down when it is called, in a list that several share."""

    def __init__(self, name: str, heard: list[str]) -> None:
        super().__init__()
        self.name = name
        self.heard = heard


class Plain(Named):
    @hookimpl
    def genai_on_call_start(self) -> None:
        self.heard.append(self.name)


class First(Named):
    @hookimpl(tryfirst=True)
    def genai_on_call_start(self) -> None:
        self.heard.append(self.name)


class Last(Named):
    @hookimpl(trylast=True)
    def genai_on_call_start(self) -> None:
        self.heard.append(self.name)


class Wrapper(Named):
    @hookimpl(wrapper=True)
    def genai_on_call_start(self, id: str) -> Generator[None, Any, Any]:
        self.heard.append(f"before {self.name}")
        result = yield
        self.heard.append(f"after {self.name} {bool(id)}")
        return result


class OldWrapper(Named):
    @hookimpl(hookwrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, None]:
        self.heard.append(f"before {self.name}")
        outcome = yield
        self.heard.append(f"after {self.name} {outcome.get_result()}")


def test_observers_run_as_pluggy_runs_hooks(make_host: Callable[..., Host]) -> None:
    heard: list[str] = []
    kinds = {"first": First, "b": Plain, "old": OldWrapper, "last": Last, "a": Plain, "w": Wrapper}
    plugins = {name: kind(name, heard) for name, kind in kinds.items()}
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    for name, plugin in plugins.items():
        manager.register(plugin, name)
    manager.hook.genai_on_call_start(id="x", parent="", operation="chat", route=None, call=None)
    by_pluggy = [*heard]
    heard.clear()
    make_host(**plugins).open("chat", "mock").say("hi")
    assert heard == by_pluggy
    assert heard == [
        "before w", "before old", "first", "a", "b", "last", "after old []", "after w True",
    ]  # fmt: skip


class BreaksBefore(Named):
    @hookimpl(wrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, Any]:
        if self.name:
            raise RuntimeError("broken before")
        yield


class BreaksAfter(Named):
    @hookimpl(wrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, Any]:
        yield
        raise RuntimeError("broken after")


class BreaksAfterOld(Named):
    @hookimpl(hookwrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, None]:
        yield
        raise RuntimeError("broken after")


class NeverYields(Named):
    @hookimpl(wrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, Any]:
        if not self.name:
            yield


class YieldsTwice(Named):
    @hookimpl(wrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, Any]:
        yield
        yield


class CannotBeClosed(Named):
    @hookimpl(wrapper=True)
    def genai_on_call_start(self) -> Generator[None, Any, Any]:
        for _ in range(3):
            with contextlib.suppress(GeneratorExit):
                yield


@pytest.mark.parametrize(
    "kind", [BreaksBefore, BreaksAfter, BreaksAfterOld, NeverYields, YieldsTwice, CannotBeClosed]
)
def test_a_wrapper_that_breaks_breaks_neither_the_call_nor_other_observers(
    make_host: Callable[..., Host], caplog: pytest.LogCaptureFixture, kind: type[Named]
) -> None:
    heard: list[str] = []
    others = {"one": Plain("one", heard), "two": Wrapper("two", heard)}
    host = make_host(one=others["one"], broken=kind("broken", heard), two=others["two"])
    assert host.open("chat", "mock").say("hi").text == "hi"
    assert heard == ["before two", "one", "after two True"]
    assert "plugin broken raised in genai_on_call_start" in caplog.text


class Hearing(InlinePlugin):
    """Hears all of it: what was told, in its order, with what of it a test looks at."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(**declared)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.ended = threading.Event()  # a request has

    def of(self, what: str) -> list[dict[str, Any]]:
        return [news for name, news in self.heard if name == what]

    @hookimpl
    def genai_on_turn_start(self, id: str, feature: str, conversation: str, model: str) -> None:
        about = {"id": id, "feature": feature, "conversation": conversation, "model": model}
        self.heard.append(("turn start", about))

    @hookimpl
    def genai_on_turn_end(self, id: str, turn: Any, answer: Any, error: Any) -> None:
        about = {"id": id, "said": turn.message.text, "answer": answer, "error": error}
        self.heard.append(("turn end", about))

    @hookimpl
    def genai_on_call_start(self, id: str, parent: str, call: Call) -> None:
        self.heard.append(("call start", {"id": id, "parent": parent, "call": call}))

    @hookimpl
    def genai_on_call_end(
        self, id: str, parent: str, first_token_seconds: float | None, error: Any
    ) -> None:
        about = {"id": id, "parent": parent, "first": first_token_seconds, "error": error}
        self.heard.append(("call end", about))

    @hookimpl
    def genai_on_tool_start(self, id: str, parent: str, call: ToolCall) -> None:
        AMBIENT.set(id)
        self.heard.append(("tool start", {"id": id, "parent": parent, "name": call.name}))

    @hookimpl
    def genai_on_tool_end(self, id: str, output: ToolOutput | None, error: Any) -> None:
        self.heard.append(("tool end", {"id": id, "output": output, "error": error}))

    @hookimpl
    def genai_on_request_start(self, id: str, request: RouteRequest, route: str) -> None:
        about = {"id": id, "path": request.path, "route": route, "thread": threading.get_ident()}
        self.heard.append(("request start", about))

    @hookimpl
    def genai_on_request_end(self, id: str, route: str, status: int, seconds: float) -> None:
        about = {"id": id, "route": route, "status": status, "thread": threading.get_ident()}
        self.heard.append(("request end", about))
        self.ended.set()

    @hookimpl
    def genai_on_close(self) -> None:
        self.heard.append(("close", {}))


AMBIENT: ContextVar[str] = ContextVar("ambient", default="")


def test_a_turn_is_told_and_is_the_parent_of_its_calls(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    make_host(hearing=hearing).open("chat", "mock").say("hi")
    assert [name for name, _ in hearing.heard] == [
        "turn start",
        "call start",
        "call end",
        "turn end",
    ]
    [start], [end] = hearing.of("turn start"), hearing.of("turn end")
    [call] = hearing.of("call start")
    assert start == {"id": end["id"], "feature": "chat", "conversation": "", "model": "mock@mock"}
    assert (end["said"], end["answer"].text, end["error"]) == ("hi", "hi", None)
    assert call["parent"] == start["id"] != call["id"]
    assert isinstance(call["call"], ChatCall)


def test_a_turn_that_fails_is_told_with_its_error(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    host = make_host(hearing=hearing)
    host.instances.add("script", "mock", {"replies": [{"status": 401}]})
    with pytest.raises(AuthenticationFailed) as caught:
        host.open("chat", provider="script").say("hi")
    [end] = hearing.of("turn end")
    assert end["error"] is caught.value
    assert end["answer"] is None


def test_an_abandoned_turn_is_told_as_cancelled(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    stream = make_host(hearing=hearing).open("chat", "mock").stream("a b c")
    next(stream)
    stream.close()
    assert hearing.of("turn end")[0]["error"] == Cancelled("abandoned")


def test_calls_of_steps_at_once_have_their_turn_for_parent(make_host: Callable[..., Host]) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from All([Prompt([turn.message]) for _ in range(4)])
        return Answer("done")

    hearing = Hearing(features=[Feature("many", NoSettings, respond, roles={"main": "chat"})])
    host = make_host(hearing=hearing)
    host.open("many", "mock").say("hi")
    host.open("many", "mock").say("hi")
    turns = [each["id"] for each in hearing.of("turn start")]
    assert len(set(turns)) == 2
    parents = [each["parent"] for each in hearing.of("call start")]
    assert sorted(parents) == sorted(turns * 4)


def test_a_call_outside_of_turns_has_no_parent(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    for _ in make_host(hearing=hearing).prompt(Prompt([Message("user", "hi")]), model="mock"):
        pass
    assert [each["parent"] for each in hearing.of("call start")] == [""]


@pytest.mark.part
def test_what_a_plugin_adds_to_the_headers_is_sent(
    make_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    said = {"choices": [{"message": {"content": "well"}, "finish_reason": "stop"}]}
    with FakeService([json_reply(said)]) as service:
        instance = provider_config("openai", base_url=f"{service.url}/v1")
        config = Config(providers={"openai": instance})
        host = make_host(config=config, openai=genai_vendor_openai, adding=adding)
        host.open("chat", "openai/gpt-x").say("hi")
        [request] = service.requests
    assert (request.headers["x-call"], request.headers["x-provider"]) == (adding.id, "openai")


class Adds(Named):
    @hookimpl
    def genai_call_headers(self) -> Any:
        return {"x-who": self.name, f"x-{self.name}": 1}


class AddsJunk(Named):
    @hookimpl
    def genai_call_headers(self) -> Any:
        return 7


class GivesJunk(Named):
    @hookimpl(wrapper=True)
    def genai_call_headers(self) -> Generator[None, Any, Any]:
        yield
        return 7


class AddsAround(Named):
    @hookimpl(wrapper=True)
    def genai_call_headers(self) -> Generator[None, Any, Any]:
        given = yield
        return [{"x-around": len(given)}, *given]


ROUTE = RouteInfo("m", "p", "plain")


def test_of_two_that_add_one_header_the_first_holds(make_host: Callable[..., Host]) -> None:
    plugins = {name: Adds(name, []) for name in ("a", "b")}
    observers = make_host(**plugins, around=AddsAround("around", [])).observers
    assert observers.headers("x", ROUTE) == {
        "x-who": "b", "x-a": "1", "x-b": "1", "x-around": "2",
    }  # fmt: skip


def test_headers_that_are_none_are_logged_and_left_out(
    make_host: Callable[..., Host], caplog: pytest.LogCaptureFixture
) -> None:
    observers = make_host(a=Adds("a", []), junk=AddsJunk("junk", [])).observers
    assert observers.headers("x", ROUTE) == {"x-who": "a", "x-a": "1"}
    assert "plugin junk raised in genai_call_headers" in caplog.text
    observers = make_host(a=Adds("a", []), junk=GivesJunk("junk", [])).observers
    assert observers.headers("x", ROUTE) == {}
    assert "genai_call_headers returned a int" in caplog.text


def test_headers_that_are_none_are_not_logged_with_what_they_hold(
    make_host: Callable[..., Host], caplog: pytest.LogCaptureFixture
) -> None:
    class GivesPairs(Named):
        @hookimpl(wrapper=True)
        def genai_call_headers(self) -> Generator[None, Any, Any]:
            yield
            return [[("authorization", "canary-8f10")]]

    assert make_host(odd=GivesPairs("odd", [])).observers.headers("x", ROUTE) == {}
    assert "genai_call_headers returned a list" in caplog.text
    assert "canary-8f10" not in caplog.text


def test_the_time_to_the_first_piece_is_told(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    host = make_host(hearing=hearing)
    host.open("chat", "mock").say("hi")
    list(host.open("chat", "mock").stream("hi there"))
    whole, streamed = hearing.of("call end")
    assert whole["first"] is None
    assert streamed["first"] >= 0


def test_a_tool_is_told_and_inherits_the_context_of_who_is_told(
    make_host: Callable[..., Host],
) -> None:
    inside: list[str] = []

    def look(text: str) -> str:
        """Look."""
        inside.append(AMBIENT.get())
        return text.upper()

    hearing = Hearing(tools=[tool(look)])
    host = make_host(hearing=hearing)
    assert host.call_tool("look", {"text": "a"}).text == "A"
    assert host.call_tool("nothing").error
    [start], [end] = hearing.of("tool start"), hearing.of("tool end")
    assert (start["name"], start["parent"]) == ("look", "")
    assert (end["id"], end["output"].text) == (start["id"], "A")
    assert inside == [start["id"]]


@pytest.mark.part
def test_a_request_is_told_in_the_thread_that_answers_it(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    host = make_host(hearing=hearing)
    with served(host) as server:
        body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
        assert requests.post(f"{server.url}/v1/chat/completions", json=body).status_code == 200
        assert hearing.ended.wait(10)
        hearing.ended.clear()
        assert requests.get(f"{server.url}/nothing").status_code == 404
        assert hearing.ended.wait(10)
    names = [name for name, _ in hearing.heard]
    assert names[:4] == ["request start", "call start", "call end", "request end"]
    begun, ended = hearing.of("request start"), hearing.of("request end")
    assert [(each["path"], each["route"]) for each in begun] == [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/nothing", ""),
    ]
    assert [each["status"] for each in ended] == [200, 404]
    assert [each["id"] for each in begun] == [each["id"] for each in ended]
    assert begun[0]["thread"] == ended[0]["thread"]


def test_the_end_of_the_host_is_told_once(make_host: Callable[..., Host]) -> None:
    hearing = Hearing()
    host = make_host(hearing=hearing)
    host.open("chat", "mock").say("hi")
    host.close()
    host.close()
    assert len(hearing.of("close")) == 1


def test_where_nobody_listens_nothing_is_made(make_host: Callable[..., Host]) -> None:
    with make_host().observers.tool("", ToolCall("1", "t"), ManualClock()) as watched:
        assert watched.id == ""


class Hanging(InlinePlugin):
    """It hangs in a hook until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.go_on = threading.Event(), threading.Event()
        self.heard: list[str] = []

    def hang(self) -> None:
        if not self.go_on.is_set():
            self.hangs.set()
            self.go_on.wait(60)

    @hookimpl
    def genai_on_turn_end(self, id: str) -> None:
        self.heard.append(id)


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
        assert slow.heard == []
        slow.go_on.set()
        assert stuck.result(30).text == "hello"
        assert len(slow.heard) == 1
        host.open("chat", "remote/m").say("hi")
        assert len(slow.heard) == 2
        assert f"plugin slow has returned from {hook}" in caplog.text


def test_hooks_that_return_are_not_watched_for_longer(
    make_host: Callable[..., Host], caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    host = make_host(watching=Watching())
    host.observers = Observers(host.plugins.manager, Watchdog(clock))
    for _ in range(3):
        host.open("chat", "mock").say("hi")
        clock.advance(10.0)
    assert "watching" not in caplog.text
    assert clock.due_in() == []
