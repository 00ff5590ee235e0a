"""The provider `anthropic`: Anthropic's own service.

Source: Claude API reference, "API overview", "Versions", "Beta headers", "List Models",
as of November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from genai_host.api import CancelToken, DialectEndpoint, HttpProvider, ListedModel, Services
from genai_host.errors import MalformedReply
from genai_vendor_anthropic import AnthropicSettings

_WITHOUT_GUIDES = "2026-10-21"  # the first version that rejects sampling parameters:
_GUIDES = ("temperature", "top_p", "top_k")
_DROPS_STALE_THINKING = "thinking-binding-controls-2026-08-01"
_MAX_PAGES = 100

PATIENT: Mapping[str, float] = {"first_token_timeout": 300, "read_timeout": 300, "timeout": 1800}
"""Timeouts in seconds. A reasoning model can send nothing for minutes."""

_CAPABILITIES: Mapping[str, str] = {
    "image_input": "images",
    "pdf_input": "files",
    "structured_outputs": "schema",
    "thinking": "reasoning",
}
"""Capabilities: the service's names and the host's."""


class AnthropicProvider(HttpProvider):
    """Provider for Anthropic's API. A key takes precedence over a token, as in Anthropic's SDKs.
    Other servers may require neither.
    """

    default_models = {"chat": "claude-opus-5-5"}
    call_limits = PATIENT
    list_headers = frozenset({"anthropic-beta"})

    def __init__(self, settings: AnthropicSettings, services: Services) -> None:
        by_token = settings.api_key is None and settings.auth_token is not None
        drops = settings.drop_stale_thinking
        betas = [*settings.betas, *([_DROPS_STALE_THINKING] if drops else [])]
        super().__init__(
            services,
            settings.base_url,
            {
                "anthropic-version": settings.version,
                **({"anthropic-beta": ",".join(betas)} if betas else {}),
            },
            key=settings.auth_token if by_token else settings.api_key,
            auth_header="Authorization: Bearer {key}" if by_token else "x-api-key: {key}",
        )
        refused = _GUIDES if settings.version >= _WITHOUT_GUIDES else ()
        self.serves = {
            "anthropic-messages": DialectEndpoint(
                unsupported=settings.lacks,
                parameters=dict.fromkeys(refused, False),
                variant={
                    "cache": settings.cache,
                    **({"stale_thinking": "drop_block"} if drops else {}),
                },
            ),
            "anthropic-count": DialectEndpoint(),
        }

    def unavailable_reason(self) -> str | None:
        lacks_key = _is_own(self.base_url) and not self.has_key
        return super().unavailable_reason() or (
            self.services.no_key("ANTHROPIC_API_KEY") if lacks_key else None
        )

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        query = {"limit": "1000"}
        for _ in range(_MAX_PAGES):
            page = self.get(f"/v1/models?{urlencode(query)}", limits)
            yield from _listed(page)
            last = page.get("last_id")
            if not page.get("has_more") or not isinstance(last, str):
                return
            query["after_id"] = last


def _is_own(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def _listed(page: Any) -> Iterator[ListedModel]:
    try:
        for model in page["data"]:
            yield ListedModel(
                model["id"],
                capabilities=_capabilities(model.get("capabilities")),
                window=_window(model.get("max_input_tokens")),
            )
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


def _capabilities(listed: Any) -> frozenset[str] | None:
    """Return the listed capabilities, plus tools, which all models support but none lists."""
    if not isinstance(listed, Mapping):
        return None
    found = {name for key, name in _CAPABILITIES.items() if _is_supported(listed.get(key))}
    return frozenset({"tools", *found})


def _is_supported(capability: Any) -> bool:
    return isinstance(capability, Mapping) and capability.get("supported") is True


def _window(tokens: Any) -> int | None:
    return tokens if type(tokens) is int and tokens > 0 else None
