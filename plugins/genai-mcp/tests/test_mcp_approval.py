"""Calls that a human is asked about, and calls that are cancelled."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import genai_feature_agent
import mcp_types as rpc
import pytest
from genai_mcp.server import calls as calls_module
from genai_mcp.server.calls import Calls, close_within_grace
from genai_mcp.server.http import McpEndpoint
from genai_mcp.server.messages import ApprovalRequest, Steps, failed
from genai_mcp.server.offer import Offer
from genai_vendor_mock import ScriptedReply

from genai_host import Host, api
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.fixtures import MakeHost

from .mcp_clients import NEW, OLD, OWN, McpClient, feature, service_of, text, tool
from .mcp_fixtures import MakeClient, closing, make_client, version

__all__ = ["closing", "make_client", "version"]

ALLOWED = {"action": "accept", "content": {"allow": True}}


class Hanging:
    """A tool that works until its call is ended."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, arguments: Mapping[str, Any], run: api.ToolContext) -> str:
        with run.limits.on_cancel(self.ended.set):
            self.begun.set()
            self.ended.wait(60)
        return "never"


class TestCancelling:
    def test_a_tool_ends(self, make_client: MakeClient) -> None:
        hanging = Hanging()
        client = make_client(tool("hang", hanging))
        id = client.begin("tools/call", name="hang")
        assert hanging.begun.wait(30)
        client.notify("notifications/cancelled", requestId=7)
        client.notify("notifications/cancelled", requestId=[])
        client.notify("notifications/cancelled")
        assert client.ask("tools/list")["tools"]
        assert not hanging.ended.is_set()
        client.notify("notifications/cancelled", requestId=id)
        assert hanging.ended.wait(30)
        assert len(client.ask("tools/list")["tools"]) == 3  # nothing else is received

    def test_a_feature_ends(self, scripted: MakeHost, version: str) -> None:
        host = scripted(ScriptedReply("late", fault="hang"))
        client = McpClient(service_of(host, model="mock"), version)
        id = client.begin("tools/call", name="ask_chat", arguments={"message": "hi"})
        provider: Any = host.instances["mock"].provider
        while not provider.requests:
            assert client.ask("tools/list")["tools"]
        client.notify("notifications/cancelled", requestId=id)
        assert client.ask("tools/list")["tools"]
        client.close()  # waits for its end

    def test_closing_the_session_ends_all(self, make_client: MakeClient) -> None:
        hanging = Hanging()
        client = make_client(tool("hang", hanging))
        client.begin("tools/call", name="hang")
        assert hanging.begun.wait(30)
        client.close()
        assert hanging.ended.is_set()

    def test_one_that_ends_slowly_delays_no_others(
        self, make_client: MakeClient, version: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended, go_on = threading.Event(), threading.Event()

        def begin(*args: Any) -> Steps:
            try:
                yield ApprovalRequest("May it?", "It may not.")
            finally:
                ended.set()
                go_on.wait(60)
            return failed("never")

        monkeypatch.setattr(Offer, "begin", begin)
        monkeypatch.setattr(calls_module, "MAX_WAITING", 0)  # dropped when it would wait
        client = make_client(tool("slow"), capabilities={"elicitation": {}})
        id = client.begin("tools/call", name="slow")
        if version == OLD:
            client.receive()
            client.notify("notifications/cancelled", requestId=id)
        assert ended.wait(30)
        try:
            list_id = client.begin("tools/list")
            assert [each for each in client.all_until(list_id) if each.get("id") == list_id]
        finally:
            go_on.set()

    @pytest.mark.parametrize("where", ["call", "approval"])
    def test_one_that_does_not_end_does_not_keep_the_server_open(
        self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

        def begin(*args: Any) -> Steps:
            try:
                if where == "approval":
                    yield ApprovalRequest("May it?", "It may not.")
            finally:
                begun.set()
                go_on.wait(60)
                ended.set()
            return failed("never")

        monkeypatch.setattr(Offer, "begin", begin)
        monkeypatch.setattr(calls_module, "GRACE", 0.0)
        endpoint = McpEndpoint(make_host(own=InlinePlugin(tools=[tool("slow")])))
        meta = {f"{OWN}protocolVersion": NEW, f"{OWN}clientCapabilities": {"elicitation": {}}}
        call = {"name": "slow", "arguments": {}, "_meta": meta}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        headers = {
            "content-type": "application/json", "accept": "application/json, text/event-stream",
            "mcp-protocol-version": NEW, "mcp-method": "tools/call", "mcp-name": "slow",
        }  # fmt: skip
        request = api.RouteRequest(
            "POST", "/mcp", headers=headers, body=json.dumps(sent).encode(),
            limits=api.Cancellation(),
        )  # fmt: skip
        try:
            reply = endpoint.post(request)
            assert reply.begin is not None
            if where == "approval":
                begun_reply = reply.begin()
                assert begun_reply is not None
                assert b"input_required" in begun_reply.body
            else:
                assert begun.wait(30)
                reply.body.close()  # type: ignore[union-attr]  # the client disconnects
            endpoint.close()
            assert begun.wait(30)
            assert not ended.is_set()
        finally:
            go_on.set()
        assert ended.wait(30)

    @pytest.mark.parametrize("starts", [True, False])
    def test_what_fails_while_it_is_closed_is_named(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, starts: bool
    ) -> None:
        def start(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        def close() -> None:
            raise OSError("broken")

        if not starts:
            monkeypatch.setattr(threading.Thread, "start", start)
        closed: list[str] = []
        close_within_grace("the endpoint", close, lambda: closed.append("other"))
        assert closed == ["other"]
        [record] = caplog.records
        assert record.getMessage() == "an error occurred while the endpoint was closed"
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == "broken"

    def test_place_is_free(self, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
        answer, freed = Calls.answer, threading.Event()

        async def answer_and_free(self: Calls, context: Any, params: Any) -> Any:
            try:
                return await answer(self, context, params)
            finally:
                if params.name == "hang":
                    freed.set()

        monkeypatch.setattr(Calls, "answer", answer_and_free)
        monkeypatch.setattr(calls_module, "MAX_CALLS", 1)
        hanging = Hanging()
        client = make_client(tool("hang", hanging), tool("say"))
        id = client.begin("tools/call", name="hang")
        assert hanging.begun.wait(30)
        assert client.call("say")["code"] == rpc.INTERNAL_ERROR
        client.notify("notifications/cancelled", requestId=id)
        assert hanging.ended.wait(30)
        assert freed.wait(30)  # once its thread ended
        assert "content" in client.call("say")

    def test_one_cancelled_amid_its_progress_ends(self, make_client: MakeClient) -> None:
        ended = threading.Event()

        def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
            try:
                while not ended.is_set():
                    yield api.Progress("working")
            finally:
                ended.set()
            return api.Answer("done")

        client = make_client(feature(respond))
        arguments = {"message": "hi"}
        id = client.begin("tools/call", {"progressToken": 1}, name="ask_f", arguments=arguments)
        assert client.receive()["method"] == "notifications/progress"
        client.notify("notifications/cancelled", requestId=id)
        assert ended.wait(30)


class TestApproval:
    """Tools that ask for approval."""

    @pytest.fixture
    def asking(self, make_host: MakeHost, clock: ManualClock) -> Host:
        return make_host(own=InlinePlugin(tools=[tool("buy", approval="ask")]), clock=clock)

    def test_some_are_approved_beforehand(self, asking: Host, version: str) -> None:
        client = McpClient(service_of(asking, approved=["b*"]), version, {"elicitation": {}})
        assert text(client.call("buy", say="x")) == "x"

    @pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
    def test_a_client_that_cannot_ask_is_refused(self, asking: Host, capabilities: Any) -> None:
        error = McpClient(service_of(asking), NEW, capabilities).call("buy")
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        assert "config set approvals.buy=allow" in error["message"]
        result = McpClient(service_of(asking), OLD, capabilities).call("buy")
        assert result["isError"] is True
        assert "config set approvals.buy=allow" in text(result)

    def test_one_of_an_old_version_cannot(self, asking: Host) -> None:
        result = McpClient(service_of(asking), "2025-03-26", {"elicitation": {}}).call("buy")
        assert "cannot ask the user" in text(result)

    @pytest.mark.parametrize("capabilities", [{"elicitation": {}}, {"elicitation": {"form": {}}}])
    def test_a_human_is_asked(self, asking: Host, capabilities: Any) -> None:
        client = McpClient(service_of(asking), NEW, capabilities)
        result = client.call("buy", say="x\x1b[1m")
        assert result["resultType"] == "input_required"
        request = result["inputRequests"]["approval"]
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"].startswith("May the tool buy run, with these arg")
        assert "\x1b" not in request["params"]["message"]
        call: Any = {"name": "buy", "arguments": {"say": "x\x1b[1m"}}
        call["requestState"] = result["requestState"]
        again = client.ask("tools/call", **call)  # without an answer
        assert again["inputRequests"] == result["inputRequests"]
        call["requestState"] = again["requestState"]
        assert text(client.ask("tools/call", **call, inputResponses={"approval": ALLOWED}))
        used_up = client.ask("tools/call", **call, inputResponses={"approval": ALLOWED})
        assert used_up["code"] == rpc.INVALID_PARAMS

    @pytest.mark.parametrize("answer", [
        {"action": "decline"}, {"action": "cancel"}, {"action": "accept"},
        {"action": "accept", "content": {"allow": "true"}},
        {"action": "accept", "content": {"allow": 1}},
        {"action": "decline", "content": {"allow": True}},
    ], ids=str)  # fmt: skip
    def test_other_answers_refuse_the_call(self, asking: Host, answer: Any) -> None:
        client = McpClient(service_of(asking), NEW, {"elicitation": {}})
        state = client.call("buy")["requestState"]
        call = {"name": "buy", "requestState": state, "inputResponses": {"approval": answer}}
        result = client.ask("tools/call", **call)
        assert result["isError"] is True
        assert "did not approve" in text(result)
        self.assert_old_is_refused(asking, {"result": answer})

    def assert_old_is_refused(self, asking: Host, answer: Any) -> None:
        old = McpClient(service_of(asking), OLD, {"elicitation": {}})
        old.begin("tools/call", name="buy")
        old.send({"id": old.receive()["id"], **answer})
        assert "did not approve" in text(old.receive()["result"])

    @pytest.mark.parametrize("answer", [5, {}, {"action": "yes"}], ids=str)
    def test_what_is_no_answer_is_refused(self, asking: Host, answer: Any) -> None:
        client = McpClient(service_of(asking), NEW, {"elicitation": {}})
        state = client.call("buy")["requestState"]
        call = {"name": "buy", "requestState": state, "inputResponses": {"approval": answer}}
        assert client.ask("tools/call", **call)["code"] == rpc.INVALID_PARAMS
        call["inputResponses"] = {"approval": ALLOWED}
        assert text(client.ask("tools/call", **call)) == ""
        error = {"error": {"code": -1, "message": "no"}}
        self.assert_old_is_refused(asking, error if answer == 5 else {"result": answer})

    def test_a_state_is_for_what_was_asked(self, asking: Host) -> None:
        client = McpClient(service_of(asking), NEW, {"elicitation": {}})
        state = client.call("buy", say="a")["requestState"]
        yes = {"inputResponses": {"approval": ALLOWED}}
        for wrong in (
            {"name": "buy", "arguments": {"say": "b"}, "requestState": state},
            {"name": "ask_chat", "arguments": {"say": "a"}, "requestState": state},
            {"name": "buy", "arguments": {"say": "a"}, "requestState": state + "x"},
        ):
            assert client.ask("tools/call", **wrong, **yes)["code"] == rpc.INVALID_PARAMS
        right: Any = {"name": "buy", "arguments": {"say": "a"}, "requestState": state}
        assert text(client.ask("tools/call", **right, **yes)) == "a"

    def test_answers_alone_approve_of_nothing(self, asking: Host) -> None:
        client = McpClient(service_of(asking), NEW, {"elicitation": {}})
        request = client.ask("tools/call", name="buy", inputResponses={"approval": ALLOWED})
        assert request["resultType"] == "input_required"

    def test_calls_do_not_wait_for_ever(
        self, asking: Host, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(calls_module, "MAX_WAITING", 2)
        client = McpClient(service_of(asking), NEW, {"elicitation": {}})
        states = [client.call("buy")["requestState"] for _ in range(3)]
        yes: Any = {"name": "buy", "inputResponses": {"approval": ALLOWED}}
        answers = [client.ask("tools/call", **yes, requestState=each) for each in states]
        assert [each.get("code") for each in answers] == [rpc.INVALID_PARAMS, None, None]
        state = client.call("buy")["requestState"]
        clock.advance(601)
        assert client.ask("tools/call", **yes, requestState=state)["code"] == rpc.INVALID_PARAMS

    def test_a_human_is_asked_while_an_old_client_waits(self, asking: Host) -> None:
        client = McpClient(service_of(asking), OLD, {"elicitation": {}})
        client.begin("tools/call", name="buy", arguments={"say": "x"})
        request = client.receive()
        assert request["method"] == "elicitation/create"
        assert request["params"]["requestedSchema"]["required"] == ["allow"]
        client.send({"id": "other", "result": ALLOWED})
        client.send({"id": None, "error": {"code": -1, "message": "no"}})
        client.send({"id": request["id"], "result": ALLOWED})
        assert text(client.receive()["result"]) == "x"

    @pytest.mark.parametrize("by", ["client", "clock"])
    def test_nobody_is_asked_once_it_ends(self, asking: Host, clock: ManualClock, by: str) -> None:
        client = McpClient(service_of(asking), OLD, {"elicitation": {}})
        id = client.begin("tools/call", name="buy")
        request = client.receive()
        if by == "client":
            client.notify("notifications/cancelled", requestId=id)
        else:
            clock.wait_for_alarm_in(600)
            clock.advance(600)
        cancelled = client.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == request["id"]
        if by == "clock":
            [answer] = client.all_until(id)
            assert "did not approve" in text(answer["result"])

    def agent(self, scripted: MakeHost) -> Host:
        calls = [api.ToolCall("1", "buy", {"say": "x"}), api.ToolCall("2", "buy", {"say": "y"})]
        plugins = {
            "agent": genai_feature_agent,
            "own": InlinePlugin(tools=[tool("buy", approval="ask")]),
        }
        return scripted(ScriptedReply(tool_calls=calls), "done", plugins=plugins)

    def test_the_tools_of_an_agent_ask_as_well(self, scripted: MakeHost) -> None:
        host = self.agent(scripted)
        client = McpClient(service_of(host, model="mock"), NEW, {"elicitation": {}})
        call: Any = {"name": "ask_agent", "arguments": {"message": "hi"}}
        first = client.ask("tools/call", **call)
        assert '"say": "x"' in first["inputRequests"]["approval"]["params"]["message"]
        yes = {"inputResponses": {"approval": ALLOWED}}
        second = client.ask("tools/call", **call, **yes, requestState=first["requestState"])
        assert '"say": "y"' in second["inputRequests"]["approval"]["params"]["message"]
        result = client.ask(
            "tools/call", **call, inputResponses={"approval": {"action": "decline"}},
            requestState=second["requestState"],
        )  # fmt: skip
        assert text(result).startswith("done")
        provider: Any = host.instances["mock"].provider
        request = json.dumps(provider.requests[-1])
        assert '"x"' in request
        assert "did not approve" in request  # the other one

    def test_and_are_approved_beforehand(self, scripted: MakeHost, version: str) -> None:
        peer = McpClient(service_of(self.agent(scripted), model="mock", approved=["buy"]), version)
        result = peer.call("ask_agent", message="hi")
        assert text(result).startswith("done")
        assert result["structuredContent"]["reactions"][0]["message"] == "done"

    @pytest.mark.parametrize(
        "wait",
        [api.Pause("weather"), api.Pause("approval", {"calls": 5}), api.Pause("approval")],
        ids=str,
    )
    def test_other_pauses(self, make_client: MakeClient, wait: api.Pause[Any]) -> None:
        def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
            yield from wait
            return api.Answer("done")

        result = make_client(feature(respond), capabilities={"elicitation": {}}).call(
            "ask_f", message="hi"
        )
        assert result["isError"] is True
        assert "which is not supported here" in text(result)
