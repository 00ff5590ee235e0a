"""The provider `gemini` over sockets: requests and replies."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import genai_vendor_gemini
import pytest

from genai_host import Config, Host, errors
from genai_host.api import ListedModel, Usage
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import VECTORS, ask, each_way, listed
from genai_host_testing.services.gemini import (
    KEY,
    SIGNATURE,
    embeddings,
    failure,
    gemini,
    reason,
    response,
    wait,
)
from genai_host_testing.services.openai import LOOKING

pytestmark = pytest.mark.part

VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL")
MODELS = "/v1beta/models"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def host(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
    new_host = make_host(gemini=genai_vendor_gemini, look=LOOKING)
    assert new_host.plugins.broken == []
    return new_host


@each_way
@pytest.mark.parametrize(
    ("model", "id"), [("gemini-3.8-flash", "gemini-3.8-flash"), ("gemini/gemma-9", "gemma-9")]
)
def test_it_answers(host: Host, service: FakeService, model: str, id: str, streamed: bool) -> None:
    service.replies = [gemini("hello", streamed=streamed)]
    assert ask(host, model, streamed) == "hello"
    (sent,) = service.requests
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    assert (sent.method, sent.path) == ("POST", f"{MODELS}/{id}:{method}")
    assert sent.headers["x-goog-api-key"] == KEY
    assert "authorization" not in sent.headers
    assert not {"model", "stream"} & set(sent.json())


@each_way
def test_tool_and_signature(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [gemini(call=True, streamed=streamed), gemini("fine", streamed=streamed)]
    assert ask(host, "gemini-3.8-flash", streamed, "look") == "fine"
    call, result = service.requests[1].json()["contents"][-2:]
    assert call == {"role": "model", "parts": [
        {"functionCall": {"id": "fc_1", "name": "look", "args": {"at": "é"}},
         "thoughtSignature": SIGNATURE}]}  # fmt: skip
    assert result == {"role": "user", "parts": [{"functionResponse": {
        "id": "fc_1", "name": "look", "response": {"output": "é is fine"}}}]}  # fmt: skip


def test_a_schema_is_held_to_by_the_service(host: Host, service: FakeService) -> None:
    service.replies = [gemini("[1, 2]")]
    assert host.open("chat", "gemini-3.8-flash").say("hi", output_type=list[int]).data == [1, 2]
    config = service.requests[0].json()["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["type"] == "array"


@pytest.mark.parametrize(("reply", "why"), [
    (response(finish="SAFETY"), "SAFETY"),
    (response({"text": "a"}, finish="MALFORMED_FUNCTION_CALL"), "MALFORMED_FUNCTION_CALL"),
    ({"promptFeedback": {"blockReason": "BLOCKLIST"}}, "BLOCKLIST"),
    ({"candidates": []}, "no candidates"),
], ids=str)  # fmt: skip
def test_no_answer_leaves_no_trace(host: Host, service: FakeService, reply: Any, why: str) -> None:
    service.replies = [json_reply(reply)]
    conversation = host.open("chat", "gemini-3.8-flash")
    with pytest.raises(errors.UnexpectedFinish) as caught:
        conversation.say("hi")
    assert caught.value.reason == why
    assert conversation.history == ()
    assert len(service.requests) == 1


@pytest.mark.parametrize(("model", "parameters"), [
    ("gemini-3.8-flash", {"temperature": 0}), ("gemini-3.8-flash", {"reasoning_effort": "minimal"}),
    ("gemini-4-neon", {"thinking_budget": 1}), ("gemini-3.5-flash", {"max_tokens": 65_537}),
    ("gemini-3.5-flash", {"safety_settings": {"HARM_CATEGORY_HARASSMENT": "MAYBE"}}),
    ("gemini-3.5-flash", {"stop": ["a", "b", "c", "d", "e", "f"]}),
], ids=str)  # fmt: skip
def test_what_a_model_refuses_is_not_sent(
    host: Host, service: FakeService, model: str, parameters: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidParameter):
        host.open("chat", model, parameters=parameters)
    assert not service.requests


def test_vectors(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
    config = Config(provider_order=["gemini"])
    host = make_host(config=config, gemini=genai_vendor_gemini, vectors=VECTORS, mock=None)
    service.replies = [embeddings([1, 2], [3, 4])]
    answer = host.open("vectors").say("hi")
    assert (answer.data, answer.usage) == ([[1.0, 2.0], [3.0, 4.0]], Usage(5))
    (sent,) = service.requests
    assert sent.path == f"{MODELS}/gemini-embedding-2:batchEmbedContents"
    named = {"model": "models/gemini-embedding-2"}
    assert sent.json() == {
        "requests": [{**named, "content": {"parts": [{"text": text}]}} for text in ("a", "b")]
    }


def test_vectors_of_many_texts_are_in_order(host: Host, service: FakeService) -> None:
    service.replies = [
        embeddings(*([number, 1] for number in batch)) for batch in (range(100), range(100, 150))
    ]
    answer = host.embed([f"t{number}" for number in range(150)], model="gemini-embedding-2")
    assert answer.vectors == [[float(number), 1.0] for number in range(150)]
    assert answer.usage == Usage(10)
    texts = [
        [each["content"]["parts"][0]["text"] for each in sent.json()["requests"]]
        for sent in service.requests
    ]
    assert texts == [[f"t{n}" for n in range(100)], [f"t{n}" for n in range(100, 150)]]


# its models


def test_its_models_are_listed_page_by_page(host: Host, service: FakeService) -> None:
    chat = {"name": "models/a", "supportedGenerationMethods": ["generateContent", "countTokens"],
            "inputTokenLimit": 9}  # fmt: skip
    embed = {"name": "models/b", "supportedGenerationMethods": ["embedContent"]}
    other = {"name": "models/c", "supportedGenerationMethods": ["predict"], "inputTokenLimit": "x"}
    service.replies = [
        json_reply({"models": [chat], "nextPageToken": "a+b"}),
        json_reply({"models": [embed, other]}),
    ]
    assert listed(host, "gemini") == [
        ListedModel("a", dialects=["gemini"], window=9),
        ListedModel("b", dialects=["gemini-embed"]),
        ListedModel("c", dialects=[]),
    ]
    assert [request.path for request in service.requests] == [
        f"{MODELS}?pageSize=1000",
        f"{MODELS}?pageSize=1000&pageToken=a%2Bb",
    ]


@pytest.mark.parametrize("body", [[], {"models": 1}, {"models": [1]}, {"models": [{}]}])
def test_malformed_list_of_models(host: Host, service: FakeService, body: Any) -> None:
    service.replies = [json_reply(body)]
    with pytest.raises(errors.MalformedReply):
        listed(host, "gemini")


def test_a_list_of_models_ends(host: Host, service: FakeService) -> None:
    service.replies = [json_reply({"models": [], "nextPageToken": "again"})]
    assert listed(host, "gemini") == []
    assert len(service.requests) == 100


# its key


def test_its_own_key_comes_before_that_of_all_of_google(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
    service.replies = [gemini("hello")]
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, f"{KEY}-{variable}")
        make_host(gemini=genai_vendor_gemini).open("chat", "gemini-3.8-flash").say("hi")
    assert [request.headers["x-goog-api-key"] for request in service.requests] == [
        f"{KEY}-GOOGLE_API_KEY",
        f"{KEY}-GEMINI_API_KEY",
    ]


def test_it_says_that_it_has_no_key(make_host: MakeHost) -> None:
    with pytest.raises(errors.NoRoute, match="no key: set GEMINI_API_KEY"):
        make_host(gemini=genai_vendor_gemini).open("chat", "gemini-3.8-flash@gemini")


@each_way
def test_a_key_that_is_wrong_is_told_and_not_shown(
    host: Host, service: FakeService, caplog: pytest.LogCaptureFixture, streamed: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = f"API key not valid: {KEY}"
    service.replies = [failure(400, "", reason("API_KEY_INVALID"), message=wrong)]
    with pytest.raises(errors.AuthenticationFailed, match="API key not valid") as caught:
        ask(host, "gemini-3.8-flash", streamed)
    assert len(service.requests) == 1
    assert KEY not in "".join(traceback.format_exception(caught.value)) + caplog.text


@each_way
def test_how_long_to_wait_is_kept(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [failure(429, "RESOURCE_EXHAUSTED", wait("3600s"))]
    with pytest.raises(errors.RateLimited) as caught:
        ask(host, "gemini-3.8-flash", streamed)
    assert caught.value.retry_after == 3600
    assert len(service.requests) == 1
