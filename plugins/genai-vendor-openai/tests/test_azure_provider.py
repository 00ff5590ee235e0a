"""The provider `azure-openai`: its addresses, its keys, its deployments."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import genai_vendor_openai
import pytest
from genai_vendor_openai.openai import AzureProvider

from genai_host import Config, Host, errors
from genai_host_testing.fake_service import FakeService, Reply, json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import VECTORS, ask, each_way
from genai_host_testing.services.openai import KEY, LOOKING, chat, embeddings, failure, responses

pytestmark = pytest.mark.part

TOKEN = "eyJ-canary-8c2a"
VARIABLES = (
    "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION",
)  # fmt: skip


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def azure(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> MakeHost:
    """Makes hosts with an instance `mine`, whose `gpt-5.4` and `gpt-4.1` are deployments
    of other names: `azure(api_version="2024-10-21")`."""
    for variable in ("AZURE_OPENAI_API_KEY", "GENAI_HOST_PROVIDERS__MINE__API_KEY"):
        monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", service.url)

    def make(**settings: Any) -> Host:
        models = {"gpt-5.4": "my-five", "gpt-4.1": "my four", "text-embedding-3-small": "vectors"}
        mine = provider_config("azure-openai", models=models, **settings)
        return make_host(
            config=Config(
                providers={"mine": mine}, models={"embed": "text-embedding-3-small@mine"}
            ),
            openai=genai_vendor_openai, look=LOOKING, vectors=VECTORS,
        )  # fmt: skip

    return make


V1 = "/openai/v1"
DATED = "/openai/deployments"


@each_way
@pytest.mark.parametrize(("version", "model", "path", "id", "answer"), [
    ("", "gpt-5.4@mine", f"{V1}/responses", "my-five", responses),
    ("", "gpt-4.1@mine", f"{V1}/chat/completions", "my four", chat),
    ("", "gpt-5.4@azure-openai", f"{V1}/responses", "gpt-5.4", responses),
    ("", "mine/my-other", f"{V1}/responses", "my-other", responses),
    ("v1", "gpt-4.1@mine", f"{V1}/chat/completions", "my four", chat),
    ("preview", "gpt-4.1@mine", f"{V1}/chat/completions?api-version=preview", "my four", chat),
    ("2024-10-21", "gpt-4.1@mine",
     f"{DATED}/my%20four/chat/completions?api-version=2024-10-21", "my four", chat),
    ("2024-10-21", "gpt-5.4@mine",
     f"{DATED}/my-five/chat/completions?api-version=2024-10-21", "my-five", chat),
    ("2024-10-21", "mine/my-other",
     f"{DATED}/my-other/chat/completions?api-version=2024-10-21", "my-other", chat),
    ("2025-04-01-preview", "gpt-5.4@mine",
     "/openai/responses?api-version=2025-04-01-preview", "my-five", responses),
])  # fmt: skip
def test_a_deployment_answers(
    azure: MakeHost, service: FakeService, version: str, model: str, path: str, id: str,
    answer: Any, streamed: bool,
) -> None:  # fmt: skip
    service.replies = [answer("hello", streamed=streamed)]
    assert ask(azure(api_version=version), model, streamed) == "hello"
    (sent,) = service.requests
    assert (sent.method, sent.path) == ("POST", path)
    assert sent.headers["api-key"] == KEY
    assert "authorization" not in sent.headers
    assert sent.json()["model"] == id


def test_the_version_may_come_from_the_environment(
    azure: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-06-01")
    service.replies = [chat("hello")]
    ask(azure(), "gpt-4.1@mine")
    assert service.requests[0].path.endswith("?api-version=2024-06-01")


def test_token_before_key(
    azure: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENAI_HOST_PROVIDERS__MINE__TOKEN", TOKEN)
    service.replies = [chat("hello")]
    ask(azure(), "gpt-4.1@mine")
    headers = service.requests[0].headers
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert "api-key" not in headers


@pytest.mark.parametrize("version", ["", "2024-10-21"])
def test_texts_become_vectors(azure: MakeHost, service: FakeService, version: str) -> None:
    service.replies = [embeddings([1, 2], [3, 4])]
    assert azure(api_version=version).open("vectors").say("hi").data == [[1.0, 2.0], [3.0, 4.0]]
    (sent,) = service.requests
    assert sent.path == (
        f"{DATED}/vectors/embeddings?api-version={version}" if version else f"{V1}/embeddings"
    )
    assert (sent.json()["model"], sent.json()["encoding_format"]) == ("vectors", "base64")


@pytest.mark.parametrize("version", ["", "2024-10-21"])
def test_a_tool_is_used(azure: MakeHost, service: FakeService, version: str) -> None:
    service.replies = [chat(call=True), chat("fine")]
    assert azure(api_version=version).open("look", "gpt-4.1@mine").say("hi").text == "fine"
    assert service.requests[1].json()["messages"][-1]["content"] == "é is fine"


@pytest.mark.parametrize(("endpoint", "base_url"), [
    ("https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1"),
    ("https://r.openai.azure.com/", "https://r.openai.azure.com/openai/v1"),
    (" https://r.openai.azure.com/openai ", "https://r.openai.azure.com/openai/v1"),
    ("https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1"),
    ("https://gate.way/some/path", "https://gate.way/some/path/openai/v1"),
])  # fmt: skip
def test_endpoint_may_be_written_in_many_ways(
    azure: MakeHost, endpoint: str, base_url: str
) -> None:
    provider = azure(endpoint=endpoint).instances["mine"].provider
    assert isinstance(provider, AzureProvider)
    assert provider.base_url == base_url
    dated = azure(endpoint=endpoint, api_version="2024-10-21").instances["mine"].provider
    assert isinstance(dated, AzureProvider)
    assert dated.base_url == base_url.removesuffix("/v1")


@pytest.mark.parametrize("endpoint", ["my-resource", "https://r?api-version=1"])
def test_what_is_no_endpoint_says_so(azure: MakeHost, endpoint: str) -> None:
    with pytest.raises(errors.ConfigurationError):
        _ = azure(endpoint=endpoint).instances["mine"].provider


def test_it_says_what_it_lacks(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, service: FakeService
) -> None:
    with pytest.raises(errors.NoRoute, match="no endpoint: set AZURE_OPENAI_ENDPOINT"):
        make_host(openai=genai_vendor_openai).open("chat", "gpt-4.1@azure-openai")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", service.url)
    with pytest.raises(errors.NoRoute, match="no key: set AZURE_OPENAI_API_KEY"):
        make_host(openai=genai_vendor_openai).open("chat", "gpt-4.1@azure-openai")
    for variable in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, KEY)
            make_host(openai=genai_vendor_openai).open("chat", "gpt-4.1@azure-openai")


@pytest.mark.parametrize("version", ["", "2024-10-21"])
@pytest.mark.parametrize("code", ["DeploymentNotFound", "unknown_model"])
def test_missing_deployment(azure: MakeHost, service: FakeService, version: str, code: str) -> None:
    service.replies = [failure(404, code=code)]
    with pytest.raises(errors.BadRequest, match="no deployment of this name") as caught:
        ask(azure(api_version=version), "gpt-4.1@mine")
    assert "models = {" in caught.value.hint
    assert caught.value.status == 404


FAILURES: list[tuple[Reply, type[errors.GenaiError]]] = [
    (failure(404, code="404"), errors.BadRequest),
    (json_reply([], 404), errors.BadRequest),
    (json_reply({"error": "x"}, 404), errors.BadRequest),
    (json_reply({"error": {"code": []}}, 404), errors.BadRequest),
    (json_reply({"statusCode": 401, "message": "no"}, 401), errors.AuthenticationFailed),
    (failure(429, {"retry-after-ms": "1500"}, code="429"), errors.RateLimited),
    (failure(400, code="content_filter"), errors.BadRequest),
]


@pytest.mark.parametrize(("answer", "kind"), FAILURES)
def test_a_failure_is_told_by_its_kind(
    azure: MakeHost, service: FakeService, answer: Reply, kind: type[errors.GenaiError]
) -> None:
    service.replies = [answer]
    with pytest.raises(kind) as caught:
        ask(azure(), "gpt-4.1@mine")
    assert type(caught.value) is kind
    if isinstance(caught.value, errors.RateLimited):
        assert caught.value.retry_after == 1.5


@each_way
def test_a_token_is_nowhere(
    azure: MakeHost, service: FakeService, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch, streamed: bool,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("GENAI_HOST_PROVIDERS__MINE__TOKEN", TOKEN)
    service.replies = [failure(401, message=f"Access denied for {TOKEN}")]
    host = azure()
    with pytest.raises(errors.AuthenticationFailed) as caught:
        ask(host, "gpt-4.1@mine", streamed)
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert TOKEN not in shown + repr(host.instances["mine"].provider)
