"""The server without its transports: what is sent back for what a client sends."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import genai_feature_agent
import pytest
from fixtures import MakeHost
from genai_mcp import rpc
from genai_mcp.server import asking as asking_module
from genai_mcp.server import work
from genai_mcp.server.calls import MOST_NEWS
from genai_mcp.server.exchange import Exchange
from genai_mcp.server.offer import Choice, Offer
from genai_mcp.server.results import MOST_TEXT
from genai_mcp.server.service import MOST_CALLS, Service
from genai_mcp.server.session import PAGE, Session
from genai_vendor_mock.script import Reply
from hypothesis import given
from hypothesis import strategies as st
from mcp_service import PIXEL

from genai_host import Host
from genai_host.api import (
    Answer,
    Feature,
    Image,
    NoSettings,
    Progress,
    Prompt,
    Story,
    Text,
    Tool,
    ToolCall,
    ToolOutput,
    ToolRun,
    Turn,
    Wait,
)
from genai_host.testing import MadePlugin

NEW, OLD = "2026-07-28", "2025-11-25"
OWN = "io.modelcontextprotocol/"
ALLOWED = {"action": "accept", "content": {"allow": True}}
Background = Callable[..., "Future[Any]"]


class Talk:
    """A client without a transport.

    version        that it speaks; it shakes hands if that wants it
    capabilities   of the client
    """

    def __init__(self, service: Service, version: str, capabilities: Any = None) -> None:
        self.session = Session(service)
        self._meta: dict[str, Any] = {}
        self._last = 0
        capabilities = capabilities or {}
        if version == NEW:
            self._meta = {
                f"{OWN}protocolVersion": NEW,
                f"{OWN}clientCapabilities": capabilities,
            }
        else:
            asked = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {}}
            self.opened = self.ask("initialize", **asked)
            self.tell("notifications/initialized")

    def begin(self, method: str, meta: Mapping[str, Any] | None = None, **params: Any) -> Exchange:
        self._last += 1
        all_meta = {**self._meta, **(meta or {})}
        if all_meta:
            params["_meta"] = all_meta
        exchange = self.session.receive(rpc.Request(self._last, method, params))
        assert exchange is not None
        return exchange

    def tell(self, method: str, **params: Any) -> None:
        assert self.session.receive(rpc.Notification(method, params)) is None

    def ask(self, method: str, meta: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """The answer: its result, or its error."""
        [answer] = as_sent(self.begin(method, meta, **params))
        assert answer["id"] == self._last
        return answer.get("result", answer.get("error"))

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=name, arguments=arguments)


def as_sent(exchange: Exchange) -> Iterator[Any]:
    """The messages, as they are once they were written and read."""
    for message in exchange:
        yield json.loads(json.dumps(message, default=dict))


def text(result: Any) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


def repeat(arguments: Mapping[str, Any], run: ToolRun) -> str:
    return str(arguments.get("say", ""))


def service_of(host: Host, **choice: Any) -> Service:
    return Service(Offer(host, Choice(**choice)))


def tool(name: str, run: Any = repeat, **fields: Any) -> Tool:
    return Tool(name, f"It is {name}.", run, {"properties": {"say": {}}}, **fields)


@pytest.fixture(params=[NEW, OLD])
def version(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


class TestEras:
    def test_each_request_may_stand_for_itself(self, host: Host) -> None:
        talk = Talk(service_of(host), NEW)
        found = talk.ask("server/discover")
        assert found["supportedVersions"] == [NEW]
        assert found["capabilities"] == {"tools": {}}
        assert found["resultType"] == "complete"
        assert found["_meta"][f"{OWN}serverInfo"]["name"] == "genai-host"
        assert found["ttlMs"] > 0
        assert found["cacheScope"] == "private"
        for method in ("initialize", "ping", "logging/setLevel", "prompts/list", "x"):
            assert talk.ask(method)["code"] == rpc.METHOD_NOT_FOUND

    @pytest.mark.parametrize("asked", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    def test_or_belong_to_a_session(self, host: Host, asked: str) -> None:
        talk = Talk(service_of(host), asked)
        assert talk.opened["protocolVersion"] == asked
        assert talk.opened["capabilities"] == {"tools": {}}
        assert talk.opened["serverInfo"]["name"] == "genai-host"
        assert talk.ask("ping") == {}
        assert "resultType" not in talk.ask("tools/list")
        assert talk.ask("server/discover")["code"] == rpc.METHOD_NOT_FOUND
        assert talk.ask("initialize", protocolVersion=asked, capabilities={})["code"] == -32600

    def test_a_version_that_is_not_known_is_answered_with_one_that_is(self, host: Host) -> None:
        assert Talk(service_of(host), "2031-01-01").opened["protocolVersion"] == OLD

    def test_both_may_be_spoken_in_one_session(self, host: Host) -> None:
        talk = Talk(service_of(host), OLD)
        meta = {f"{OWN}protocolVersion": NEW, f"{OWN}clientCapabilities": {}}
        assert talk.ask("tools/list", meta)["resultType"] == "complete"
        assert "resultType" not in talk.ask("tools/list")

    def test_a_version_that_is_not_spoken_is_refused(self, host: Host) -> None:
        talk = Talk(service_of(host), NEW)
        error = talk.ask("tools/list", {f"{OWN}protocolVersion": "2027-01-01"})
        assert error["code"] == -32022
        assert error["data"] == {"supported": [NEW], "requested": "2027-01-01"}

    @pytest.mark.parametrize(
        "meta",
        [
            {f"{OWN}protocolVersion": 5},
            {f"{OWN}clientCapabilities": []},
            {f"{OWN}clientCapabilities": None},
        ],
        ids=str,
    )
    def test_a_request_says_what_it_has_to(self, host: Host, meta: Any) -> None:
        assert Talk(service_of(host), NEW).ask("tools/list", meta)["code"] == rpc.INVALID_PARAMS

    def test_nothing_is_done_before_that_is_known(self, host: Host) -> None:
        session = Session(service_of(host))
        exchange = session.receive(rpc.Request(1, "tools/list", {}))
        assert exchange is not None
        [answer] = exchange
        assert answer["error"]["code"] == rpc.INVALID_PARAMS
        assert "or to come after initialize" in answer["error"]["message"]
        exchange = session.receive(rpc.Request(1, "initialize", {"protocolVersion": 5}))
        assert exchange is not None
        [answer] = exchange
        assert answer["error"]["code"] == rpc.INVALID_PARAMS
        assert session.version == ""

    def test_there_is_nothing_to_listen_to(self, host: Host) -> None:
        talk = Talk(service_of(host), NEW)
        wanted = {"notifications": {"toolsListChanged": True}}
        heard, ended = as_sent(talk.begin("subscriptions/listen", **wanted))
        assert heard["method"] == "notifications/subscriptions/acknowledged"
        assert heard["params"] == {"_meta": {f"{OWN}subscriptionId": 1}, "notifications": {}}
        assert ended["result"]["_meta"][f"{OWN}subscriptionId"] == 1
        old = Talk(service_of(host), OLD)
        assert old.ask("subscriptions/listen", **wanted)["code"] == rpc.METHOD_NOT_FOUND


class TestTools:
    def test_they_are_listed_with_the_features(self, make_host: MakeHost, version: str) -> None:
        tools = [tool("b"), tool("a", approval="ask"), tool("c", approval="deny")]
        talk = Talk(service_of(make_host(own=MadePlugin(tools=tools))), version)
        listed = talk.ask("tools/list")
        assert "nextCursor" not in listed
        assert [each["name"] for each in listed["tools"]] == [
            "a",
            "ask_chat",
            "ask_chat-model",
            "b",
        ]
        a, chat = listed["tools"][:2]
        assert a["description"] == "It is a."
        assert a["inputSchema"] == {"type": "object", "properties": {"say": {}}}
        assert chat["inputSchema"]["required"] == ["message"]

    def test_a_part_of_them_may_be_chosen(self, make_host: MakeHost, version: str) -> None:
        host = make_host(own=MadePlugin(tools=[tool("git__a"), tool("git__b"), tool("other")]))

        def offered(**choice: Any) -> list[str]:
            listed = Talk(service_of(host, **choice), version).ask("tools/list")
            return [each["name"] for each in listed["tools"]]

        assert offered(tools=["git__*"], features=()) == ["git__a", "git__b"]
        assert offered(tools=["other"], features=["chat"]) == ["ask_chat", "other"]
        talk = Talk(service_of(host, tools=["other"]), version)
        assert talk.call("git__a")["message"] == "Unknown tool: git__a"

    def test_a_list_comes_in_pages(self, make_host: MakeHost, version: str) -> None:
        names = [f"t{number:03}" for number in range(2 * PAGE + 1)]
        host = make_host(own=MadePlugin(tools=map(tool, names)), chat=None)
        talk = Talk(service_of(host), version)
        found, sizes = [], []
        cursor: dict[str, Any] = {}
        while True:
            page = talk.ask("tools/list", **cursor)
            found += [each["name"] for each in page["tools"]]
            sizes.append(len(page["tools"]))
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert found == names
        assert sizes == [PAGE, PAGE, 1]

    @pytest.mark.parametrize("cursor", [5, "", "é", "x", "****", [], {}], ids=repr)
    def test_a_cursor_is_one_that_was_given(self, host: Host, version: str, cursor: Any) -> None:
        error = Talk(service_of(host), version).ask("tools/list", cursor=cursor)
        assert error["code"] == rpc.INVALID_PARAMS

    def test_texts_and_pictures_come_back(self, make_host: MakeHost, version: str) -> None:
        def look(*_: Any) -> ToolOutput:
            parts = [Text("a"), Image(PIXEL), Image(b"x", "image/x"), Image(url="http://e.x/a")]
            return ToolOutput(parts, reactions=[{"type": "go"}])

        talk = Talk(service_of(make_host(own=MadePlugin(tools=[tool("look", look)]))), version)
        result = talk.call("look")
        assert result["isError"] is False
        assert "structuredContent" not in result
        assert result["content"] == [
            {"type": "text", "text": "a"},
            {"type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png"},
            {"type": "image", "data": base64.b64encode(b"x").decode(), "mimeType": "image/x"},
            {"type": "text", "text": "(a picture: http://e.x/a)"},
        ]

    def test_what_fails_is_told_to_the_model(self, make_host: MakeHost, version: str) -> None:
        def fail(*_: Any) -> None:
            raise OSError("sold out")

        strict = Tool("strict", "x", repeat, {"properties": {"n": {"type": "integer"}}})
        host = make_host(own=MadePlugin(tools=[tool("fail", fail), strict]))
        talk = Talk(service_of(host), version)
        result = talk.call("fail")
        assert result["isError"] is True
        assert "sold out" in text(result)
        result = talk.call("strict", n="x")
        assert result["isError"] is True
        assert "the arguments of strict do not fit" in text(result)

    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"name": 5},
            {"name": None, "arguments": {}},
            {"name": "a", "arguments": []},
            {"name": "a", "arguments": None},
            {"name": "missing"},
            {"name": "ask_missing"},
            {"name": "\x1b[1m"},
        ],
        ids=str,
    )
    def test_a_wrong_request_is_refused(
        self, make_host: MakeHost, version: str, params: Any
    ) -> None:
        talk = Talk(service_of(make_host(own=MadePlugin(tools=[tool("a")]))), version)
        error = talk.ask("tools/call", **params)
        assert error["code"] == rpc.INVALID_PARAMS
        assert error["message"].isprintable()

    def test_one_that_clients_must_refuse_is_not_offered(
        self, make_host: MakeHost, caplog: pytest.LogCaptureFixture
    ) -> None:
        marked = {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
        host = make_host(own=MadePlugin(tools=[Tool("a", "x", repeat, marked)]), chat=None)
        assert Talk(service_of(host), NEW).ask("tools/list")["tools"] == []
        assert "the tool a is not offered: the x-mcp-header A is on what is no" in caplog.text

    def test_a_tool_comes_before_a_feature_of_its_name(
        self, make_host: MakeHost, version: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        host = make_host(own=MadePlugin(tools=[tool("ask_chat")]))
        talk = Talk(service_of(host), version)
        assert text(talk.call("ask_chat", say="x")) == "x"
        names = [each["name"] for each in talk.ask("tools/list")["tools"]]
        assert names == ["ask_chat", "ask_chat-model"]
        assert "the feature chat is not offered: ask_chat is a tool" in caplog.text


class TestFeatures:
    def test_one_is_asked(self, host: Host, version: str) -> None:
        talk = Talk(service_of(host, model="mock"), version)
        assert text(talk.call("ask_chat", message="hi")) == "hi"
        assert text(talk.call("ask_chat", message="ho")) == "ho"  # another conversation

    def test_the_client_may_name_the_model(self, host: Host, version: str) -> None:
        talk = Talk(service_of(host), version)
        assert text(talk.call("ask_chat", message="hi", model="mock")) == "hi"
        result = talk.call("ask_chat", message="hi", model="nonesuch")
        assert result["isError"] is True
        assert "nonesuch" in text(result)

    @pytest.mark.parametrize("arguments", [{}, {"message": 3}, {"message": "a", "x": 1}], ids=str)
    def test_wrong_arguments_are_told_to_the_model(
        self, host: Host, version: str, arguments: Any
    ) -> None:
        result = Talk(service_of(host), version).call("ask_chat", **arguments)
        assert result["isError"] is True
        assert "the arguments do not fit" in text(result)

    def test_errors_are_told_with_what_to_do(self, scripted: MakeHost, version: str) -> None:
        talk = Talk(service_of(scripted({"status": 401}), model="mock"), version)
        result = talk.call("ask_chat", message="hi")
        assert result["isError"] is True

    def test_answers_are_bounded(self, make_host: MakeHost, version: str) -> None:
        data = {"a": "\ud800"}

        def respond(turn: Turn[NoSettings]) -> Story:
            yield Progress("a")
            return Answer("x" * (MOST_TEXT + 5), data=data)

        host = make_host(own=MadePlugin(features=[Feature("f", NoSettings, respond, roles={})]))
        result = Talk(service_of(host), version).call("ask_f", message="hi")
        said, told = (part["text"] for part in result["content"])
        assert said == "x" * MOST_TEXT + "\n(cut here: 5 more characters)"
        assert json.loads(told) == result["structuredContent"] == data
        data["a"] = "x" * 2**20
        result = Talk(service_of(host), version).call("ask_f", message="hi")
        assert "structuredContent" not in result
        assert result["content"][1]["text"] == "(data of 1048584 bytes was left out)"

    def test_how_it_goes_is_told_to_who_wants_it(self, make_host: MakeHost, version: str) -> None:
        def respond(turn: Turn[NoSettings]) -> Story:
            yield Progress("one\n\x1b[1mtwo")
            for number in range(MOST_NEWS):
                yield Progress(str(number))
            return Answer("done")

        host = make_host(own=MadePlugin(features=[Feature("f", NoSettings, respond, roles={})]))
        talk = Talk(service_of(host), version)
        call: Any = {"name": "ask_f", "arguments": {"message": "hi"}}
        *news, answer = as_sent(talk.begin("tools/call", {"progressToken": "t"}, **call))
        assert len(news) == MOST_NEWS
        assert news[0]["method"] == "notifications/progress"
        first = {"progressToken": "t", "progress": 1, "message": "one [1mtwo"}
        assert news[0]["params"] == first
        progress = [each["params"]["progress"] for each in news]
        assert progress == sorted(set(progress))
        assert text(answer["result"]) == "done"
        for token in ({}, {"progressToken": True}, {"progressToken": None}):
            assert text(talk.ask("tools/call", token, **call)) == "done"

    def test_conversations_are_kept_if_that_is_wanted(
        self, make_host: MakeHost, version: str, tmp_path: Any
    ) -> None:
        from genai_host.store import Store

        with Store(tmp_path / "s") as store:
            host = make_host(store=store)
            Talk(service_of(host, model="mock"), version).call("ask_chat", message="unkept")
            assert host.conversations() == []
            talk = Talk(service_of(host, model="mock", record=True), version)
            talk.call("ask_chat", message="kept")
            assert len(host.conversations()) == 1


class Hanging:
    """A tool that works until its call is ended."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, arguments: Mapping[str, Any], run: ToolRun) -> str:
        with run.limits.on_cancel(self.ended.set):
            self.begun.set()
            self.ended.wait(60)
        return "never"


