"""Acceptance, agent.md: the agent over HTTP, as its front end sees it."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import genai_feature_agent
import pytest
import requests
from agent_fronts import PATHS, SESSION, USER, ask, dial, http_host, post
from attrs import evolve
from genai_feature_agent.request import AgentRequest, StatelessAgent
from hypothesis import given, strategies as st

from genai_host import Conversation, Host, Message
from genai_host.api import Completion, Image, Text, ToolCall, ToolContext
from genai_host.calls.agent import Agent
from genai_host.conversations.driver import Driver
from genai_host.errors import GenaiError, RateLimited, ServiceUnavailable
from genai_host.store import Store
from genai_host_testing import FakeModel, RecordedPrompt, RouteServer
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.internal.agents import Counting, calls, in_turn, since_user
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


class TestItem01:
    @pytest.mark.parametrize("path", PATHS)
    def test_item_01_reactions_history_and_session(self, make_host: MakeHost, path: str) -> None:
        with RouteServer(http_host(make_host, in_turn("hello"))) as server:
            body = {"message": "hi", "context": {}, "history": [], "session_id": SESSION}
            reply = post(server, body, path)
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json() == {
            "reactions": [{"type": "message", "message": "hello"}],
            "history": [USER, {"role": "assistant", "content": "hello"}],
            "session_id": SESSION,
        }

    @pytest.mark.parametrize("path", [PATHS[0], f"{PATHS[0]}-streaming"])
    @pytest.mark.parametrize(("body", "place"), [
        (b'{"message": " \\n"}', "$.message"),
        (b"{}", "$.message"),
        (b'{"message": "hi", "message": ""}', "$.message"),  # of two, the last
        (b'{"message": "hi", "approvals": []}', "$.approvals"),
        (b'{"message": "hi", "model": "fake"}', "$.model"),
        (b'{"message": "hi", "model": ["quick"]}', "$.model"),
        (b'{"message": "hi", "context": {"a": NaN}}', "$"),
        (b'{"message": "hi", "context": {"a": 1e999}}', "$"),
        (b'{"message": "hi", "context": {"a": %s}}' % (b"9" * 5000), "$"),
        (b'{"message": "hi", "context": %s}' % (b"[" * 100_000), "$"),
        (b'{"message": "hi", "context": {"a": %s}}' % (b"[" * 100 + b"]" * 100), "$.context"),
        (b'{"message": "hi", "history": %s}' % (b"[" * 101 + b"]" * 101), "$.history"),
        (b'["hi"]', "$"),
        (b'"hi"', "$"),
        (b"", "$"),
        (b"message=hi", "$"),
        (b'{"message": "\xff"}', "$"),
    ], ids=lambda value: repr(value[:50]) if isinstance(value, bytes) else "")  # fmt: skip
    def test_item_01_what_is_no_request_calls_no_model(
        self, make_host: MakeHost, body: bytes, place: str, path: str
    ) -> None:
        model = in_turn("hello")
        with RouteServer(http_host(make_host, model)) as server:
            reply = post(server, body, path)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert (error["code"], error["path"]) == ("invalid_data", place)
        assert model.calls == 0

    @pytest.mark.parametrize(("history", "place"), [
        ([{"role": "user", "content": ""}] * 2_500, "$.history"),
        ([USER] * 1001, "$.history"),
        ([USER, {"role": "user", "content": "x" * 1_000_000}], "$.history[1]"),
        ([{"role": "user", "content": "x" * 90_000}] * 12, "$.history[11]"),
        ([{**USER, "parts": [{"type": "text", "text": "x" * 1_000_000}]}], "$.history[0]"),
    ], ids=["blank", "many", "long", "long together", "parts"])  # fmt: skip
    def test_item_01_endless_history(self, make_host: MakeHost, history: Any, place: str) -> None:
        model = in_turn("hello")
        with RouteServer(http_host(make_host, model)) as server:
            reply = post(server, {"history": history})
        assert reply.status_code == 400
        assert reply.json()["error"]["path"] == place
        assert "oldest" in reply.json()["error"]["hint"]
        assert model.calls == 0

    def test_item_01_contexts_are_bounded_pictures_no_text(self, make_host: MakeHost) -> None:
        model = in_turn("hello")
        picture = {"type": "image", "data": "AAAA" * 500_000, "media_type": "image/png"}
        with RouteServer(http_host(make_host, model)) as server:
            wide: Any
            for wide in ([1] * 1_000_000, [[]] * 500_000, {"x" * 1_000_000: None}):
                reply = post(server, {"context": {"wide": wide}})
                assert reply.status_code == 400
                assert reply.json()["error"]["path"] in ("$", "$.context")  # the body has too many
            assert model.calls == 0
            assert post(server, {"history": [{**USER, "parts": [picture]}]}).status_code == 200
            assert post(server, {"context": {"parts": [picture]}}).status_code == 400

    @pytest.mark.parametrize(
        ("header", "status"),
        [("content-length: 999999999", 413), ("transfer-encoding: chunked", 411)],
    )
    def test_item_01_endless_body(self, make_host: MakeHost, header: str, status: int) -> None:
        with RouteServer(http_host(make_host, in_turn("hello"))) as server, dial(server) as client:
            client.sendall(f"POST {PATHS[0]} HTTP/1.1\r\n{header}\r\n\r\n".encode())
            response = b"".join(iter(lambda: client.recv(4096), b""))  # until it is closed
        assert response.startswith(b"HTTP/1.1 %d " % status)

    def test_item_01_a_host_without_a_model_says_so(self, make_host: MakeHost) -> None:
        host = make_host(agent=genai_feature_agent, mock=None)
        with RouteServer(host) as server:
            for path in (PATHS[0], f"{PATHS[0]}-streaming"):
                reply = post(server, path=path)
                assert reply.status_code == 503
                assert reply.json()["error"]["code"] == "no_route"
                assert reply.json()["error"]["hint"]

    def test_item_01_a_request_widens_nothing(self, make_host: MakeHost) -> None:
        model = FakeModel(lambda prompt: calls("look", prefix=f"{prompt.number}-"))
        wider = {"round_trips": 50, "settings": {"round_trips": 50}, "caps": {"round_trips": 50}}
        with RouteServer(http_host(make_host, model, Counting("look"))) as server:
            post(server, {**wider, "context": wider})
            assert model.calls == 6

    def test_item_01_the_user_says_which_models_may_be_asked_for(self, make_host: MakeHost) -> None:
        model = in_turn("hello")
        with RouteServer(http_host(make_host, model)) as server:
            assert ask(server, model="quick")["history"][-1]["content"] == "hello"
        assert model.calls == 1


class TestItem02:
    def test_item_02_interleaved_conversations_are_as_if_alone(self, make_host: MakeHost) -> None:
        def talk(server: RouteServer, name: str) -> Iterator[dict[str, Any]]:
            history: Any = []
            for number in range(3):
                reply = ask(server, f"{name}{number}", history=history, session_id=SESSION)
                history = reply["history"]
                yield reply

        alone = []
        for name in "ab":
            with RouteServer(_repeating(make_host)) as server:
                alone.append(list(talk(server, name)))
        with RouteServer(_repeating(make_host)) as server:
            together = list(zip(talk(server, "a"), talk(server, "b"), strict=True))
        assert [list(each) for each in zip(*together, strict=True)] == alone
        assert "a0 a1 a2" in str(alone[0][-1]["reactions"])
        assert "b0" not in str(alone[0][-1]["history"])

    def test_item_02_many_keep_and_mix_nothing(self, make_host: MakeHost, tmp_path: Any) -> None:
        all_there = threading.Barrier(200)

        def look(arguments: Any, run: ToolContext) -> str:
            all_there.wait(60)
            return str(run.context["name"])

        def talk(name: str) -> dict[str, Any]:
            return ask(server, name, history=[USER], context={"name": name}, session_id=SESSION)

        with Store(tmp_path / "x.db") as store:
            host = _repeating(make_host, look, store=store)
            with RouteServer(host) as server, ThreadPoolExecutor(200) as threads:
                before = kept()
                names = [f"n{number}" for number in range(200)]
                results = list(threads.map(talk, names))
                assert kept() <= before
            assert host.conversations() == []
        for name, reply in zip(names, results, strict=True):
            assert [each["content"] for each in reply["history"]] == [
                *("hi", name, "", name, f"hi {name}")
            ]


def _repeating(make_host: MakeHost, look: Any = "found", **options: Any) -> Host:
    """Looks once, then says all that users have said."""

    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        if not since_user(prompt):
            return calls("look")
        texts = [each.content[-1] for each in prompt.messages if each.role == "user"]
        return " ".join(part.text for part in texts if isinstance(part, Text))

    tool = Counting("look", look, idempotent=True)
    if callable(look):
        tool.tool = evolve(tool.tool, run=look)
    return http_host(make_host, FakeModel(answer), tool, **options)


def kept() -> set[Any]:
    """What of conversations is in memory."""
    gc.collect()
    kinds = (Conversation, Agent, Driver, AgentRequest, StatelessAgent)
    return {id(each) for each in gc.get_objects() if type(each) in kinds}


class TestItem04:
    @pytest.mark.parametrize("path", PATHS)
    def test_item_04_six_calls_and_the_history_so_far(self, make_host: MakeHost, path: str) -> None:
        model = FakeModel(lambda prompt: calls("look", prefix=f"{prompt.number}-"))
        with RouteServer(http_host(make_host, model, Counting("look", "found"))) as server:
            reply = post(server, {"session_id": SESSION}, path)
        assert (reply.status_code, model.calls) == (422, 6)
        body = reply.json()
        assert body["error"]["code"] == "limit_exceeded"
        assert "model calls (6)" in body["error"]["message"]
        assert body["error"]["hint"]
        assert len(body["history"]) == 13
        assert body["session_id"] == SESSION

    @pytest.mark.parametrize(("error", "status"), [
        (ServiceUnavailable("as told"), 503),
        (RateLimited("as told"), 429),
    ], ids=["unavailable", "limited"])  # fmt: skip
    def test_item_04_a_failure_of_the_service_has_its_status_and_the_history(
        self, make_host: MakeHost, error: GenaiError, status: int
    ) -> None:
        model = in_turn(calls("look"), "not reached")
        model.faults[1] = error
        with RouteServer(http_host(make_host, model, Counting("look", "found"))) as server:
            reply = post(server)
        assert reply.status_code == status
        assert reply.json()["error"]["message"] == "as told"
        roles = [each["role"] for each in reply.json()["history"]]
        assert roles == ["user", "assistant", "tool"]

    def test_item_04_a_model_that_says_nothing_is_at_fault(self, make_host: MakeHost) -> None:
        with RouteServer(http_host(make_host, in_turn(" "))) as server:
            assert post(server).status_code == 502


class TestItem10:
    def test_item_10_the_history_of_a_reply_works(self, make_host: MakeHost) -> None:
        wrong = ToolCall("1", "look", {}, '{"at": ')
        picture = Image(data=b"\x00\xff", media_type="image/png")
        model = in_turn(
            Completion(Message("assistant", ["I look. \u2028", wrong]), "tool_calls"),
            calls("look", "draw", at="\ud800 \x00 \U0001f600"), "done", "and again",
        )  # fmt: skip
        tools = Counting("look", "found"), Counting("draw", [picture, "a picture"])
        with RouteServer(http_host(make_host, model, *tools)) as server:
            first = ask(server)
            history = json.dumps(first["history"], indent=3, sort_keys=True)  # as another writes
            again = post(server, b'{"history": %s,\n"message": "again"}' % history.encode())
        assert again.status_code == 200
        assert again.json()["history"][: len(first["history"])] == first["history"]
        before, now = model.prompts[2].messages, model.prompts[3].messages
        assert now[: len(before)] == before

    def test_item_8_an_approval_needs_no_message(self, make_host: MakeHost) -> None:
        wipe = Counting("wipe", "wiped", approval="ask")
        model = in_turn(calls("wipe", what="all"), "so it is")
        with RouteServer(http_host(make_host, model, wipe)) as server:
            first = ask(server)
            decided = {"message": None, "approvals": {"wipe-0": True}}
            second = post(server, {**decided, "history": first["history"]}).json()
            unasked = post(server, {**decided, "history": second["history"]})
        assert wipe.calls == [{"what": "all"}]
        assert [each["role"] for each in second["history"]] == [
            "user", "assistant", "tool", "assistant",
        ]  # fmt: skip
        assert second["history"][-1]["content"] == "so it is"
        assert unasked.status_code == 400  # nothing waits for it


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_IDS = st.sampled_from(["1", "2", ""])
_CALLS = st.fixed_dictionaries(
    {}, optional={"id": _IDS | _JSON, "name": st.just("look") | _JSON, "arguments": _JSON}
)
_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]) | _JSON},
    optional={
        "content": st.text(max_size=5) | _JSON, "tool-calls": st.lists(_CALLS, max_size=2) | _JSON,
        "tool-call-id": _IDS, "parts": _JSON, "error": st.booleans() | _JSON,
    },
)  # fmt: skip
_BODIES = st.fixed_dictionaries(
    {"message": st.text(max_size=5) | _JSON},
    optional={
        "context": st.dictionaries(st.text(max_size=5), _JSON) | _JSON,
        "history": st.lists(_MESSAGES, max_size=4) | _JSON,
        "session_id": st.just(SESSION) | _JSON,
        "approvals": st.dictionaries(_IDS, st.booleans()) | _JSON,
        "model": st.just("quick") | _JSON,
    },
)


def test_item_01_no_body_is_a_fault_of_the_server(make_host: MakeHost) -> None:
    model = in_turn("hello")

    with RouteServer(http_host(make_host, model, Counting("look"))) as server:

        @given(_BODIES.map(lambda body: json.dumps(body).encode()) | st.binary())
        def check(body: bytes) -> None:
            before = model.calls
            reply = session.post(f"{server.url}{PATHS[0]}", data=body, timeout=60)
            assert reply.status_code in (200, 400), reply.text
            assert model.calls == before + (reply.status_code == 200)
            if reply.status_code == 400:
                assert reply.json()["error"]["path"].startswith("$")

        with requests.Session() as session:
            check()
