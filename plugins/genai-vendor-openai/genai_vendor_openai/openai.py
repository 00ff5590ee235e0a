"""The provider `openai`: OpenAI's own service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Secret,
    Services,
    about,
    listed_models,
)
from genai_vendor_openai.parameters import OF_SERVERS

_ADDRESS = "https://api.openai.com/v1"

PATIENT: Mapping[str, float] = {"first_token_timeout": 300, "read_timeout": 300, "timeout": 1800}
"""Timeouts in seconds. A reasoning model can send nothing for minutes."""

HELD: Mapping[str, Any] = {"strict": True, "object_root": True}
"""How the service enforces schemas."""


@frozen
class OpenAISettings:
    base_url: str = field(
        default=_ADDRESS, metadata=about("address of the service", env="OPENAI_BASE_URL")
    )
    api_key: Secret | None = field(default=None, metadata=about("API key", env="OPENAI_API_KEY"))
    organization: str = field(
        default="", metadata=about("organization that is billed", env="OPENAI_ORG_ID")
    )
    project: str = field(
        default="", metadata=about("project of the organization", env="OPENAI_PROJECT_ID")
    )


class OpenAIProvider(HttpProvider):
    """Provider for OpenAI's API. At another address, undeclared models use chat completions first,
    because most servers support them.
    """

    default_models = {
        "chat": "gpt-6.1-sol",
        "embed": "text-embedding-3-small",
        "moderate": "omni-moderation",
    }
    call_limits = PATIENT

    def __init__(self, settings: OpenAISettings, services: Services) -> None:
        named = {
            "OpenAI-Organization": settings.organization,
            "OpenAI-Project": settings.project,
        }
        headers = {name: value for name, value in named.items() if value}
        super().__init__(services, settings.base_url, headers, key=settings.api_key)
        self.serves = _OWN if _is_own(self.base_url) else _ELSEWHERE

    def unavailable_reason(self) -> str | None:
        return super().unavailable_reason() or (
            None if self.has_key else self.services.no_key("OPENAI_API_KEY")
        )

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        return listed_models(self.get("/models", limits))


def _is_own(base_url: str) -> bool:
    """Whether an address is OpenAI's own, including the regional ones."""
    host = urlsplit(base_url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


_OWN: Mapping[str, DialectEndpoint] = {
    "openai-responses": DialectEndpoint(variant=HELD),
    "openai-chat": DialectEndpoint(variant={**HELD, "max_tokens": "max_completion_tokens"}),
    "openai-count": DialectEndpoint(),
    "openai-embed": DialectEndpoint(variant={"encoding": "base64"}),
    "openai-moderate": DialectEndpoint(model_ids="*moderation*"),
}
_ELSEWHERE: Mapping[str, DialectEndpoint] = {
    "openai-chat": DialectEndpoint(variant=HELD, parameters=OF_SERVERS),
    "openai-responses": DialectEndpoint(variant=HELD),
    "openai-count": DialectEndpoint(),
    "openai-embed": DialectEndpoint(),
    "openai-moderate": DialectEndpoint(model_ids="*moderation*"),
}
