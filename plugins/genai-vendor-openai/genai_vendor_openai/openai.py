"""The providers `openai`, OpenAI's own service, and `openai-compatible`, any server with such an
API. Parameters of compatible servers, beyond its own.

Source of the parameters: vLLM, "OpenAI-Compatible Server", extra parameters; llama.cpp,
`tools/server/README.md`; LM Studio, "Chat Completions"; OpenRouter, "Parameters"; SGLang, "Sampling
Parameters"; as of November 2026. The server itself validates names and ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import asdict
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.operations import OpenAIEmbed
from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Operation,
    Services,
    listed_models,
    parameter,
)
from genai_host.errors import ConfigurationError
from genai_vendor_openai import CompatibleSettings, OpenAISettings


def _numbers(**described: str) -> dict[str, Any]:
    return {
        name: {"type": "number", "description": description}
        for name, description in described.items()
    }


OF_SERVERS: Mapping[str, Any] = {
    **_numbers(
        top_k="number of likeliest tokens to sample from",
        min_p="minimum probability of a token, relative to the likeliest one",
        top_a="top-a sampling: minimum, relative to the square of the largest probability",
        typical_p="locally typical sampling threshold",
        repetition_penalty="repetition penalty; above 1 reduces repetition",
        repeat_penalty="repetition penalty; above 1 reduces repetition",
        repeat_last_n="number of last tokens that the repetition penalty considers",
        length_penalty="length penalty of beam search; above 0 favors longer answers",
        min_tokens="minimum number of tokens of the answer",
        dynatemp_range="range of the dynamic temperature",
        dynatemp_exponent="exponent of the dynamic temperature",
        xtc_probability="XTC sampling: probability of removing the likeliest tokens",
        xtc_threshold="XTC sampling: minimum probability of removed tokens",
        dry_multiplier="DRY sampling: multiplier; above 0 reduces repeated sequences",
        dry_base="DRY sampling: base of the penalty",
        dry_allowed_length="DRY sampling: length that can be repeated without a penalty",
        dry_penalty_last_n="DRY sampling: number of last tokens to consider",
        mirostat="version of Mirostat; 0 for none",
        mirostat_tau="Mirostat: target entropy",
        mirostat_eta="Mirostat: learning rate",
        top_n_sigma="top-n-sigma sampling: standard deviations below the likeliest token",
        id_slot="slot that computes the answer",
    ),
    "chat_template_kwargs": parameter(
        "object", 'values for the model\'s chat template, such as {"enable_thinking": false}'
    ),
    "ignore_eos": {"type": "boolean", "description": "ignore the end-of-sequence token"},
    "skip_special_tokens": {"type": "boolean", "description": "omit special tokens"},
    "cache_prompt": {"type": "boolean", "description": "cache the prompt for the next request"},
    "stop_token_ids": {"type": "array", "description": "token ids that end the answer"},
    "bad_words": {"type": "array", "description": "words that must not occur"},
    "grammar": {"type": "string", "description": "grammar that the answer must match"},
    "structured_outputs": {"type": "object", "description": "constraint of the answer"},
    "guided_json": {"description": "JSON Schema that the answer must match"},
    "guided_regex": parameter("string", "regular expression that the answer must match"),
    "guided_choice": {"type": "array", "description": "allowed answers"},
    "guided_grammar": {"type": "string", "description": "grammar that the answer must match"},
    "enable_thinking": {"type": "boolean", "description": "enable reasoning"},
    "thinking": {"type": "object", "description": "reasoning settings"},
    "reasoning": {"type": "object", "description": "reasoning budget in tokens"},
    "provider": {"type": "object", "description": "provider preferences of a gateway"},
    "models": {"type": "array", "description": "fallback models of a gateway"},
    "plugins": {"type": "array", "description": "plugins of a gateway"},
    "transforms": {"type": "array", "description": "prompt transforms of a gateway"},
}
"""JSON Schema by parameter name, for `DialectEndpoint.parameters`."""


PATIENT: Mapping[str, float] = {"first_token_timeout": 300, "read_timeout": 300, "timeout": 1800}
"""Timeouts in seconds. A reasoning model can send nothing for minutes."""

HELD: Mapping[str, Any] = {"strict": True, "object_root": True}
"""How the service enforces schemas."""


class OpenAIProvider(HttpProvider):
    """Provider for OpenAI's API. At another address, undeclared models use chat completions first,
    because most servers support them.
    """

    default_models = {
        "chat": "gpt-6.1-sol",
        "embed": "text-embedding-3-small",
        "moderate": "omni-moderation",
        "transcribe": "gpt-4o-transcribe",
    }
    call_limits = PATIENT

    def __init__(self, settings: OpenAISettings, services: Services) -> None:
        named = {"OpenAI-Organization": settings.organization, "OpenAI-Project": settings.project}
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
    "openai-transcribe": DialectEndpoint(),
}
_ELSEWHERE: Mapping[str, DialectEndpoint] = {
    "openai-chat": DialectEndpoint(variant=HELD, parameters=OF_SERVERS),
    "openai-responses": DialectEndpoint(variant=HELD),
    "openai-count": DialectEndpoint(),
    "openai-embed": DialectEndpoint(),
    "openai-moderate": DialectEndpoint(model_ids="*moderation*"),
    "openai-transcribe": DialectEndpoint(),
}


_VARIANTS = {each.name: each.variant for each in (OpenAIChat, OpenAIResponses, OpenAIEmbed)}
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
