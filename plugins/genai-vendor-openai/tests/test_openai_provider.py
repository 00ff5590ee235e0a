"""The provider `openai` over sockets: requests and replies."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import genai_vendor_openai
import pytest

from genai_host import Config, Host, api, errors
from genai_host_testing.fake_service import FakeService, Reply, json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import VECTORS, ask, each_way, listed
from genai_host_testing.services.openai import (
    KEY,
    LOOKING,
    THOUGHT,
    chat,
    embeddings,
    failure,
    responses,
)

pytestmark = pytest.mark.part

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def host(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{service.url}/v1")
    new_host = make_host(openai=genai_vendor_openai, look=LOOKING)
    assert new_host.plugins.broken == []
    return new_host


AnswerIn = Callable[..., Reply]
each_dialect = pytest.mark.parametrize(("model", "path", "answer"), [
    ("gpt-4.1@openai", "/v1/chat/completions", chat),
    ("gpt-6.1-sol@openai", "/v1/responses", responses),
    ("gpt-6.1-sol@openai+openai-chat", "/v1/chat/completions", chat),
    ("gpt-4.1@openai+openai-responses", "/v1/responses", responses),
    ("openai/some-newer-model", "/v1/chat/completions", chat),
])  # fmt: skip


@each_dialect
@each_way
def test_it_answers(
    host: Host, service: FakeService, model: str, path: str, answer: AnswerIn, streamed: bool
) -> None:
    service.replies = [answer("hello", streamed=streamed)]
    assert ask(host, model, streamed) == "hello"
    (sent,) = service.requests
    assert (sent.method, sent.path) == ("POST", path)
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["content-type"] == "application/json"
    assert not any(name.startswith("openai-") for name in sent.headers)
    body = sent.json()
    assert body["model"] == model.partition("@")[0].removeprefix("openai/")
    assert body.get("stream", False) is streamed


@each_dialect
@each_way
def test_a_tool_is_used(
    host: Host, service: FakeService, model: str, path: str, answer: AnswerIn, streamed: bool
) -> None:
    service.replies = [answer(call=True, streamed=streamed), answer("fine", streamed=streamed)]
    assert ask(host, model, streamed, "look").endswith("fine")
    first, second = (request.json() for request in service.requests)
    assert first["tool_choice"] == "auto"
    if path.endswith("completions"):
        assert second["messages"][1:] == [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function",
                 "function": {"name": "look", "arguments": '{"at":"é"}'}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "é is fine"},
        ]  # fmt: skip
        assert first["tools"][0]["function"]["strict"] is True
    else:
        assert second["input"][1:] == [
            THOUGHT,
            {"type": "function_call", "call_id": "call_1", "name": "look",
             "arguments": '{"at":"é"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "é is fine"},
        ]  # fmt: skip
        assert first["tools"][0]["strict"] is True


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@each_dialect
def test_a_schema_is_held_to(
    host: Host, service: FakeService, model: str, path: str, answer: AnswerIn
) -> None:
    service.replies = [answer('{"city":"Oslo"}')]
    assert host.open("chat", model).say("hi", output_type=CITY).data == {"city": "Oslo"}
    body = service.requests[0].json()
    if path.endswith("completions"):
        format = body["response_format"]["json_schema"]
    else:
        format = body["text"]["format"]
    assert (format["strict"], format["schema"]) == (True, {**CITY, "additionalProperties": False})


@each_dialect
@each_way
def test_a_value_that_is_no_object_is_taken_out_of_one(
    host: Host, service: FakeService, model: str, path: str, answer: AnswerIn, streamed: bool
) -> None:
    service.replies = [answer('{"whole_answer": [1, 2]}', streamed=streamed)]
    conversation = host.open("chat", model)
    if streamed:
        events = conversation.stream("hi", output_type=list[int])
        assert "".join(event.text for event in events) == "[1,2]"
    else:
        assert conversation.say("hi", output_type=list[int]).data == [1, 2]


def test_pictures_and_documents_are_sent(host: Host, service: FakeService) -> None:
    service.replies = [chat("hello"), responses("hello")]
    message = api.Message(
        "user", ["a", api.Image(url="http://x"), api.File(b"%PDF", "application/pdf", "b")]
    )
    for model in ("gpt-4.1", "gpt-6.1-sol"):
        host.open("chat", model).say(message)
    first, second = (request.json() for request in service.requests)
    assert [part["type"] for part in first["messages"][1]["content"]] == [
        "text", "image_url", "file",
    ]  # fmt: skip
    assert [part["type"] for part in second["input"][1]["content"]] == [
        "input_text", "input_image", "input_file",
    ]  # fmt: skip


def test_parameters_are_named_as_the_model_has_them(host: Host, service: FakeService) -> None:
    service.replies = [chat("a"), chat("a"), responses("a")]
    parameters = {"max_tokens": 7, "reasoning_effort": "high", "verbosity": "low"}
    host.open("chat", "gpt-4.1", parameters={"max_tokens": 7, "temperature": 0}).say("hi")
    host.open("chat", "gpt-6.1-sol@openai+openai-chat", parameters=parameters).say("hi")
    host.open("chat", "gpt-6.1-sol", parameters=parameters).say("hi")
    direct, thinking, newest = (request.json() for request in service.requests)
    assert (direct["max_tokens"], direct["temperature"]) == (7, 0)
    assert direct["messages"][0]["role"] == "system"
    assert thinking["max_completion_tokens"] == 7
    assert (thinking["reasoning_effort"], thinking["verbosity"]) == ("high", "low")
    assert thinking["messages"][0]["role"] == "developer"
    assert newest["max_output_tokens"] == 7
    assert (newest["reasoning"], newest["text"]) == ({"effort": "high"}, {"verbosity": "low"})
    assert newest["input"][0]["role"] == "developer"
    assert newest["include"] == ["reasoning.encrypted_content"]
    assert newest["store"] is False


@pytest.mark.parametrize(("model", "parameters"), [
    ("gpt-6.1-sol", {"temperature": 0}), ("gpt-6.1-sol", {"top_p": 1}),
    ("gpt-6.1-sol", {"stop": ["x"]}), ("gpt-6.1-sol", {"reasoning_effort": "none"}),
    ("gpt-6.1-sol", {"max_tokens": 128_001}), ("gpt-4.1", {"reasoning_effort": "low"}),
    ("gpt-4.1", {"max_tokens": 32_769}),
], ids=str)  # fmt: skip
def test_what_a_model_refuses_is_not_sent(
    host: Host, service: FakeService, model: str, parameters: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidParameter):
        host.open("chat", model, parameters=parameters)
    assert not service.requests


def test_the_organization_and_the_project_are_named(
    host: Host, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    service.replies = [chat("hello")]
    host.open("chat", "gpt-4.1").say("hi")
    headers = service.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


def test_its_models_are_listed(host: Host, service: FakeService) -> None:
    service.replies = [json_reply({"object": "list", "data": [{"id": "gpt-7"}]})]
    assert listed(host, "openai") == [api.ListedModel("gpt-7")]
    assert (service.requests[0].method, service.requests[0].path) == ("GET", "/v1/models")


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize("vectors", [([1, 2], [3, 4]), (packed(1, 2), packed(3, 4))], ids=str)
def test_texts_become_vectors(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch, vectors: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{service.url}/v1")
    config = Config(provider_order=["openai"])
    host = make_host(config=config, openai=genai_vendor_openai, vectors=VECTORS, mock=None)
    service.replies = [embeddings(*vectors)]
    answer = host.open("vectors").say("hi")
    assert (answer.data, answer.usage) == ([[1.0, 2.0], [3.0, 4.0]], api.Usage(5))
    (sent,) = service.requests
    assert sent.path == "/v1/embeddings"
    assert sent.json() == {
        "model": "text-embedding-3-small", "input": ["a", "b"], "encoding_format": "float",
    }  # fmt: skip


# where it is, and what it lacks


def test_it_says_that_it_has_no_key(make_host: MakeHost) -> None:
    with pytest.raises(errors.NoRoute, match="no key: set OPENAI_API_KEY"):
        make_host(openai=genai_vendor_openai).open("chat", "gpt-4.1@openai")


@pytest.mark.parametrize(("base_url", "own"), [
    ("https://api.openai.com/v1", True), ("https://eu.api.openai.com/v1", True),
    ("https://myopenai.com/v1", False), ("http://localhost:8000/v1", False),
])  # fmt: skip
def test_other_address(
    host: Host, monkeypatch: pytest.MonkeyPatch, base_url: str, own: bool
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    serves = host.instances["openai"].provider.serves
    best, second, *others = serves
    chats = ["openai-responses", "openai-chat"] if own else ["openai-chat", "openai-responses"]
    further = ["openai-count", "openai-embed", "openai-moderate", "openai-transcribe"]
    assert [best, second, *others] == [*chats, *further]
    assert serves["openai-chat"].variant.get("max_tokens") == (
        "max_completion_tokens" if own else None
    )


def test_it_is_patient_with_models_that_think(host: Host) -> None:
    assert host.instances["openai"].provider.call_limits["first_token_timeout"] >= 300


# failures


@each_dialect
def test_what_was_spent_is_not_asked_for_again(
    host: Host, service: FakeService, model: str, path: str, answer: AnswerIn
) -> None:
    service.replies = [failure(429, code="insufficient_quota")]
    with pytest.raises(errors.RateLimited) as caught:
        ask(host, model)
    assert (caught.value.retryable, caught.value.provider) == (False, "openai")
    assert len(service.requests) == 1
