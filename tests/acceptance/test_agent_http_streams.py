"""Acceptance, agent.md: what the agent tells over HTTP while it is at work."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from agent_fronts import PATHS, SESSION, dial, http_host, post
from ai_sdk_lines import Line, read_lines
from attrs import evolve

from genai_host import Message
from genai_host.api import (
    Cancellation,
    Citation,
    Completion,
    RouteRequest,
    StreamedBody,
    Text,
    ToolCall,
    ToolContext,
    ToolOutput,
)
from genai_host.api.stream_parsers import read_sse
from genai_host.errors import ServiceUnavailable
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.agents import Counting, calls, in_turn
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

LINES = f"{PATHS[0]}-streaming"
EVENTS = {"accept": "text/event-stream"}


def lines(server: RouteServer, path: str = LINES, **body: Any) -> list[Line]:
    reply = post(server, {"session_id": SESSION, **body}, path, stream=True)
    assert reply.status_code == 200
    assert reply.headers["x-vercel-ai-data-stream"] == "v1"
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    return list(read_lines(reply.iter_content(7)))


def events(server: RouteServer, **body: Any) -> list[Line]:
    """The same as server-sent events, in the words of the lines."""
    reply = post(server, {"session_id": SESSION, **body}, headers=EVENTS, stream=True)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/event-stream"
    lines = []
    for event in read_sse(reply.iter_content(7)):
        data = json.loads(event.data)
        if event.name in ("text", "error"):
            data = data["text" if event.name == "text" else "message"]
        lines.append(Line(str(event.name), [data] if event.name == "data" else data))
    return lines


@pytest.mark.parametrize("hear", [lines, events])
class TestItem11:
    def test_item_11_a_turn_as_it_goes(self, make_host: MakeHost, hear: Any) -> None:
        output = ToolOutput("found", reactions=[{"type": "x", "n": 1}])
        host = http_host(
            make_host,
            in_turn(calls("look", text="I look.", at="x"), "It is\ndone."),
            Counting("look", output),
        )
        with RouteServer(host) as server:
            lines = hear(server)
        assert [each.kind for each in lines if each.kind != "text"] == [
            *("start", "tool-call", "tool-result", "data", "data", "finish")
        ]
        by_kind = {each.kind: each.data for each in lines}  # of those that come twice, the last
        assert by_kind["start"]["messageId"]
        assert by_kind["tool-call"] == {
            "toolCallId": "look-0", "toolName": "look", "args": {"at": "x"},
        }  # fmt: skip
        assert by_kind["tool-result"] == {"toolCallId": "look-0", "result": "found"}
        reaction, [state] = (each.data for each in lines if each.kind == "data")
        assert reaction == [{"type": "reaction", "value": {"type": "x", "n": 1}}]
        assert (state["type"], state["version"], len(state["value"]["history"])) == ("state", 1, 4)
        assert state["value"]["session_id"] == SESSION
        assert [each["type"] for each in state["value"]["reactions"]] == ["message"] * 2 + ["x"]
        assert by_kind["finish"]["finishReason"] == "stop"
        assert set(by_kind["finish"]["usage"]) == {"promptTokens", "completionTokens"}
        texts = [number for number, each in enumerate(lines) if each.kind == "text"]
        assert "".join(lines[number].data for number in texts) == "I look.It is\ndone."
        kinds = [each.kind for each in lines]
        assert texts[0] < kinds.index("tool-call") < texts[-1] < len(kinds) - 2

    def test_item_11_errors_break_no_connection(self, make_host: MakeHost, hear: Any) -> None:
        model = in_turn(calls("look"), "not reached")
        model.faults[1] = ServiceUnavailable("as told")
        with RouteServer(http_host(make_host, model, Counting("look"))) as server:
            lines = hear(server)
        assert [each.kind for each in lines][-3:] == ["error", "data", "finish"]
        assert lines[-3].data == "as told"
        [state] = lines[-2].data
        assert state["value"]["error"]["code"] == "unavailable"
        assert len(state["value"]["history"]) == 3
        assert lines[-1].data["finishReason"] == "error"
        assert [each.kind for each in lines].count("finish") == 1

    def test_item_11_a_turn_that_waits_says_for_what(self, make_host: MakeHost, hear: Any) -> None:
        wipe = Counting("wipe", approval="ask")
        with RouteServer(http_host(make_host, in_turn(calls("wipe")), wipe)) as server:
            lines = hear(server)
        assert [each.kind for each in lines] == ["start", "tool-call", "data", "finish"]
        assert lines[-2].data[0]["value"]["approvals"][0]["id"] == "wipe-0"
        assert lines[-1].data["finishReason"] == "tool-calls"

    def test_item_11_texts_keep_their_lines(self, make_host: MakeHost, hear: Any) -> None:
        wrong = ToolCall("1\n", "lo\nok", {}, "no JSON\n0:")
        hostile = "d:{}\n\ndata: x\r\n\r\u2028\u0085\ud800\x00"
        model = in_turn(Completion(Message("assistant", [hostile, wrong]), "tool_calls"), hostile)
        with RouteServer(http_host(make_host, model)) as server:
            lines = hear(server)
        text = "".join(each.data for each in lines if each.kind == "text")
        assert text == hostile.replace("\ud800", "\ufffd") * 2
        assert [each.kind for each in lines].count("finish") == 1
        [call] = [each.data for each in lines if each.kind == "tool-call"]
        assert call == {"toolCallId": "1\n", "toolName": "lo\nok", "args": {}}


def test_cited_pages(make_host: MakeHost) -> None:
    """Front ends refuse lines of other codes than those that they know."""
    urls = ["https://a.example", "javascript:alert(1)", "https://a.example"]
    said = Text("It is cold.", citations=[Citation(url, "A") for url in urls])
    model = FakeModel(lambda prompt: Completion(Message("assistant", said)))
    with RouteServer(http_host(make_host, model)) as server:
        named, coded = events(server), lines(server)
    source = Line("source", {"url": "https://a.example", "title": "A"})
    assert [each for each in named if each.kind == "source"] == [source]
    assert {each.kind for each in coded} == {each.kind for each in named} - {"source"}
    [state] = coded[-2].data
    [part] = state["value"]["history"][-1]["parts"]
    assert [each["url"] for each in part["citations"]] == urls


class TestItem11Leaving:
    @pytest.mark.parametrize(
        ("path", "accept"),
        [(PATHS[0], "*/*"), (PATHS[0], EVENTS["accept"]), (LINES, "*/*")],
        ids=["whole", "events", "lines"],
    )
    def test_item_11_who_leaves_ends_it(self, make_host: MakeHost, path: str, accept: str) -> None:
        begun, ended, cancelled = threading.Event(), threading.Event(), threading.Event()

        def work(arguments: Any, run: ToolContext) -> str:
            with run.limits.on_cancel(cancelled.set):
                begun.set()
                cancelled.wait(60)
            ended.set()
            return "done"

        tool = Counting("work")
        tool.tool = evolve(tool.tool, run=work)
        model = in_turn(calls("work"), "not reached")
        body = b'{"message": "hi"}'
        head = f"POST {path} HTTP/1.1\r\naccept: {accept}\r\ncontent-length: {len(body)}\r\n\r\n"
        with RouteServer(http_host(make_host, model, tool)) as server:
            with dial(server) as client:
                client.sendall(head.encode() + body)
                assert begun.wait(60)
                assert not cancelled.is_set()
            assert ended.wait(60)
        assert cancelled.is_set()
        assert model.calls == 1

    def test_item_11_a_stream_that_nobody_reads_ends_its_turn(self, make_host: MakeHost) -> None:
        tool = Counting("look")
        host = http_host(make_host, in_turn(calls("look"), "not reached"), tool)
        with Cancellation() as limits:
            request = RouteRequest("POST", LINES, body=b'{"message": "hi"}', limits=limits)
            reply = HttpRoutes(host).answer(request)
        assert isinstance(reply.body, StreamedBody)
        reply.body.close()
        assert tool.calls == []
        assert b"".join(reply.body) == b""

    def test_item_11_who_wants_events_gets_them(self, make_host: MakeHost) -> None:
        kinds = {
            "text/event-stream": "text/event-stream",
            "Text/Event-Stream; q=0.9, application/json; q=0.1": "text/event-stream",
            "application/json, text/event-stream": "application/json",
            "*/*": "application/json",
        }
        with RouteServer(http_host(make_host, in_turn("hello"))) as server:
            for accept, kind in kinds.items():
                reply = post(server, headers={"accept": accept})
                assert reply.headers["content-type"] == kind
            reply = post(server, path=f"{PATHS[1]}-streaming", headers=EVENTS)
            assert reply.headers["content-type"] == "text/plain; charset=utf-8"
