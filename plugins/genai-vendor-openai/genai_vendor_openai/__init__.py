"""OpenAI, Azure OpenAI, and servers with compatible APIs.

provider `openai`              OpenAI's own service
provider `azure-openai`        deployments of one Azure resource
provider `openai-compatible`   any address that speaks OpenAI's formats, as a named
                               instance: vLLM, Groq, OpenRouter, LM Studio, llama.cpp
models `gpt-...`, `o3`, `text-embedding-3-...`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import field, frozen

from genai_host.api import Model, Provider, ProviderType, Secret, Services, about, hookimpl, setting
from genai_vendor_openai.models import CHAT, EMBED, MODERATE, TRANSCRIBE

__all__ = [
    "CHAT",
    "EMBED",
    "MODERATE",
    "TRANSCRIBE",
    "AzureSettings",
    "CompatibleSettings",
    "OpenAISettings",
]

DialectName = Literal["openai-chat", "openai-responses", "openai-embed"]


@frozen
class OpenAISettings:
    base_url: str = setting(
        "https://api.openai.com/v1", "address of the service", env="OPENAI_BASE_URL"
    )
    api_key: Secret | None = setting(None, "API key", env="OPENAI_API_KEY")
    organization: str = setting("", "organization that is billed", env="OPENAI_ORG_ID")
    project: str = setting("", "project of the organization", env="OPENAI_PROJECT_ID")


@frozen
class AzureSettings:
    endpoint: str = setting(
        "",
        "address of the resource, for example https://my-resource.openai.azure.com",
        env="AZURE_OPENAI_ENDPOINT",
    )
    api_key: Secret | None = setting(None, "API key", env="AZURE_OPENAI_API_KEY")
    token: Secret | None = setting(
        None, "Microsoft Entra ID token instead of a key", env="AZURE_OPENAI_AD_TOKEN"
    )
    token_command: tuple[str, ...] = setting(
        (), "command that prints such a token; takes precedence over both"
    )
    api_version: str = setting(
        "",
        "dated API version, for example 2024-10-21; empty for the v1 API, "
        "`preview` for its previews",
        env="OPENAI_API_VERSION",
    )


def _variant(help: str) -> Any:
    """Return a variant setting that defaults to the model and the dialect."""
    return field(default=None, metadata=about(help))


@frozen
class CompatibleSettings:
    base_url: str = setting("", "address of the service, for example http://localhost:8000/v1")
    api_key: Secret | None = setting(None, "API key, if the service needs one")
    headers: Mapping[str, str] = field(
        factory=dict, metadata=about("further headers, sent with each request")
    )
    extra_body: Mapping[str, Any] = field(
        factory=dict,
        metadata=about("further fields of the body, sent with each request, such as top_k"),
    )
    serves: tuple[DialectName, ...] = setting(
        ("openai-chat", "openai-embed"), "dialects that the service supports, best first"
    )
    completions: bool = setting(
        True,
        "the service has text completions for the models of openai-chat; false to send texts "
        "as messages of a chat",
    )
    lacks: tuple[str, ...] = setting(
        (), "capabilities that the service lacks, for example stream, tools, schema, images"
    )
    default_model: str = setting("", "default model for chat")
    default_embed_model: str = setting("", "default model for embeddings")
    default_transcription_model: str = setting("", "default model for speech to text")
    max_tokens: Literal["max_tokens", "max_completion_tokens"] | None = _variant(
        "name of the field for the maximum number of output tokens"
    )
    system_role: Literal["system", "developer", "user"] | None = _variant("role of system messages")
    stream_usage: bool | None = _variant("request the usage of streamed replies")
    strict: bool | None = _variant("the service supports strict schemas")
    object_root: bool | None = _variant("schemas must be objects")
    json_object: bool | None = _variant(
        "the service has the format json_object; false for a schema instead, as for LM Studio"
    )
    image_detail: str | None = _variant("image detail, for example low")
    reasoning: str | None = _variant("field in which reasoning is sent back")
    encrypted_reasoning: bool | None = _variant("request encrypted reasoning")
    purpose: str | None = _variant("field for the purpose of embeddings, for example input_type")
    encoding: Literal["", "float", "base64"] | None = _variant("encoding of embeddings")


def _open(settings: OpenAISettings, services: Services) -> Provider:
    from genai_vendor_openai.openai import OpenAIProvider

    return OpenAIProvider(settings, services)


def _open_azure(settings: AzureSettings, services: Services) -> Provider:
    from genai_vendor_openai.azure import AzureProvider

    return AzureProvider(settings, services)


def _open_compatible(settings: CompatibleSettings, services: Services) -> Provider:
    from genai_vendor_openai.openai import CompatibleProvider

    return CompatibleProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("openai", OpenAISettings, _open)
    yield ProviderType("azure-openai", AzureSettings, _open_azure)
    yield ProviderType("openai-compatible", CompatibleSettings, _open_compatible)


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED, *MODERATE, *TRANSCRIBE]
