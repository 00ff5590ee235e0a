"""The provider `anthropic` over sockets: requests and replies."""

from __future__ import annotations

from typing import Any

import genai_vendor_anthropic
import pytest

from genai_host import Config, Host, api, errors
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import ask, each_way, listed
from genai_host_testing.services.anthropic import CALLED, KEY, THOUGHT, claude
from genai_host_testing.services.openai import LOOKING

pytestmark = pytest.mark.part

VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


class Hosts:
    """Makes hosts with the provider at the service: `hosts(version="2023-06-01")`."""

    def __init__(
        self, make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._make_host = make_host
        self._service = service
        self._monkeypatch = monkeypatch

    def __call__(self, key: str = "ANTHROPIC_API_KEY", **settings: Any) -> Host:
        self._monkeypatch.setenv(key, KEY)
        self._monkeypatch.setenv("ANTHROPIC_BASE_URL", self._service.url)
        instance = provider_config("anthropic", **settings)
        host = self._make_host(
            config=Config(providers={"anthropic": instance}),
            anthropic=genai_vendor_anthropic,
            look=LOOKING,
        )
        assert host.plugins.broken == []
        return host


@pytest.fixture
def hosts(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(make_host, service, monkeypatch)


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return hosts()


@pytest.mark.parametrize(("model", "id"), [
    ("claude-sonnet-5-5", "claude-sonnet-5-5"),
    ("claude-haiku-4-5@anthropic", "claude-haiku-4-5-20251001"),
    ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
    ("anthropic/claude-of-tomorrow", "claude-of-tomorrow"),
])  # fmt: skip
@each_way
def test_it_answers(host: Host, service: FakeService, model: str, id: str, streamed: bool) -> None:
    service.replies = [claude("hello", streamed=streamed)]
    assert ask(host, model, streamed) == "hello"
    (sent,) = service.requests
    assert (sent.method, sent.path) == ("POST", "/v1/messages")
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["anthropic-version"] == "2026-10-21"
    assert not {"authorization", "anthropic-beta"} & sent.headers.keys()
    body = sent.json()
    assert (body["model"], body["max_tokens"]) == (id, 16_000)
    assert body.get("stream", False) is streamed


def test_a_model_is_chosen_where_none_is_named(host: Host, service: FakeService) -> None:
    service.replies = [claude("hello")]
    host.open("chat", provider="anthropic").say("hi")
    assert service.requests[0].json()["model"] == "claude-opus-5-5"


@each_way
def test_a_tool_is_used(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [claude(call=True, streamed=streamed), claude("fine", streamed=streamed)]
    assert ask(host, "claude-sonnet-5-5", streamed, "look").endswith("fine")
    first, second = (request.json() for request in service.requests)
    assert first["tool_choice"] == {"type": "auto"}
    assert second["messages"][1:] == [
        {"role": "assistant", "content": [THOUGHT, CALLED]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "é is fine"}]},
    ]  # fmt: skip


def test_a_schema_is_held_to(host: Host, service: FakeService) -> None:
    service.replies = [claude('{"city":"Oslo"}')]
    assert host.open("chat", "claude-haiku-5-5").say("hi", output_type=CITY).data == {
        "city": "Oslo"
    }
    assert service.requests[0].json()["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {**CITY, "additionalProperties": False},
    }


def test_pictures_and_documents_are_sent(host: Host, service: FakeService) -> None:
    service.replies = [claude("hello")]
    message = api.Message(
        "user", ["a", api.Image(url="http://x"), api.File(b"%PDF", "application/pdf", "b")]
    )
    host.open("chat", "claude-sonnet-5-5").say(message)
    (sent,) = service.requests[0].json()["messages"]
    assert [part["type"] for part in sent["content"]] == ["text", "image", "document"]


def test_how_much_it_thinks_is_said_as_each_model_has_it(host: Host, service: FakeService) -> None:
    service.replies = [claude("a")] * 4
    high, none = {"reasoning_effort": "high"}, {"reasoning_effort": "none"}
    ask(host, "claude-opus-5-5", parameters=high)
    ask(host, "claude-sonnet-5-5", parameters=none)
    ask(host, "claude-haiku-5-5", parameters=none)
    ask(host, "claude-haiku-4-5", parameters={"thinking_budget": 2000})
    bodies = [request.json() for request in service.requests]
    assert [body["thinking"]["type"] for body in bodies] == [
        "adaptive", "between_tools", "disabled", "enabled",
    ]  # fmt: skip
    assert bodies[0]["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(("model", "parameters"), [
    ("claude-opus-5-5", {"reasoning_effort": "none"}),
    ("claude-opus-5-5", {"thinking_budget": 2000}),
    ("claude-opus-5-5", {"temperature": 0}),
    ("claude-haiku-4-5", {"temperature": 0}),  # which the version of the API refuses
    ("claude-haiku-4-5", {"reasoning_effort": "low"}), ("claude-haiku-4-5", {"max_tokens": 64_001}),
    ("claude-sonnet-4-6", {"reasoning_effort": "xhigh"}), ("claude-opus-5-5", {"seed": 1}),
], ids=str)  # fmt: skip
def test_what_a_model_refuses_is_not_sent(
    host: Host, service: FakeService, model: str, parameters: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidParameter):
        host.open("chat", model, parameters=parameters)
    assert not service.requests


