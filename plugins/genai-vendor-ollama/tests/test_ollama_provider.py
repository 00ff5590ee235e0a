"""The provider `ollama` over sockets: requests and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import genai_vendor_ollama
import pytest
import requests

from genai_host import Config, Host, RetryPolicy, errors
from genai_host.api import Image, ListedModel, Message, ProviderReply, Usage
from genai_host_testing import RouteServer
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import VECTORS, answered, ask, each_way, listed
from genai_host_testing.services.ollama import KEY, chat, embeddings, failure
from genai_host_testing.services.openai import LOOKING

pytestmark = pytest.mark.part

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class Hosts:
    """Makes hosts whose `ollama` has these settings."""

    def __init__(self, make_host: MakeHost, url: str) -> None:
        self._make_host = make_host
        self._url = url

    def __call__(self, **settings: Any) -> Host:
        provider = provider_config("ollama", **{"base_url": self._url, **settings})
        return self._make_host(
            config=Config(providers={"ollama": provider}),
            patience=ONCE, ollama=genai_vendor_ollama, look=LOOKING, vectors=VECTORS,
        )  # fmt: skip


@pytest.fixture
def hosts(make_host: MakeHost, service: FakeService) -> Hosts:
    return Hosts(make_host, service.url)


@pytest.fixture
def host(hosts: Hosts) -> Host:
    new_host = hosts()
    assert new_host.plugins.broken == []
    return new_host


@pytest.mark.parametrize("model", ["ollama/m:1", "qwen3-8b@ollama"])
@each_way
def test_it_answers(host: Host, service: FakeService, model: str, streamed: bool) -> None:
    service.replies = [chat("hello é", streamed=streamed)]
    assert ask(host, model, streamed) == "hello é"
    (sent,) = service.requests
    assert (sent.method, sent.path) == ("POST", "/api/chat")
    assert sent.headers["content-type"] == "application/json"
    assert "authorization" not in sent.headers
    assert (sent.json()["stream"], sent.json()["truncate"]) == (streamed, False)


@each_way
def test_a_tool_is_used(host: Host, service: FakeService, streamed: bool) -> None:
    replies = [chat(call=True, streamed=streamed), chat("fine", streamed=streamed)]
    service.replies = [*replies, *replies]
    conversation = host.open("look", "ollama/m:1")
    for _ in range(2):
        if streamed:
            list(conversation.stream("hi"))
        else:
            conversation.say("hi")
    calls = [call.id for message in conversation.history for call in message.tool_calls]
    assert calls == ["call_0", "call_1"]  # each is one of its own
    assert service.requests[1].json()["messages"][1:] == [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_0", "function": {"name": "look", "arguments": {"at": "é"}}}]},
        {"role": "tool", "content": "é is fine", "tool_name": "look", "tool_call_id": "call_0"},
    ]  # fmt: skip


def test_a_schema_is_held_to(host: Host, service: FakeService) -> None:
    city = {"type": "object", "properties": {"city": {"type": "string"}}}
    service.replies = [chat('{"city":"Oslo"}')]
    assert host.open("chat", "ollama/m").say("hi", output_type=city).data == {"city": "Oslo"}
    assert service.requests[0].json()["format"] == city


@each_way
def test_thinking_and_tokens(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [chat("hello", streamed=streamed, thinking="hm")]
    answer = answered(host, "ollama/m", streamed, parameters={"think": "high"})
    assert (answer.text, answer.usage) == ("hello", Usage(3, 2))
    assert service.requests[0].json()["think"] == "high"


NO_THINKING = json_reply({"error": '"m" does not support thinking'}, 400)


@each_way
@pytest.mark.parametrize("name", ["reasoning_effort", "think"])
def test_model_without_effort(host: Host, service: FakeService, streamed: bool, name: str) -> None:
    service.replies = [NO_THINKING, chat("hello", streamed=streamed)]
    answer = answered(host, "ollama/m", streamed, parameters={name: "high"})
    assert answer.text == "hello"
    first, second = (request.json() for request in service.requests)
    assert first == {**second, "think": "high"}


@each_way
def test_model_that_cannot_think(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [NO_THINKING] * 2
    with pytest.raises(errors.BadRequest, match="does not support thinking"):
        answered(host, "ollama/m", streamed, parameters={"think": True})
    assert len(service.requests) == 1


OF_OPENAI, OF_ANTHROPIC = "/v1/chat/completions", "/v1/messages"


@pytest.mark.parametrize(("path", "fields", "think"), [
    (OF_OPENAI, {}, None), (OF_OPENAI, {"reasoning_effort": "none"}, False),
    (OF_OPENAI, {"reasoning_effort": "xhigh"}, "high"),
    ("/v1/responses", {"reasoning": {"effort": "low"}}, "low"), (OF_ANTHROPIC, {}, None),
    (OF_ANTHROPIC, {"thinking": {"type": "disabled"}}, False),
    (OF_ANTHROPIC, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "high"),
    ("/api/chat", {"think": False}, False),
], ids=str)  # fmt: skip
def test_clients_of_all_formats_control_thinking(
    host: Host, service: FakeService, path: str, fields: Any, think: Any
) -> None:
    service.replies = [chat("hello")]
    said = [{"role": "user", "content": "hi"}]
    body = {"model": "ollama/m", "messages": said, "input": said, "max_tokens": 2000,
            "stream": False, **fields}  # fmt: skip
    with RouteServer(host) as server:
        reply = requests.post(f"{server.url}{path}", json=body, timeout=30)
    assert reply.status_code == 200
    assert service.requests[0].json().get("think") == think


def test_a_picture_is_sent_and_one_by_its_address_is_not(host: Host, service: FakeService) -> None:
    service.replies = [chat("a cat")]
    conversation = host.open("chat", "ollama/m")
    conversation.say(Message("user", ["what?", Image(b"\x89PNG", "image/png")]))
    assert service.requests[0].json()["messages"][-1]["images"] == ["iVBORw=="]
    with pytest.raises(errors.UnsupportedPart):
        conversation.say(Message("user", ["what?", Image(url="https://x.invalid/a.png")]))
    assert len(service.requests) == 1


def test_it_embeds(host: Host, service: FakeService) -> None:
    service.replies = [embeddings([1, 0], [0, 1])]
    for model in ("ollama/m", "nomic-embed-text-v1.5@ollama"):
        assert host.open("vectors", model).say("go").data == [[1.0, 0.0], [0.0, 1.0]]
    plain, nomic = (request.json() for request in service.requests)
    assert (plain["input"], nomic["model"]) == (["a", "b"], "nomic-embed-text:v1.5")
    assert nomic["input"] == ["search_query: a", "search_query: b"]
    assert {request.path for request in service.requests} == {"/api/embed"}


def test_a_model_that_is_only_loaded_has_said_nothing(host: Host, service: FakeService) -> None:
    end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "load"}
    service.replies = [json_reply(end)]
    with pytest.raises(errors.UnexpectedFinish) as caught:
        ask(host, "ollama/m", streamed=False)
    assert caught.value.reason == "load"


# what is set


@pytest.mark.parametrize(
    ("keep_alive", "sent"),
    [("10m", "10m"), ("300", 300.0), (-1, -1.0), ("0", 0.0), ("inf", "inf"), ("", None)],
)
def test_usual_settings(hosts: Hosts, service: FakeService, keep_alive: Any, sent: Any) -> None:
    host = hosts(num_ctx=64, options={"num_gpu": 1}, keep_alive=keep_alive, truncate=True)
    service.replies = [chat("hi"), embeddings([1], [1])]
    ask(host, "ollama/m", streamed=False, parameters={"num_gpu": 2})
    host.open("vectors", "ollama/m").say("go")
    first, second = (request.json() for request in service.requests)
    assert (first["options"], second["options"]) == (
        {"num_ctx": 64, "num_gpu": 2},
        {"num_ctx": 64, "num_gpu": 1},
    )
    for body in (first, second):
        assert (body.get("keep_alive"), body["truncate"]) == (sent, True)
    assert host.explain("ollama/m")[0].window == 64


def test_default_models_are_those_that_are_set(hosts: Hosts, service: FakeService) -> None:
    with pytest.raises(errors.NoRoute):
        hosts().open("chat", provider="ollama")
    host = hosts(default_model="some/m:1", default_embed_model="e")
    service.replies = [chat("hi"), embeddings([1], [1])]
    host.open("chat", provider="ollama").say("hi")
    host.open("vectors", provider="ollama").say("go")
    assert [each.json()["model"] for each in service.requests] == ["some/m:1", "e"]


def test_the_address_is_read_as_ollama_reads_it(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", service.url.replace("http://127.0.0.1", "0.0.0.0"))
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    service.replies = [chat("hello")]
    assert ask(make_host(ollama=genai_vendor_ollama), "ollama/m", streamed=False) == "hello"
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_nothing_is_asked_at_first(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any, **__: Any) -> None:
        raise AssertionError("it opens a connection")

    monkeypatch.setattr("socket.create_connection", nothing)
    monkeypatch.setattr("socket.socket.connect", nothing)
    monkeypatch.setattr("socket.getaddrinfo", nothing)
    host = make_host(ollama=genai_vendor_ollama)
    assert host.explain("qwen3-8b@ollama")[0].runs
    provider = host.instances["ollama"].provider
    assert (provider.unavailable_reason(), dict(provider.unavailable_models())) == (None, {})


MakeCloud = Callable[..., Host]


@pytest.fixture
def cloud(make_host: MakeHost) -> MakeCloud:
    """Makes hosts whose `ollama` is Ollama's own service."""

    def make(**settings: Any) -> Host:
        own = provider_config("ollama", **{"base_url": "ollama.com", **settings})
        return make_host(config=Config(providers={"ollama": own}), ollama=genai_vendor_ollama)

    return make


