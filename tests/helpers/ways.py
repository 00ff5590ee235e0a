"""Models and their routes: a table, and hosts for which this machine simulates all services. Test
modules import its fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import genai_models_open
import genai_vendor_anthropic
import genai_vendor_bedrock
import genai_vendor_gemini
import genai_vendor_ollama
import genai_vendor_openai
import pytest
from attrs import frozen

from genai_host import Config, Host
from genai_host_testing.fake_service import FakeService, Reply, stream_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services import (
    anthropic as anthropic_service,
    bedrock as bedrock_service,
    gemini as gemini_service,
    ollama as ollama_service,
    openai as openai_service,
)
from genai_host_testing.services.openai import LOOKING

Says = Callable[..., Reply]
"""Return a reply of `text`, one that requests a tool with `call`, streamed if `streamed`."""

ENVIRONMENT: Mapping[str, str] = {
    "NO_PROXY": "*",
    "OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "{url}/v1",
    "AZURE_OPENAI_API_KEY": "az-1", "AZURE_OPENAI_ENDPOINT": "{url}",
    "ANTHROPIC_API_KEY": "ant-1", "ANTHROPIC_BASE_URL": "{url}",
    "AWS_BEARER_TOKEN_BEDROCK": "aws-1", "AWS_REGION": "eu-west-1",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}",
    "GEMINI_API_KEY": "g-1", "GOOGLE_GEMINI_BASE_URL": "{url}",
    "GOOGLE_CLOUD_PROJECT": "mine", "GOOGLE_VERTEX_BASE_URL": "{url}",
    "CLOUDSDK_AUTH_ACCESS_TOKEN": "ya29-1",
    "OLLAMA_HOST": "{url}",
    "MINE_API_KEY": "mine-1",
}  # fmt: skip
UNSET = (
    "OPENAI_API_VERSION", "AZURE_OPENAI_AD_TOKEN", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY",
    "GOOGLE_CLOUD_LOCATION", "AWS_PROFILE",
)  # fmt: skip


def invoked(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """Return a reply of Claude by Bedrock's InvokeModel: Anthropic's format, events in frames."""
    if not streamed:
        return anthropic_service.claude(text, call=call)
    events = bedrock_service.encoded(anthropic_service.events(text, call=call))
    frames = [bedrock_service.chunk(each) for each in events]
    return stream_reply(frames, content_type=bedrock_service.STREAM_TYPE)


@frozen
class Way:
    """A route of a model.

    Attributes:
        says: Format of the service's replies.
        path: A part of the path of the request.
    """

    route: str
    says: Says
    path: str


WAYS: Mapping[str, tuple[Way, ...]] = {
    "claude-haiku-4-5": (
        Way("anthropic+anthropic-messages", anthropic_service.claude, "/v1/messages"),
        Way("bedrock+anthropic-messages", invoked, "/invoke"),
        Way("bedrock+bedrock-converse", bedrock_service.converse, "/converse"),
        Way("vertex+anthropic-messages", anthropic_service.claude, "anthropic/models"),
    ),
    "gpt-4.1": (
        Way("openai+openai-chat", openai_service.chat, "/v1/chat/completions"),
        Way("openai+openai-responses", openai_service.responses, "/v1/responses"),
        Way("azure-openai+openai-chat", openai_service.chat, "/openai/v1/chat"),
        Way("azure-openai+openai-responses", openai_service.responses, "/openai/v1/responses"),
    ),
    "gemini-3.8-flash": (
        Way("gemini+gemini", gemini_service.gemini, "/v1beta/models"),
        Way("vertex+gemini", gemini_service.gemini, "google/models"),
    ),
    "llama-3.3-70b": (
        Way("ollama+ollama-chat", ollama_service.chat, "/api/chat"),
        Way("bedrock+bedrock-converse", bedrock_service.converse, "/converse"),
        Way("mine+openai-chat", openai_service.chat, "/v1/chat/completions"),
    ),
}
CASES = [(model, way) for model, ways in WAYS.items() for way in ways]


def ways(but: str = "") -> pytest.MarkDecorator:
    """Return the whole table, without models or routes that contain this text."""
    chosen = [
        pytest.param(model, way, id=f"{model}@{way.route}")
        for model, way in CASES
        if not but or but not in f"{model}@{way.route}"
    ]
    return pytest.mark.parametrize(("model", "way"), chosen)


each_way = ways()


@pytest.fixture(scope="module")
def service() -> Iterator[FakeService]:
    with FakeService() as fake_service:
        yield fake_service


MakeHosts = Callable[..., Host]


@pytest.fixture
def set_up(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> MakeHosts:
    """Make hosts with all vendors, whose services are simulated here."""
    for name in (*UNSET, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value.format(url=service.url))

    def make(config: Config, **settings: Any) -> Host:
        return make_host(
            config=config,
            **settings,
            open=genai_models_open,
            anthropic=genai_vendor_anthropic,
            bedrock=genai_vendor_bedrock,
            gemini=genai_vendor_gemini,
            ollama=genai_vendor_ollama,
            openai=genai_vendor_openai,
            look=LOOKING,
        )

    return make


@pytest.fixture
def host(set_up: MakeHosts, service: FakeService) -> Host:
    return set_up(with_mine(service))


def with_mine(service: FakeService) -> Config:
    """Return a configuration with an OpenAI-compatible service named `mine`."""
    settings = {"base_url": f"{service.url}/v1", "api_key": {"env": "MINE_API_KEY"}}
    mine = provider_config("openai-compatible", models={"llama-3.3-70b": "llama"}, **settings)
    return Config(providers={"mine": mine})