class TestCancelling:
    def test_a_tool_ends(self, make_host: MakeHost, version: str, background: Background) -> None:
        hanging = Hanging()
        host = make_host(own=MadePlugin(tools=[tool("hang", hanging)]))
        talk = Talk(service_of(host), version)
        exchange = talk.begin("tools/call", name="hang")
        sent = background(lambda: list(exchange))
        assert hanging.begun.wait(30)
        talk.tell("notifications/cancelled", requestId=7)
        talk.tell("notifications/cancelled", requestId=[])
        talk.tell("notifications/cancelled")
        assert not hanging.ended.is_set()
        talk.tell("notifications/cancelled", requestId=exchange.request.id)
        assert hanging.ended.wait(30)
        assert sent.result(30) == []  # nothing is sent for it any more
        assert len(talk.ask("tools/list")["tools"]) == 3

    def test_a_feature_ends(self, scripted: MakeHost, version: str, background: Background) -> None:
        host = scripted(Reply("late", fault="hang"))
        talk = Talk(service_of(host, model="mock"), version)
        call: Any = {"name": "ask_chat", "arguments": {"message": "hi"}}
        exchange = talk.begin("tools/call", **call)
        sent = background(lambda: list(exchange))
        provider: Any = host.instances["mock"].provider
        while not provider.requests:
            assert not sent.done()
        talk.tell("notifications/cancelled", requestId=exchange.request.id)
        assert sent.result(30) == []

    def test_it_may_come_before_the_call_begins(self, host: Host, version: str) -> None:
        talk = Talk(service_of(host, model="mock"), version)
        exchange = talk.begin("tools/call", name="ask_chat", arguments={"message": "hi"})
        talk.tell("notifications/cancelled", requestId=exchange.request.id)
        assert list(exchange) == []

    def test_closing_the_session_ends_all(
        self, make_host: MakeHost, version: str, background: Background
    ) -> None:
        hanging = Hanging()
        host = make_host(own=MadePlugin(tools=[tool("hang", hanging)]))
        talk = Talk(service_of(host), version)
        exchange = talk.begin("tools/call", name="hang")
        sent = background(lambda: list(exchange))
        assert hanging.begun.wait(30)
        talk.session.close()
        assert sent.result(30) == []
        assert talk.ask("tools/list")["message"] == "the session is closed"

    def test_who_goes_away_amid_the_news_ends_the_call(
        self, make_host: MakeHost, version: str
    ) -> None:
        ended = threading.Event()

        def respond(turn: Turn[NoSettings]) -> Story:
            try:
                yield Progress("one")
                yield Progress("two")
            finally:
                ended.set()
            return Answer("done")

        host = make_host(own=MadePlugin(features=[Feature("f", NoSettings, respond, roles={})]))
        service = service_of(host)
        talk = Talk(service, version)
        call: Any = {"name": "ask_f", "arguments": {"message": "hi"}}
        sent: Any = iter(talk.begin("tools/call", {"progressToken": 1}, **call))
        next(sent)
        assert not ended.is_set()
        sent.close()
        assert ended.is_set()
        assert service.places.acquire(blocking=False)