# settings


def test_older_version_takes_sampling_parameters(hosts: Hosts, service: FakeService) -> None:
    host = hosts(version="2023-06-01")
    service.replies = [claude("a")]
    ask(host, "claude-haiku-4-5", parameters={"temperature": 0, "top_k": 3})
    (sent,) = service.requests
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert (sent.json()["temperature"], sent.json()["top_k"]) == (0, 3)
    with pytest.raises(errors.InvalidParameter):
        host.open("chat", "claude-opus-5-5", parameters={"temperature": 0})


def test_a_token_is_sent_where_there_is_no_key(hosts: Hosts, service: FakeService) -> None:
    service.replies = [claude("a")]
    ask(hosts("ANTHROPIC_AUTH_TOKEN"), "claude-opus-5-5")
    headers = service.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in headers


def test_key_before_token(
    hosts: Hosts, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-canary")
    service.replies = [claude("a")]
    ask(hosts(), "claude-opus-5-5")
    headers = service.requests[0].headers
    assert headers["x-api-key"] == KEY
    assert "authorization" not in headers


def test_previews_are_named(hosts: Hosts, service: FakeService) -> None:
    service.replies = [claude("a")]
    ask(hosts(betas=["one-2026-01-01", "two-2026-02-02"]), "claude-opus-5-5")
    assert service.requests[0].headers["anthropic-beta"] == "one-2026-01-01,two-2026-02-02"


def test_stale_thoughts_are_dropped_on_request(hosts: Hosts, service: FakeService) -> None:
    host = hosts(betas=["one-2026-01-01"], drop_stale_thinking=True)
    service.replies = [claude("a")] * 2
    ask(host, "claude-opus-5-5")
    ask(host, "claude-opus-5")  # whose thoughts are not bound to anything
    bound, other = service.requests
    assert bound.headers["anthropic-beta"] == "one-2026-01-01,thinking-binding-controls-2026-08-01"
    assert bound.json()["thinking"] == {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert "thinking" not in other.json()


def test_a_service_elsewhere_may_lack_something(hosts: Hosts, service: FakeService) -> None:
    host = hosts(lacks=["schema"], cache="blocks")
    service.replies = [claude('{"city":"Oslo"}')]
    conversation = host.open("chat", "anthropic/qwen", parameters={"prompt_cache": "5m"})
    assert conversation.say("hi", output_type=CITY).data == {"city": "Oslo"}
    body = service.requests[0].json()
    assert "output_config" not in body
    assert "JSON Schema" in str(body["system"])
    assert body["messages"][-1]["content"][-1]["cache_control"]["ttl"] == "5m"


def test_it_says_that_it_has_no_key(make_host: MakeHost) -> None:
    with pytest.raises(errors.NoRoute, match="no key: set ANTHROPIC_API_KEY"):
        make_host(anthropic=genai_vendor_anthropic).open("chat", "claude-opus-5-5")


def test_a_server_elsewhere_needs_no_key(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
    service.replies = [claude("hello")]
    assert ask(make_host(anthropic=genai_vendor_anthropic), "anthropic/qwen") == "hello"
    assert not {"authorization", "x-api-key"} & service.requests[0].headers.keys()


def test_it_is_patient_with_models_that_think(host: Host) -> None:
    assert host.instances["anthropic"].provider.call_limits["first_token_timeout"] >= 300


def test_a_cloud_is_served_by_its_description(make_host: MakeHost, service: FakeService) -> None:
    """As those do that have the model in the path, and the version in the body."""
    cloud = api.http_provider(
        "cloud",
        service.url,
        {
            "anthropic-messages": api.DialectEndpoint(
                "/model/{model}/invoke", stream_path="/model/{model}/invoke-with-response-stream",
                extra_fields={"anthropic_version": "bedrock-2023-05-31"},
                omit_fields=["model", "stream"], variant={"cache": "blocks"},
            )
        },
    )  # fmt: skip
    offered = api.Offering("claude-opus-5-5", "cloud", "anthropic.claude-opus-5-5")
    host = make_host(
        anthropic=genai_vendor_anthropic, cloud=InlinePlugin(providers=[cloud], offerings=[offered])
    )
    for streamed, path in ((False, "invoke"), (True, "invoke-with-response-stream")):
        service.replies = [claude("hello", streamed=streamed)]
        assert ask(host, "claude-opus-5-5@cloud", streamed) == "hello"
        sent = service.requests[-1]
        assert sent.path == f"/model/anthropic.claude-opus-5-5/{path}"
        body = sent.json()
        assert body.keys() == {"max_tokens", "system", "messages", "anthropic_version"}
        assert body["anthropic_version"] == "bedrock-2023-05-31"


# its models


def _capable(**supported: bool) -> dict[str, Any]:
    return {name: {"supported": value} for name, value in supported.items()}


def test_its_models_are_listed_page_by_page(host: Host, service: FakeService) -> None:
    capabilities = _capable(image_input=True, pdf_input=False, thinking=True, batch=True)
    service.replies = [
        json_reply({"data": [{"id": "claude-a", "capabilities": capabilities,
                              "max_input_tokens": 1_000_000}],
                    "has_more": True, "first_id": "claude-a", "last_id": "claude-a"}),
        json_reply({"data": [{"id": "claude-b"}], "has_more": False, "last_id": "claude-b"}),
    ]  # fmt: skip
    assert listed(host, "anthropic") == [
        api.ListedModel(
            "claude-a", capabilities={"tools", "images", "reasoning"}, window=1_000_000
        ),
        api.ListedModel("claude-b"),
    ]
    first, second = service.requests
    assert (first.method, first.path) == ("GET", "/v1/models?limit=1000")
    assert second.path == "/v1/models?limit=1000&after_id=claude-a"


@pytest.mark.parametrize(
    "page", [[], {}, {"data": 1}, {"data": [1]}, {"data": [{}]}, {"data": [{"id": 1}]}], ids=str
)
def test_malformed_list_of_models(host: Host, service: FakeService, page: Any) -> None:
    service.replies = [json_reply(page)]
    with pytest.raises(errors.MalformedReply):
        listed(host, "anthropic")


def test_a_list_without_end_is_left(host: Host, service: FakeService) -> None:
    service.replies = [json_reply({"data": [], "has_more": True, "last_id": "a"})]
    assert listed(host, "anthropic") == []
    assert len(service.requests) == 100