def test_ollamas_own_service_wants_a_key(cloud: MakeCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds nothing to a schema."""
    with pytest.raises(errors.NoRoute, match="set OLLAMA_API_KEY"):
        cloud().open("chat", "qwen3-8b@ollama")
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    for route in cloud().explain("qwen3-8b@ollama"):
        assert route.runs
        assert "schema" not in route.capabilities


def test_nothing_can_be_pulled_to_ollamas_own_service(cloud: MakeCloud) -> None:
    provider = cloud().instances["ollama"].provider
    error = provider.map_error(ProviderReply(b'{"error": "model \'m\' not found"}', 404))
    assert error is not None
    assert error.hint == "list the models: genai-host models --provider ollama"


@pytest.mark.parametrize(
    "address", ["ftp://x", "http://user:secret@x", "user:secret@x", "http://x?a=b"]
)
def test_what_is_no_address_is_told(make_host: MakeHost, address: str) -> None:
    bad = provider_config("ollama", base_url=address)
    host = make_host(config=Config(providers={"ollama": bad}), ollama=genai_vendor_ollama)
    with pytest.raises((errors.ConfigurationError, errors.NoRoute)) as caught:
        host.open("chat", "ollama/m")
    assert "secret" not in str(caught.value)


# what goes wrong


@each_way
def test_missing_model_is_to_be_pulled(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [failure(404, "model 'qwen3:8b' not found")]
    with pytest.raises(errors.BadRequest, match="not found") as caught:
        ask(host, "qwen3-8b@ollama", streamed)
    assert caught.value.hint == "ollama pull qwen3:8b"


@each_way
def test_stopped_ollama_is_to_be_started(host: Host, service: FakeService, streamed: bool) -> None:
    service.stop()
    with pytest.raises(errors.ServiceUnavailable) as caught:
        ask(host, "ollama/m", streamed)
    assert caught.value.hint == "start Ollama: ollama serve"


# the list

DETAILS: Mapping[str, Any] = {"family": "qwen3", "context_length": 40960}
TAGS: Mapping[str, Any] = {
    "models": [
        {"name": "qwen3:8b", "model": "qwen3:8b", "details": DETAILS,
         "capabilities": ["completion", "tools", "thinking", "insert"]},
        {"name": "llava:7b", "capabilities": ["completion", "vision"], "details": None},
        {"name": "e5", "model": "e5", "capabilities": ["embedding"]},
        {"name": "older", "details": {"family": "llama"}},
    ],
}  # fmt: skip
CHAT = ("ollama-chat",)


def test_item_4_only_what_was_pulled_works(host: Host, service: FakeService) -> None:
    service.replies = [json_reply({"models": [{"model": "llama3.2:latest"}]})]
    pulled, other = [host.probe().explain(f"ollama/{id}")[0] for id in ("llama3.2", "llama3.2:1b")]
    assert (pulled.state, other.state) == ("works", "needs")
    assert other.reasons == ("the model is not downloaded: ollama pull llama3.2:1b",)
    assert len(service.requests) == 1


def test_item_4_what_is_pulled_meanwhile_works(hosts: Hosts, service: FakeService) -> None:
    service.replies = [json_reply({"models": [{"model": id}]}) for id in ("a", "b")]
    host = hosts()
    assert host.probe().explain("ollama/b")[0].state == "needs"
    host.probe(again=host.instances["ollama"])
    assert host.probe().explain("ollama/b")[0].state == "works"


def test_item_4_no_model_works_where_ollama_is_not_there(hosts: Hosts) -> None:
    candidate = hosts(base_url="127.0.0.1:9").probe().explain("ollama/llama3.2")[0]
    assert candidate.state == "unreachable"
    assert "ollama serve" in candidate.reasons[0]


def test_the_models_that_are_there_are_listed(host: Host, service: FakeService) -> None:
    service.replies = [json_reply(TAGS)]
    assert listed(host, "ollama") == [
        ListedModel("qwen3:8b", CHAT, {"schema", "tools", "reasoning"}, 40960),
        ListedModel("llava:7b", CHAT, {"schema", "images"}),
        ListedModel("e5", ("ollama-embed",), ()),
        ListedModel("older"),
    ]
    assert [(each.method, each.path) for each in service.requests] == [("GET", "/api/tags")]


def test_each_is_asked_where_that_is_wanted(hosts: Hosts, service: FakeService) -> None:
    info = {"general.architecture": "llama", "llama.context_length": 8192}
    service.replies = [
        json_reply({"models": [{"name": "a"}, {"name": "b"}]}),
        json_reply({"capabilities": ["completion"], "model_info": info}),
        json_reply({"model_info": None}),
    ]
    models = [ListedModel("a", CHAT, {"schema"}, 8192), ListedModel("b")]
    assert listed(hosts(ask_each=True), "ollama") == models
    assert [(each.method, each.path, each.json()) for each in service.requests[1:]] == [
        ("POST", "/api/show", {"model": "a"}), ("POST", "/api/show", {"model": "b"}),
    ]  # fmt: skip


@pytest.mark.parametrize("body", [
    [], {}, {"models": 1}, {"models": [1]}, {"models": [{}]}, {"models": [{"name": 1}]},
    {"models": [{"name": "a", "capabilities": 1}]},
    {"models": [{"name": "a", "capabilities": [[]]}]},
    {"models": [{"name": "a", "details": [1]}]},
])  # fmt: skip
def test_what_is_no_list_is_malformed(host: Host, service: FakeService, body: Any) -> None:
    service.replies = [json_reply(body)]
    with pytest.raises(errors.MalformedReply):
        listed(host, "ollama")


@pytest.mark.parametrize("body", [[], {"model_info": [1]}, {"capabilities": 1}])
def test_what_shows_no_model_is_malformed(hosts: Hosts, service: FakeService, body: Any) -> None:
    service.replies = [json_reply({"models": [{"name": "a"}]}), json_reply(body)]
    with pytest.raises(errors.MalformedReply):
        listed(hosts(ask_each=True), "ollama")


def test_a_list_that_is_refused_says_why(hosts: Hosts, service: FakeService) -> None:
    service.replies = [failure(401, "unauthorized")]
    with pytest.raises(errors.AuthenticationFailed):
        listed(hosts(), "ollama")
    service.replies = [json_reply({"models": [{"name": "a"}]}), failure(404, "model 'a' not found")]
    with pytest.raises(errors.BadRequest) as caught:
        listed(hosts(ask_each=True), "ollama")
    assert caught.value.hint == "ollama pull a"
    service.stop()
    with pytest.raises(errors.GenaiError) as gone:
        listed(hosts(), "ollama")
    assert "ollama serve" in gone.value.hint