class TestBounds:
    def test_so_many_are_under_way_at_once(
        self, make_host: MakeHost, version: str, background: Background
    ) -> None:
        go = threading.Event()
        host = make_host(own=MadePlugin(tools=[tool("wait", lambda *_: go.wait(60) and None)]))
        service = service_of(host)
        talk, other = Talk(service, version), Talk(service, version)
        exchanges = [talk.begin("tools/call", name="wait") for _ in range(MOST_CALLS)]
        try:
            assert other.call("wait")["message"] == "too many requests are under way"
            assert other.ask("tools/list")["code"] == rpc.INTERNAL_ERROR
        finally:
            go.set()
        sent = [background(lambda each=each: list(each)) for each in exchanges]
        assert all(text(answer.result(30)[0]["result"]) == "" for answer in sent)
        assert "content" in other.call("wait")

    def test_an_id_is_that_of_one_request(self, host: Host, version: str) -> None:
        talk = Talk(service_of(host, model="mock"), version)
        first = talk.begin("tools/list")
        second = talk.session.receive(first.request)
        assert second is not None
        [refusal] = second
        assert refusal["error"]["code"] == rpc.INVALID_REQUEST
        [answer] = first
        assert answer["result"]["tools"]
        third = talk.session.receive(first.request)
        assert third is not None
        assert "result" in next(iter(third))

    def test_a_fault_of_ours_says_nothing(
        self, host: Host, version: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(self: Offer) -> None:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(Offer, "tools", fail)
        error = Talk(service_of(host), version).ask("tools/list")
        assert error["code"] == rpc.INTERNAL_ERROR
        assert "secret" not in error["message"]


class TestApproval:
    """Tools that ask for approval."""

    @pytest.fixture
    def asking(self, make_host: MakeHost) -> Host:
        return make_host(own=MadePlugin(tools=[tool("buy", approval="ask")]))

    def test_some_are_approved_beforehand(self, asking: Host, version: str) -> None:
        talk = Talk(service_of(asking, approved=["b*"]), version, {"elicitation": {}})
        assert text(talk.call("buy", say="x")) == "x"

    @pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": 1}])
    def test_a_client_that_cannot_ask_is_refused(self, asking: Host, capabilities: Any) -> None:
        error = Talk(service_of(asking), NEW, capabilities).call("buy")
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        assert "--approve buy" in error["message"]
        result = Talk(service_of(asking), OLD, capabilities).call("buy")
        assert result["isError"] is True
        assert "--approve buy" in text(result)

    def test_one_of_an_old_version_cannot(self, asking: Host) -> None:
        result = Talk(service_of(asking), "2025-03-26", {"elicitation": {}}).call("buy")
        assert "no way to ask" in text(result)

    @pytest.mark.parametrize("capabilities", [{"elicitation": {}}, {"elicitation": {"form": {}}}])
    def test_a_human_is_asked(self, asking: Host, capabilities: Any) -> None:
        talk = Talk(service_of(asking), NEW, capabilities)
        asked = talk.call("buy", say="x\x1b[1m")
        assert asked["resultType"] == "input_required"
        request = asked["inputRequests"]["approval"]
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"].startswith("May the tool buy run, with these arg")
        assert "\x1b" not in request["params"]["message"]
        call: Any = {"name": "buy", "arguments": {"say": "x\x1b[1m"}}
        call["requestState"] = asked["requestState"]
        again = talk.ask("tools/call", **call)  # without an answer
        assert again["inputRequests"] == asked["inputRequests"]
        call["requestState"] = again["requestState"]
        assert text(talk.ask("tools/call", **call, inputResponses={"approval": ALLOWED}))
        used_up = talk.ask("tools/call", **call, inputResponses={"approval": ALLOWED})
        assert used_up["code"] == rpc.INVALID_PARAMS

    @pytest.mark.parametrize(
        "given",
        [
            None,
            5,
            {},
            {"action": "decline"},
            {"action": "cancel"},
            {"action": "accept"},
            {"action": "accept", "content": {"allow": "true"}},
            {"action": "accept", "content": {"allow": 1}},
            {"action": "decline", "content": {"allow": True}},
        ],
        ids=str,
    )
    def test_what_is_no_yes_is_a_no(self, asking: Host, given: Any, background: Background) -> None:
        capabilities: Any = {"elicitation": {}}
        talk = Talk(service_of(asking), NEW, capabilities)
        state = talk.call("buy")["requestState"]
        call = {"name": "buy", "requestState": state, "inputResponses": {"approval": given}}
        result = talk.ask("tools/call", **call)
        assert result["isError"] is True
        assert "said no" in text(result)
        old = Talk(service_of(asking), OLD, capabilities)
        sent = as_sent(old.begin("tools/call", name="buy"))
        asked = next(sent)
        rest = background(lambda: list(sent))
        old.session.receive(rpc.Answer(asked["id"], given))
        [answer] = rest.result(30)
        assert "said no" in text(answer["result"])

    def test_a_state_is_for_what_was_asked(self, asking: Host) -> None:
        talk = Talk(service_of(asking), NEW, {"elicitation": {}})
        state = talk.call("buy", say="a")["requestState"]
        yes = {"inputResponses": {"approval": ALLOWED}}
        for wrong in (
            {"name": "buy", "arguments": {"say": "b"}, "requestState": state},
            {"name": "ask_chat", "arguments": {"say": "a"}, "requestState": state},
            {"name": "buy", "arguments": {"say": "a"}, "requestState": state + "x"},
            {"name": "buy", "arguments": {"say": "a"}, "requestState": 5},
        ):
            assert talk.ask("tools/call", **wrong, **yes)["code"] == rpc.INVALID_PARAMS
        right: Any = {"name": "buy", "arguments": {"say": "a"}, "requestState": state}
        assert text(talk.ask("tools/call", **right, **yes)) == "a"

    def test_answers_alone_approve_of_nothing(self, asking: Host) -> None:
        talk = Talk(service_of(asking), NEW, {"elicitation": {}})
        responses = {"approval": ALLOWED}
        asked = talk.ask("tools/call", name="buy", inputResponses=responses)
        assert asked["resultType"] == "input_required"

    def test_calls_do_not_wait_for_ever(
        self, asking: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(work, "MOST_KEPT", 2)
        talk = Talk(service_of(asking), NEW, {"elicitation": {}})
        states = [talk.call("buy")["requestState"] for _ in range(3)]
        yes: Any = {"name": "buy", "inputResponses": {"approval": ALLOWED}}
        answers = [talk.ask("tools/call", **yes, requestState=each) for each in states]
        assert [each.get("code") for each in answers] == [rpc.INVALID_PARAMS, None, None]
        monkeypatch.setattr(work, "KEPT_SECONDS", -1.0)
        state = talk.call("buy")["requestState"]
        assert talk.ask("tools/call", **yes, requestState=state)["code"] == rpc.INVALID_PARAMS

    def test_a_human_is_asked_while_an_old_client_waits(
        self, asking: Host, background: Background
    ) -> None:
        talk = Talk(service_of(asking), OLD, {"elicitation": {}})
        sent = as_sent(talk.begin("tools/call", name="buy", arguments={"say": "x"}))
        asked = next(sent)
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["requestedSchema"]["required"] == ["allow"]
        rest = background(lambda: list(sent))
        talk.session.receive(rpc.Answer("other", ALLOWED))
        talk.session.receive(rpc.Answer(None, error=rpc.RpcError(-1, "no")))
        talk.session.receive(rpc.Answer(asked["id"], ALLOWED))
        [answer] = rest.result(30)
        assert text(answer["result"]) == "x"

    def test_it_may_be_cancelled_then(self, asking: Host, background: Background) -> None:
        talk = Talk(service_of(asking), OLD, {"elicitation": {}})
        exchange = talk.begin("tools/call", name="buy")
        sent = as_sent(exchange)
        asked = next(sent)
        rest = background(lambda: list(sent))
        talk.tell("notifications/cancelled", requestId=exchange.request.id)
        [cancelled] = rest.result(30)
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"] == {"requestId": asked["id"]}

    def test_a_human_takes_no_longer_than_that(
        self, asking: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(asking_module, "SECONDS", 0.0)
        talk = Talk(service_of(asking), OLD, {"elicitation": {}})
        asked, cancelled, answer = as_sent(talk.begin("tools/call", name="buy"))
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"] == {"requestId": asked["id"]}
        assert "said no" in text(answer["result"])

    def agent(self, scripted: MakeHost) -> Host:
        calls = [ToolCall("1", "buy", {"say": "x"}), ToolCall("2", "buy", {"say": "y"})]
        plugins = {
            "agent": genai_feature_agent,
            "own": MadePlugin(tools=[tool("buy", approval="ask")]),
        }
        return scripted(Reply(tool_calls=calls), "done", plugins=plugins)

    def test_the_tools_of_an_agent_ask_as_well(self, scripted: MakeHost) -> None:
        host = self.agent(scripted)
        talk = Talk(service_of(host, model="mock"), NEW, {"elicitation": {}})
        call: Any = {"name": "ask_agent", "arguments": {"message": "hi"}}
        first = talk.ask("tools/call", **call)
        assert '"say": "x"' in first["inputRequests"]["approval"]["params"]["message"]
        yes = {"inputResponses": {"approval": ALLOWED}}
        second = talk.ask("tools/call", **call, **yes, requestState=first["requestState"])
        assert '"say": "y"' in second["inputRequests"]["approval"]["params"]["message"]
        result = talk.ask(
            "tools/call",
            **call,
            inputResponses={"approval": 0},
            requestState=second["requestState"],
        )
        assert text(result).startswith("done")
        provider: Any = host.instances["mock"].provider
        said = json.dumps(provider.requests[-1])
        assert '"x"' in said
        assert "human" in said  # who did not want the other one

    def test_and_are_approved_beforehand(self, scripted: MakeHost, version: str) -> None:
        talk = Talk(service_of(self.agent(scripted), model="mock", approved=["buy"]), version)
        result = talk.call("ask_agent", message="hi")
        assert text(result).startswith("done")
        assert result["structuredContent"]["reactions"][0]["message"] == "done"

    def test_what_else_a_feature_waits_for_is_not_given(
        self, make_host: MakeHost, version: str
    ) -> None:
        waits: list[Wait[Any]] = [Wait("weather"), Wait("approval", {"calls": 5}), Wait("approval")]
        features = []
        for number, wait in enumerate(waits):

            def respond(turn: Turn[NoSettings], wait: Wait[Any] = wait) -> Story:
                yield from wait
                return Answer("done")

            features.append(Feature(f"f{number}", NoSettings, respond, roles={}))
        host = make_host(own=MadePlugin(features=features))
        talk = Talk(service_of(host), version, {"elicitation": {}})
        for number in range(len(waits)):
            result = talk.call(f"ask_f{number}", message="hi")
            assert result["isError"] is True
            assert "which nobody here can give" in text(result)


def talks(turn: Turn[NoSettings]) -> Story:
    completion = yield from Prompt([turn.message])
    return Answer(completion.text)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
METHODS = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "server/discover",
    "subscriptions/listen",
    "notifications/cancelled",
    "x",
]
KEYS = ["name", "arguments", "cursor", "_meta", "protocolVersion", "capabilities", "requestId"]
META = st.dictionaries(
    st.sampled_from([f"{OWN}protocolVersion", f"{OWN}clientCapabilities", "progressToken"]),
    st.just(NEW) | st.just({}) | ANY,
)
PARAMS = st.dictionaries(
    st.sampled_from(KEYS), ANY | st.just("ask_chat") | st.just("2025-03-26") | META
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    from genai_host import Config, Given

    own = MadePlugin(
        tools=[tool("a"), tool("b", approval="ask")],
        features=[Feature("chat", NoSettings, talks)],
    )
    with Host(config=Config(), discovery=Given({"own": own})) as host:
        yield service_of(host)


@given(
    st.lists(
        st.tuples(st.sampled_from(METHODS), PARAMS, st.integers(1, 3) | st.text(max_size=2)),
        max_size=4,
    )
)
def test_each_request_is_answered_once(shared: Service, said: Any) -> None:
    session = Session(shared)
    for method, params, id in said:
        exchange = session.receive(rpc.Request(id, method, params))
        assert exchange is not None
        *_, answer = exchange
        assert answer["id"] == id
        assert ("result" in answer) != ("error" in answer)
        error = answer.get("error", {})
        assert error.get("code") != rpc.INTERNAL_ERROR or "too many" in error["message"]
        session.receive(rpc.Notification(method, params))
        session.receive(rpc.Answer(id, params))
