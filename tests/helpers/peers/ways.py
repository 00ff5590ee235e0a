"""The services that both sides speak to, and what lets them speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import genai_vendor_openai
import openai
from attrs import frozen
from peers.conversations import Kind, Said
from peers.sides import Sides

from genai_host.config import InstanceConfig
from genai_host_testing.openai_service import KEY


@frozen
class Way:
    """A service in one dialect, set up by environment variables: the same ones for both,
    but that an instance named `mine` has a key of its own.

    model         its name here
    id            what the SDK calls the model, or the deployment
    dialect       chat or responses
    environment   `{url}` stands for the recording service
    client        makes the SDK's client
    kind          what the model can do
    lacks         conversations that are refused here
    """

    name: str
    model: str
    id: str
    dialect: Literal["chat", "responses"]
    environment: Mapping[str, str]
    client: Callable[[str], Any]
    kind: Kind = "direct"
    lacks: tuple[str, ...] = ()

    def can(self, said: Said) -> bool:
        has_form = said.chat if self.dialect == "chat" else said.responses
        return has_form is not None and said.only in ("", self.kind) and said.name not in self.lacks


OWN = {
    "OPENAI_API_KEY": KEY,
    "OPENAI_BASE_URL": "http://api.openai.com/v1",
    "OPENAI_ORG_ID": "org-1",
    "OPENAI_PROJECT_ID": "proj_1",
    "HTTP_PROXY": "{url}",  # so that it is OpenAI's own address, and comes here
}
ELSEWHERE = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}
DATED = {
    "AZURE_OPENAI_API_KEY": KEY,
    "GENAI_HOST_PROVIDERS__MINE__API_KEY": KEY,
    "AZURE_OPENAI_ENDPOINT": "{url}",
    "OPENAI_API_VERSION": "2025-04-01-preview",
}
TOKEN = {
    "AZURE_OPENAI_AD_TOKEN": "eyJ-canary",
    "GENAI_HOST_PROVIDERS__MINE__TOKEN": "eyJ-canary",
    "AZURE_OPENAI_ENDPOINT": "{url}",
}
PREVIEW = {**TOKEN, "OPENAI_API_VERSION": "preview"}
VARIABLES = {
    "ALL_PROXY", "HTTPS_PROXY", "NO_PROXY",
    *(name for each in (OWN, ELSEWHERE, DATED, TOKEN, PREVIEW) for name in each),
}  # fmt: skip


def _openai(url: str) -> Any:
    return openai.OpenAI(max_retries=0)


def _azure(url: str) -> Any:
    return openai.AzureOpenAI(max_retries=0)


def _azure_v1(url: str) -> Any:
    """As Azure documents it: the plain client, at the address of the API without versions."""
    return openai.OpenAI(base_url=f"{url}/openai/v1/", api_key="eyJ-canary", max_retries=0)


def _azure_preview(url: str) -> Any:
    return openai.OpenAI(
        base_url=f"{url}/openai/v1/",
        api_key="eyJ-canary",
        default_query={"api-version": "preview"},
        max_retries=0,
    )


_NO_FILES = ("file",)
WAYS = [
    Way("openai, chat", "gpt-4.1@openai+openai-chat", "gpt-4.1", "chat", OWN, _openai),
    Way("openai, responses", "gpt-4.1@openai+openai-responses", "gpt-4.1", "responses",
        OWN, _openai),
    Way("openai, thinking, chat", "gpt-5.4@openai+openai-chat", "gpt-5.4", "chat",
        OWN, _openai, "thinking"),
    Way("openai, thinking, responses", "gpt-6.1-sol@openai", "gpt-6.1-sol", "responses",
        OWN, _openai, "thinking"),
    Way("elsewhere, chat", "gpt-4.1@openai+openai-chat", "gpt-4.1", "chat", ELSEWHERE, _openai),
    Way("compatible, chat", "gate/qwen", "qwen", "chat", ELSEWHERE, _openai),
    Way("azure, dated, chat", "gpt-4.1@mine+openai-chat", "my four", "chat",
        DATED, _azure, lacks=_NO_FILES),
    Way("azure, dated, responses", "gpt-4.1@mine+openai-responses", "my four", "responses",
        DATED, _azure),
    Way("azure, chat", "gpt-5.4@mine+openai-chat", "my-five", "chat",
        TOKEN, _azure_v1, "thinking", lacks=_NO_FILES),
    Way("azure, responses", "gpt-5.4@mine+openai-responses", "my-five", "responses",
        TOKEN, _azure_v1, "thinking"),
    Way("azure, preview, chat", "gpt-4.1@mine+openai-chat", "my four", "chat",
        PREVIEW, _azure_preview, lacks=_NO_FILES),
]  # fmt: skip
DEPLOYMENTS = {"gpt-5.4": "my-five", "gpt-4.1": "my four", "text-embedding-3-small": "vectors"}


def way_named(name: str) -> Way:
    return next(way for way in WAYS if way.name == name)


class OpenAISides(Sides):
    variables = VARIABLES
    plugins = {"openai": genai_vendor_openai}

    def instances(self, url: str) -> Mapping[str, InstanceConfig]:
        gate = {"base_url": f"{url}/v1", "api_key": {"env": "OPENAI_API_KEY"}}
        return {
            "mine": InstanceConfig("azure-openai", models=DEPLOYMENTS),
            "gate": InstanceConfig("openai-compatible", settings=gate),
        }
