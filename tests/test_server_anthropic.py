"""Our Anthropic API: what is asked reaches the model, and what it says the client."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from attrs import frozen
from fixtures import MakeHost
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from genai_host import Config
from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from genai_host.errors import ContextOverflow, RateLimited, Unavailable
from genai_host.server import listing
from genai_host.server.anthropic.problems import problem_reply
from genai_host.server.anthropic.routes import ROUTES
from genai_host.testing import FakeModel, RouteServer

OWN = "anthropic-messages"
HI = {"role": "user", "content": "hi"}
CLOCK = {"name": "clock", "description": "the time", "input_schema": {"type": "object"}}
PNG = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"PNG").decode()}


@frozen
class Api:
    """Our API over HTTP, in front of a model."""

    url: str
    fake: FakeModel
    client: requests.Session

    def post(self, body: Any, path: str = "/v1/messages") -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body)
        return self.client.post(f"{self.url}{path}", data=data, timeout=60)

    def sent(self, *messages: Any, **more: Any) -> requests.Response:
        said = list(messages) or [HI]
        return self.post({"model": "fake", "max_tokens": 99, "messages": said, **more})

    def answered(self, *messages: Any, **more: Any) -> dict[str, Any]:
        """A reply that is none of an error."""
        reply = self.sent(*messages, **more)
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def events(self, *messages: Any, **more: Any) -> list[dict[str, Any]]:
        reply = self.sent(*messages, stream=True, **more)
        assert reply.headers["content-type"] == "text/event-stream"
        *blocks, nothing = reply.content.decode().split("\n\n")
        assert nothing == ""
        found = []
        for block in blocks:
            name, data = block.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
        return found

    def refused(self, *messages: Any, **more: Any) -> str:
        reply = self.sent(*messages, **more)
        assert reply.status_code == 400, reply.text
        assert reply.json()["type"] == "error"
        assert reply.json()["error"]["type"] == "invalid_request_error"
        message: str = reply.json()["error"]["message"]
        return message


@contextmanager
def anthropic_api(make_host: MakeHost) -> Iterator[Api]:
    fake = FakeModel()
    host = make_host(fake=fake, config=Config(models={"chat": "fake"}))
    with (
        RouteServer(
            host, (*ROUTES, *listing.ROUTES), lambda path, headers, problem: problem_reply(problem)
        ) as server,
        requests.Session() as client,
    ):
        yield Api(server.url, fake, client)


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with anthropic_api(make_host) as api:
        yield api


def block_of(events: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    return [event for event in events if event.get("index") == index]


def test_a_message(api: Api) -> None:
    api.fake.answer = lambda heard: Completion(
        Message("assistant", "hello"), usage=Usage(9, 3, cached_input=2, cache_written=1)
    )
    whole = api.answered()
    assert (whole["type"], whole["role"], whole["model"]) == ("message", "assistant", "fake")
    assert whole["content"] == [{"type": "text", "text": "hello"}]
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("end_turn", None)
    assert whole["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 2,
        "output_tokens": 3,
    }


def test_a_stream(api: Api) -> None:
    events = api.events({"role": "user", "content": "a long thing to say"})
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    pieces = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(pieces) == "a long thing to say"
    assert len(pieces) > 1
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert "output_tokens" in events[-2]["usage"]


def test_what_was_said_reaches_the_model(api: Api) -> None:
    api.answered(
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "user", "content": [{"type": "image", "source": PNG}]},
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
                {
                    "type": "document",
                    "title": "a",
                    "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                    "cache_control": {"type": "ephemeral"},
                },
            ],
        },
        {"role": "assistant", "content": "I see"},
        HI,
        system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    )
    assert api.fake.prompts[0].messages == (
        Message("system", "be brief"),
        Message("user", "look"),
        Message("user", Image(b"PNG", "image/png")),
        Message("user", [Image(url="https://x/y"), File(b"words", "text/plain", "a")]),
        Message("assistant", "I see"),
        Message("user", "hi"),
    )


def test_tools_are_offered_called_and_answered(api: Api) -> None:
    call = ToolCall("toolu_1", "clock", {"zone": "UTC"})
    api.fake.answer = lambda heard: Completion(
        Message("assistant", [Text("let me see"), call]), "tool_calls"
    )
    whole = api.answered(tools=[CLOCK], tool_choice={"type": "any"})
    assert whole["stop_reason"] == "tool_use"
    assert whole["content"][1] == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "clock",
        "input": {"zone": "UTC"},
    }
    api.fake.answer = lambda heard: "noon"
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "12", "is_error": True}
    api.answered(
        HI,
        {"role": "assistant", "content": whole["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
        tools=[CLOCK],
    )
    assert api.fake.prompts[1].messages[1:] == (
        Message("assistant", [Text("let me see"), call]),
        Message("tool", [ToolResult("toolu_1", "clock", [Text("12")], error=True)]),
        Message("user", "and?"),
    )


def test_calls_of_tools_in_a_stream(api: Api) -> None:
    calls = [ToolCall("a", "clock", {}), ToolCall("b", "clock", {"zone": "UTC"})]
    api.fake.answer = lambda heard: Completion(
        Message("assistant", [Text("so"), *calls]), "tool_calls"
    )
    events = api.events(tools=[CLOCK])
    start, piece, stop = block_of(events, 2)
    assert start["content_block"] == {"type": "tool_use", "id": "b", "name": "clock", "input": {}}
    assert json.loads(piece["delta"]["partial_json"]) == {"zone": "UTC"}
    assert stop["type"] == "content_block_stop"
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_signed_thoughts_come_back_as_they_were(api: Api) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    api.fake.answer = lambda heard: Completion(
        Message("assistant", [Reasoning("hm"), Opaque(OWN, thought), Text("so")])
    )
    whole = api.answered()
    assert whole["content"] == [thought, {"type": "text", "text": "so"}]
    api.answered(HI, {"role": "assistant", "content": whole["content"]}, HI)
    assert api.fake.prompts[1].messages[1].content == (
        Reasoning("hm"),
        Opaque(OWN, thought),
        Text("so"),
    )


def test_thoughts_are_shown_to_who_wants_to_see_them(api: Api) -> None:
    api.fake.answer = lambda heard: Completion(Message("assistant", [Reasoning("hm"), Text("so")]))
    assert [block["type"] for block in api.answered()["content"]] == ["text"]
    shown = api.answered(thinking={"type": "adaptive"})["content"]
    assert [block["type"] for block in shown] == ["thinking", "text"]


def test_a_schema_holds_the_answer(api: Api) -> None:
    api.fake.answer = lambda heard: '{"city": "Paris"}'
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    form = {"type": "json_schema", "schema": schema}
    api.answered(output_config={"format": form})
    api.answered(output_format=form)
    assert [heard.schema for heard in api.fake.prompts] == [schema, schema]


def test_parameters_have_the_hosts_names(api: Api) -> None:
    api.answered(temperature=0.5, top_p=1, stop_sequences=["end"], metadata={"user_id": "me"})
    assert api.fake.prompts[0].parameters == {
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 1,
        "stop": ["end"],
    }


def test_what_changes_nothing_is_taken(api: Api) -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}]
    more: Any = {"service_tier": "auto", "cache_control": {"type": "ephemeral"}, "speed": "fast"}
    api.answered(context_management={"edits": edits}, container=None, **more)
    assert api.fake.prompts[0].parameters == {"max_tokens": 99}


def test_clients_that_would_have_what_was_said_kept_are_told_to_send_it(api: Api) -> None:
    error = api.sent(thread={"type": "create"}).json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["details"] == {"error_code": "thread_unsupported_request"}
    assert "details" not in api.sent(max_tokens=0).json()["error"]


def test_tokens_are_counted(api: Api) -> None:
    reply = api.post({"model": "fake", "messages": [HI]}, "/v1/messages/count_tokens")
    assert reply.status_code == 200, reply.text
    assert reply.json()["input_tokens"] > 0


@pytest.mark.parametrize(
    "more",
    [
        {"messages": []},
        {"messages": [3]},
        {"messages": [{"role": "judge", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "search_result"}]}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}
            ]
        },
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [CLOCK, CLOCK]},
        {"tool_choice": {"type": "tool", "name": "other"}},
        {"max_tokens": None},
        {"max_tokens": 0},
        {"model": ""},
        {"mcp_servers": [{}]},
        {"output_config": {"format": {"type": "json_schema"}}},
        {"thinking": {"type": "deep"}},
        {"thinking": {}},
        {"tool_choice": {}},
        {"nonsense": 1},
        {"inference_geo": "us"},
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
    ],
)
def test_what_is_wrong_is_said(api: Api, more: dict[str, Any]) -> None:
    assert api.refused(**more)
    assert not api.fake.calls


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ContextOverflow("too long"), 400, "invalid_request_error"),
        (RateLimited("slow", retry_after=90), 429, "rate_limit_error"),
        (Unavailable("away"), 529, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_services(api: Api, error: Any, status: int, kind: str, stream: bool) -> None:
    api.fake.faults[0] = error
    reply = api.sent(stream=stream)
    assert reply.status_code == status
    assert reply.json()["error"]["type"] == kind
    assert reply.headers["request-id"] == reply.json()["request_id"]


def test_a_model_that_is_not_there(api: Api) -> None:
    for name in ("nobody", "feature:nobody"):
        reply = api.sent(model=name)
        assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")


def test_models_are_listed_page_by_page(api: Api) -> None:
    version = {"anthropic-version": "2023-06-01"}

    def listed(query: str) -> Any:
        return api.client.get(f"{api.url}/v1/models?{query}", headers=version).json()

    every = [each["id"] for each in listed("limit=1000")["data"]]
    assert {"fake@fake", "feature:chat"} <= {*every}
    first = listed("limit=1")
    assert first["has_more"]
    rest = listed(f"limit=1000&after_id={first['last_id']}")
    assert [each["id"] for each in first["data"] + rest["data"]] == every
    back = listed(f"limit=1&before_id={rest['first_id']}")
    assert back["data"] == first["data"]
    one = api.client.get(f"{api.url}/v1/models/fake", headers=version).json()
    assert (one["type"], one["id"]) == ("model", "fake")
    assert listed("limit=0")["error"]["type"] == "invalid_request_error"


values = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.floats(allow_nan=False)
    | some.sampled_from(["user", "assistant", "text", "tool_use", "tool_result", "auto", "", "x"]),
    lambda inner: some.lists(inner, max_size=3)
    | some.dictionaries(
        some.sampled_from(
            ["role", "content", "type", "text", "name", "id", "input", "source", "data",
             "tool_use_id", "url", "media_type", "input_schema", "format", "schema"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
fields = some.sampled_from(
    ["messages", "system", "tools", "tool_choice", "thinking", "output_config", "stop_sequences",
     "temperature", "top_k", "max_tokens", "x"]
)  # fmt: skip


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=some.dictionaries(fields, values, max_size=6) | values)
def test_whatever_comes_is_no_failure_of_the_server(api: Api, body: Any) -> None:
    if isinstance(body, dict):
        body = {"model": "fake", "max_tokens": 9, **body}
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        reply = api.post(body, path)
        assert reply.status_code < 500, reply.text
        if reply.status_code >= 400:
            assert reply.json()["error"]["message"]
