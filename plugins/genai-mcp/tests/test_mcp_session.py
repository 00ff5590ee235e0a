"""The server without its transports: what is sent back for what a client sends."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import mcp_types as rpc
import pytest
from genai_mcp.server.calls import MAX_CALLS, MAX_UPDATES, PAGE, Service
from genai_mcp.server.messages import MAX_TEXT
from genai_mcp.server.offer import Offer
from hypothesis import given, strategies as st

from genai_host import Host, api
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.mcp import PIXEL

from .mcp_clients import NEW, OLD, OWN, McpClient, feature, repeat, service_of, text, tool
from .mcp_fixtures import MakeClient, closing, make_client, version

__all__ = ["closing", "make_client", "version"]


class TestEras:
    def test_each_request_may_stand_for_itself(self, host: Host) -> None:
        client = McpClient(service_of(host), NEW)
        result = client.ask("server/discover")
        assert result["supportedVersions"] == [NEW]
        assert result["capabilities"] == {"tools": {"listChanged": False}}
        assert result["resultType"] == "complete"
        assert result["_meta"][f"{OWN}serverInfo"]["name"] == "genai-host"
        assert result["ttlMs"] > 0
        assert result["cacheScope"] == "private"
        for method in ("ping", "logging/setLevel", "prompts/list", "x"):
            assert client.ask(method)["code"] == rpc.METHOD_NOT_FOUND
        assert client.ask("initialize")["code"] == rpc.UNSUPPORTED_PROTOCOL_VERSION

    @pytest.mark.parametrize("requested", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    def test_or_belong_to_a_session(self, host: Host, requested: str) -> None:
        client = McpClient(service_of(host), requested)
        assert client.opened["protocolVersion"] == requested
        assert client.opened["capabilities"] == {"tools": {"listChanged": False}}
        assert client.opened["serverInfo"]["name"] == "genai-host"
        assert client.ask("ping") == {}
        assert "resultType" not in client.ask("tools/list")
        assert client.ask("server/discover")["code"] == rpc.METHOD_NOT_FOUND

    def test_a_version_that_is_not_known_is_answered_with_one_that_is(self, host: Host) -> None:
        assert McpClient(service_of(host), "2031-01-01").opened["protocolVersion"] == OLD

    def test_one_is_used_in_a_session(self, host: Host) -> None:
        client = McpClient(service_of(host), OLD)
        meta = {f"{OWN}protocolVersion": NEW, f"{OWN}clientCapabilities": {}}
        assert client.ask("tools/list", meta)["code"] == rpc.INVALID_REQUEST
        assert "resultType" not in client.ask("tools/list")

    @pytest.mark.parametrize(("value", "code", "data"), [
        ("2027-01-01", -32022, {"supported": [NEW], "requested": "2027-01-01"}),
        (5, rpc.INVALID_PARAMS, None),
    ])  # fmt: skip
    def test_unknown_version_is_refused(self, host: Host, value: Any, code: int, data: Any) -> None:
        error = McpClient(service_of(host), NEW).ask("tools/list", {f"{OWN}protocolVersion": value})
        assert error["code"] == code
        assert data in (None, error.get("data"))

    def test_nothing_is_done_before_that_is_known(self, host: Host) -> None:
        client = McpClient(service_of(host), "")
        assert client.ask("tools/list")["code"] == rpc.INVALID_PARAMS
        assert client.ask("initialize", protocolVersion=5)["code"] == rpc.INVALID_PARAMS
        assert client.ask("tools/list")["code"] == rpc.INVALID_PARAMS

    def test_there_is_nothing_to_listen_to(self, host: Host, version: str) -> None:
        filters = {"notifications": {"toolsListChanged": True}}
        error = McpClient(service_of(host), version).ask("subscriptions/listen", **filters)
        assert error["code"] == rpc.METHOD_NOT_FOUND


class TestTools:
    def test_they_are_listed_with_the_features(self, make_client: MakeClient) -> None:
        client = make_client(tool("b"), tool("a", approval="ask"), tool("c", approval="deny"))
        listed = client.ask("tools/list")
        assert "nextCursor" not in listed
        names = [each["name"] for each in listed["tools"]]
        assert names == ["a", "ask_chat", "ask_chat-model", "b"]
        a, chat = listed["tools"][:2]
        assert a["description"] == "It is a."
        assert a["inputSchema"] == {"type": "object", "properties": {"say": {}}}
        assert chat["inputSchema"]["required"] == ["message"]

    @pytest.mark.parametrize(
        ("tools", "features", "names"),
        [(["git__*"], (), ["git__a", "git__b"]), (["other"], ["chat"], ["ask_chat", "other"])],
    )
    def test_a_part_of_them_may_be_chosen(
        self, make_client: MakeClient, tools: Any, features: Any, names: list[str]
    ) -> None:
        own = [tool("git__a"), tool("git__b"), tool("other")]
        client = make_client(*own, tools=tools, features=features)
        assert [each["name"] for each in client.ask("tools/list")["tools"]] == names
        [offered] = {"git__a", "other"} - set(names)
        assert client.call(offered)["message"] == f"Unknown tool: {offered}"

    def test_a_list_comes_in_pages(self, make_host: MakeHost, version: str) -> None:
        names = [f"t{number:03}" for number in range(2 * PAGE + 1)]
        host = make_host(own=InlinePlugin(tools=map(tool, names)), chat=None)
        client = McpClient(service_of(host), version)
        pages = [client.ask("tools/list")]
        while cursor := pages[-1].get("nextCursor"):
            pages.append(client.ask("tools/list", cursor=cursor))
        assert [each["name"] for page in pages for each in page["tools"]] == names
        assert [len(page["tools"]) for page in pages] == [PAGE, PAGE, 1]

    @pytest.mark.parametrize("cursor", [5, "", "é", "x", "****", [], {}], ids=repr)
    def test_a_cursor_is_one_that_was_given(self, host: Host, version: str, cursor: Any) -> None:
        error = McpClient(service_of(host), version).ask("tools/list", cursor=cursor)
        assert error["code"] == rpc.INVALID_PARAMS

    def test_texts_and_pictures_come_back(self, make_client: MakeClient) -> None:
        def look(*_: Any) -> api.ToolOutput:
            parts = [
                api.Text("a"), api.Image(PIXEL), api.Image(b"x", "image/x"),
                api.Image(url="http://e.x/a"),
            ]  # fmt: skip
            return api.ToolOutput(parts, reactions=[{"type": "go"}])

        result = make_client(tool("look", look)).call("look")
        assert result["isError"] is False
        assert "structuredContent" not in result
        assert result["content"] == [
            {"type": "text", "text": "a"},
            {"type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png"},
            {"type": "image", "data": base64.b64encode(b"x").decode(), "mimeType": "image/x"},
            {"type": "text", "text": "(an image: http://e.x/a)"},
        ]

    def test_what_fails_is_told_to_the_model(self, make_client: MakeClient) -> None:
        def fail(*_: Any) -> None:
            raise OSError("sold out")

        strict = api.Tool("strict", "x", repeat, {"properties": {"n": {"type": "integer"}}})
        client = make_client(tool("fail", fail), strict)
        result = client.call("fail")
        assert result["isError"] is True
        assert "sold out" in text(result)
        result = client.call("strict", n="x")
        assert result["isError"] is True
        assert "invalid arguments for strict" in text(result)

    @pytest.mark.parametrize("params", [
        {}, {"name": 5}, {"name": None, "arguments": {}}, {"name": "a", "arguments": []},
        {"name": "missing"}, {"name": "ask_missing"}, {"name": "\x1b[1m"},
    ], ids=str)  # fmt: skip
    def test_a_wrong_request_is_refused(self, make_client: MakeClient, params: Any) -> None:
        error = make_client(tool("a")).ask("tools/call", **params)
        assert error["code"] == rpc.INVALID_PARAMS
        assert error["message"].isprintable()

    def test_one_that_clients_must_refuse_is_not_offered(
        self, make_host: MakeHost, caplog: pytest.LogCaptureFixture
    ) -> None:
        marked = {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
        host = make_host(own=InlinePlugin(tools=[api.Tool("a", "x", repeat, marked)]), chat=None)
        client = McpClient(service_of(host), NEW)
        assert client.ask("tools/list")["tools"] == []
        assert client.call("a")["message"] == "Unknown tool: a"
        assert "the tool a is not offered: property 'a': x-mcp-header is only" in caplog.text

    def test_a_tool_comes_before_a_feature_of_its_name(
        self, make_client: MakeClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = make_client(tool("ask_chat"))
        assert text(client.call("ask_chat", say="x")) == "x"
        names = [each["name"] for each in client.ask("tools/list")["tools"]]
        assert names == ["ask_chat", "ask_chat-model"]
        assert "the feature chat is not offered: ask_chat is a tool" in caplog.text


class TestFeatures:
    @pytest.mark.parametrize("by", ["server", "client"])
    def test_one_is_asked_of_the_model_of_either(self, host: Host, version: str, by: str) -> None:
        client = McpClient(service_of(host, model="mock" if by == "server" else None), version)
        model = {} if by == "server" else {"model": "mock"}
        assert text(client.call("ask_chat", message="hi", **model)) == "hi"
        assert text(client.call("ask_chat", message="ho", **model)) == "ho"  # another conversation
        result = client.call("ask_chat", message="hi", model="nonesuch")
        assert result["isError"] is True
        assert "nonesuch" in text(result)

    @pytest.mark.parametrize("arguments", [{}, {"message": 3}, {"message": "a", "x": 1}], ids=str)
    def test_wrong_arguments_are_told(self, host: Host, version: str, arguments: Any) -> None:
        result = McpClient(service_of(host), version).call("ask_chat", **arguments)
        assert result["isError"] is True
        assert "invalid arguments" in text(result)

    def test_errors_are_told_with_what_to_do(self, scripted: MakeHost, version: str) -> None:
        client = McpClient(service_of(scripted({"status": 401}), model="mock"), version)
        assert client.call("ask_chat", message="hi")["isError"] is True

    def test_answers_are_bounded(self, make_client: MakeClient) -> None:
        data = {"a": "b", "c": None}

        def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
            yield api.Progress("a")
            return api.Answer("x" * (MAX_TEXT + 5), data=data)

        client = make_client(feature(respond))
        result = client.call("ask_f", message="hi")
        shown, structured = (part["text"] for part in result["content"])
        assert shown == "x" * MAX_TEXT + "\n(truncated: 5 more characters)"
        assert json.loads(structured) == result["structuredContent"] == data
        data["a"] = "x" * 2**20
        result = client.call("ask_f", message="hi")
        assert "structuredContent" not in result
        assert result["content"][1]["text"] == "(data of 1048593 bytes omitted)"

    def test_cited_pages_follow_the_answer(self, make_client: MakeClient) -> None:
        urls = {
            "https://a.example/1": "A\n\x1b[1m", "javascript:alert(1)": "B",
            "https://c.example": "",
        }  # fmt: skip
        citations = [api.Citation(url, title) for url, title in urls.items()]

        def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
            yield from ()
            return api.Answer("cold", citations=citations)

        answer, pages = make_client(feature(respond)).call("ask_f", message="hi")["content"]
        assert answer["text"] == "cold"
        assert pages["text"] == "Sources:\nA [1m https://a.example/1\nhttps://c.example"

    def test_progress_is_sent_to_clients_that_request_it(self, make_client: MakeClient) -> None:
        def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
            yield api.Progress("one\n\x1b[1mtwo")
            for number in range(MAX_UPDATES):
                yield api.Progress(str(number))
            return api.Answer("done")

        client = make_client(feature(respond))
        call: Any = {"name": "ask_f", "arguments": {"message": "hi"}}
        *news, answer = client.all_until(client.begin("tools/call", {"progressToken": "t"}, **call))
        assert len(news) == MAX_UPDATES
        assert news[0]["method"] == "notifications/progress"
        first = {"progressToken": "t", "progress": 1, "message": "one [1mtwo"}
        assert news[0]["params"] == first
        progress = [each["params"]["progress"] for each in news]
        assert progress == sorted(set(progress))
        assert text(answer["result"]) == "done"
        assert text(client.ask("tools/call", **call)) == "done"

    @pytest.mark.part
    def test_kept_conversations(self, make_host: MakeHost, version: str, tmp_path: Any) -> None:
        from genai_host.store import Store

        with Store(tmp_path / "s") as store:
            host = make_host(store=store)
            McpClient(service_of(host, model="mock"), version).call("ask_chat", message="unkept")
            assert host.conversations() == []
            client = McpClient(service_of(host, model="mock", record=True), version)
            client.call("ask_chat", message="kept")
            assert len(host.conversations()) == 1


class TestBounds:
    def test_concurrent_calls_are_limited(self, make_host: MakeHost, version: str) -> None:
        go = threading.Event()
        host = make_host(own=InlinePlugin(tools=[tool("wait", lambda *_: go.wait(60) and None)]))
        service = service_of(host)
        client, other = McpClient(service, version), McpClient(service, version)
        try:
            ids = {client.begin("tools/call", name="wait") for _ in range(MAX_CALLS + 1)}
            refused = client.receive()
            assert refused["error"]["message"] == "too many concurrent requests"
            assert other.call("wait")["code"] == rpc.INTERNAL_ERROR
        finally:
            go.set()
        answers = [client.receive() for _ in range(MAX_CALLS)]
        assert {each["id"] for each in [refused, *answers]} == ids
        assert all(text(each["result"]) == "" for each in answers)
        assert "content" in other.call("wait")

    def test_internal_error_hides_exception_text(
        self, host: Host, version: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(self: Offer) -> None:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(Offer, "tools", fail)
        error = McpClient(service_of(host), version).ask("tools/list")
        assert error["code"] == rpc.INTERNAL_ERROR
        assert "secret" not in error["message"]


def talks(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
    completion = yield from api.Prompt([turn.message])
    return api.Answer(completion.text)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
METHODS = [
    "initialize", "ping", "tools/list", "tools/call", "server/discover", "subscriptions/listen",
    "notifications/cancelled", "x",
]  # fmt: skip
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
    from genai_host import Config, StaticPlugins

    own = InlinePlugin(
        tools=[tool("a"), tool("b", approval="ask")],
        features=[api.Feature("chat", api.NoSettings, talks)],
    )
    with Host(config=Config(), discovery=StaticPlugins({"own": own})) as host:
        yield service_of(host)


@given(
    st.lists(
        st.tuples(st.sampled_from(METHODS), PARAMS, st.integers(1, 3) | st.text(max_size=2)),
        max_size=4,
    )
)
def test_each_request_is_answered_once(shared: Service, requests: Any) -> None:
    client = McpClient(shared, "")
    try:
        for method, params, id in requests:
            client.send({"id": id, "method": method, "params": params})
            *_, answer = client.all_until(id)
            assert ("result" in answer) != ("error" in answer)
            error = answer.get("error", {})
            assert error.get("code") != rpc.INTERNAL_ERROR or "too many" in error["message"]
            client.notify(method, **params)
    finally:
        client.close()
