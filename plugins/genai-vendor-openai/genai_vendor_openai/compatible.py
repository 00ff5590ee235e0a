"""The provider `openai-compatible`: any server with an OpenAI-compatible API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import asdict, field, frozen

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Operation,
    Secret,
    Services,
    about,
    listed_models,
)
from genai_host.errors import ConfigurationError
from genai_vendor_openai.openai import OF_SERVERS, PATIENT

DialectName = Literal["openai-chat", "openai-responses", "openai-embed"]

_VARIANTS: Mapping[DialectName, tuple[str, ...]] = {
    "openai-chat": (
        "max_tokens", "system_role", "stream_usage", "strict", "object_root", "json_object",
        "image_detail", "reasoning",
    ),
    "openai-responses": (
        "system_role", "encrypted_reasoning", "strict", "object_root", "json_object",
        "image_detail",
    ),
    "openai-embed": ("purpose", "encoding"),
}  # fmt: skip
"""The variants of each dialect."""


def _variant(help: str) -> Any:
    """Return a variant setting that defaults to the model and the dialect."""
    return field(default=None, metadata=about(help))


@frozen
class CompatibleSettings:
    base_url: str = field(
        default="", metadata=about("address of the service, for example http://localhost:8000/v1")
    )
    api_key: Secret | None = field(
        default=None, metadata=about("API key, if the service needs one")
    )
    headers: Mapping[str, str] = field(
        factory=dict, metadata=about("further headers, sent with each request")
    )
    extra_body: Mapping[str, Any] = field(
        factory=dict,
        metadata=about("further fields of the body, sent with each request, such as top_k"),
    )
    serves: tuple[DialectName, ...] = field(
        default=("openai-chat", "openai-embed"),
        metadata=about("dialects that the service supports, best first"),
    )
    completions: bool = field(
        default=True,
        metadata=about(
            "the service has text completions for the models of openai-chat; false to send texts "
            "as messages of a chat"
        ),
    )
    lacks: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "capabilities that the service lacks, for example stream, tools, schema, images"
        ),
    )
    default_model: str = field(default="", metadata=about("default model for chat"))
    default_embed_model: str = field(default="", metadata=about("default model for embeddings"))
    default_transcription_model: str = field(
        default="", metadata=about("default model for speech to text")
    )
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


class CompatibleProvider(HttpProvider):
    call_limits = PATIENT

    def __init__(self, settings: CompatibleSettings, services: Services) -> None:
        super().__init__(services, settings.base_url, settings.headers, key=settings.api_key)
        self.serves = _serves(settings)
        self.extra_body = settings.extra_body
        self.default_models = _default_models(settings, services.instance)

    def unavailable_reason(self) -> str | None:
        if not self.base_url:
            return f"no address: set base_url in [providers.{self.services.instance}]"
        return None

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        return listed_models(self.get("/models", limits))


def _serves(settings: CompatibleSettings) -> Mapping[str, DialectEndpoint]:
    if not settings.serves:
        raise ConfigurationError("serves must name at least one dialect")
    chosen = {
        name: value for name, value in asdict(settings, recurse=False).items() if value is not None
    }
    serves: dict[str, DialectEndpoint] = {
        dialect: DialectEndpoint(
            unsupported=settings.lacks,
            parameters=OF_SERVERS if dialect == "openai-chat" else {},
            variant={name: chosen[name] for name in _VARIANTS[dialect] if name in chosen},
        )
        for dialect in settings.serves
    }
    serves["openai-transcribe"] = DialectEndpoint()
    if settings.completions:
        serves["openai-completions"] = DialectEndpoint(unsupported=settings.lacks)
    return serves


def _default_models(settings: CompatibleSettings, instance: str) -> Mapping[Operation, str]:
    """Return the default models, whose ids can look like instances: `openai/gpt-oss-20b`."""
    named: Mapping[Operation, str] = {
        "chat": settings.default_model,
        "embed": settings.default_embed_model,
        "transcribe": settings.default_transcription_model,
    }
    return {operation: f"{instance}/{model}" for operation, model in named.items() if model}
