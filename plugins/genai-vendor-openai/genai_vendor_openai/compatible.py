"""The provider `openai-compatible`: any server with an OpenAI-compatible API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import asdict

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Operation,
    Services,
    listed_models,
)
from genai_host.errors import ConfigurationError
from genai_vendor_openai import CompatibleSettings, DialectName
from genai_vendor_openai.openai import OF_SERVERS, PATIENT

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
