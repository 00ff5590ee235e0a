"""OpenAI, Azure OpenAI, and servers with compatible APIs.

provider `openai`              OpenAI's own service
provider `azure-openai`        deployments of one Azure resource
provider `openai-compatible`   any address that speaks OpenAI's formats, as a named
                               instance: vLLM, Groq, OpenRouter, LM Studio, llama.cpp
models `gpt-...`, `o3`, `text-embedding-3-...`

Source of the models: the documentation of models, the guide to reasoning and the list of
deprecations, as of November 2026. Reasoning models require `max_completion_tokens` and the role
`developer`, and prefer the dialect for responses, which continues reasoning across tool calls. The
latest ones support tools only there. Unless reasoning is off they reject sampling parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from genai_host.api import (
    Model,
    Provider,
    ProviderType,
    Secret,
    Services,
    about,
    hookimpl,
    parameter,
    setting,
    standard_parameters,
)

_WINDOW_OF_6 = 1_050_000
_WINDOW_OF_5 = 400_000
_ABLE = {"tools", "schema", "images", "files"}
_GUIDES = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "stop")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_VERBOSITY: Mapping[str, Any] = parameter(
    "string", "length of the answer", enum=["low", "medium", "high"]
)

__all__ = [
    "CHAT",
    "EMBED",
    "MODERATE",
    "TRANSCRIBE",
    "AzureSettings",
    "CompatibleSettings",
    "OpenAISettings",
]


def _thinking(
    name: str,
    efforts: str,
    window: int,
    max_output: int = 128_000,
    *,
    alias: str = "",
    guides: Sequence[str] = (),
    verbosity: bool = True,
    retired: bool = False,
) -> Model:
    """A model with reasoning.

    Args:
        name: Name of the model.
        efforts: Lowest and highest `reasoning_effort`, for example `low-max`.
        window: Context window in tokens.
        max_output: Maximum number of output tokens.
        alias: Another name; may be empty.
        guides: Sampling parameters that it accepts.
        verbosity: Whether it accepts `verbosity`.
        retired: Whether OpenAI has retired it, though others may offer it.
    """
    return Model(
        name,
        dialects=["openai-responses", "openai-chat"],
        aliases=[alias] if alias else [],
        capabilities={*_ABLE, "reasoning"},
        window=window,
        max_output=max_output,
        parameters={
            **{guide: False for guide in _GUIDES if guide not in guides},
            **({"verbosity": _VERBOSITY} if verbosity else {}),
            **standard_parameters(max_tokens={"maximum": max_output}),
            "reasoning_effort": _effort(efforts),
        },
        variant={
            "openai-chat": {"max_tokens": "max_completion_tokens", "system_role": "developer"},
            "openai-responses": {"encrypted_reasoning": True, "system_role": "developer"},
        },
        at={} if retired else _at(name),
    )


def _direct(name: str, window: int, max_output: int, *, retired: bool = False) -> Model:
    """A model without reasoning."""
    return Model(
        name,
        dialects=["openai-chat", "openai-responses"],
        capabilities=_ABLE,
        window=window,
        max_output=max_output,
        parameters={
            **standard_parameters(max_tokens={"maximum": max_output}),
            "reasoning_effort": False,
            "reasoning_summary": False,
        },
        at={} if retired else _at(name),
    )


def _embed(name: str, dimensions: int | None) -> Model:
    """An embedding model; `dimensions` is their maximum number, None if they are fixed."""
    return Model(
        name,
        dialects=["openai-embed"],
        operation="embed",
        window=8192,
        parameters={
            "dimensions": dimensions is not None
            and parameter("integer", "size of the vectors", minimum=1, maximum=dimensions)
        },
        at=_at(name),
    )


def _at(name: str) -> Mapping[str, str]:
    """Return the ids; an Azure deployment has its model's name unless an instance maps it."""
    return {"openai": name, "azure-openai": name}


def _effort(efforts: str) -> Mapping[str, Any]:
    least, _, most = efforts.partition("-")
    known = [effort for effort in _EFFORTS if effort != "minimal" or least == "minimal"]
    return parameter(
        "string", "reasoning effort", enum=known[known.index(least) : known.index(most) + 1]
    )


_WITHOUT_THINKING = ("temperature", "top_p")  # accepted without reasoning, the default

CHAT: Sequence[Model] = (
    _thinking("gpt-6.2-astra", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6.2-sol", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6.1-sol", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6.1-terra", "none-max", _WINDOW_OF_6),
    _thinking("gpt-6-astra", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6-sol", "none-max", _WINDOW_OF_6),
    _thinking("gpt-6-luna", "none-max", _WINDOW_OF_6),
    _thinking("gpt-5.6-sol", "none-max", _WINDOW_OF_6, alias="gpt-5.6"),
    _thinking("gpt-5.6-terra", "none-max", _WINDOW_OF_6),
    _thinking("gpt-5.6-luna", "none-max", _WINDOW_OF_6),
    _thinking("gpt-5.5", "none-xhigh", _WINDOW_OF_6),
    _thinking("gpt-5.4", "none-xhigh", _WINDOW_OF_6, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.4-mini", "none-xhigh", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.4-nano", "none-xhigh", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.2", "none-xhigh", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.1", "none-high", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5", "minimal-high", _WINDOW_OF_5),
    _thinking("gpt-5-mini", "minimal-high", _WINDOW_OF_5),
    _thinking("gpt-5-nano", "minimal-high", _WINDOW_OF_5),
    _thinking("o3", "low-high", 200_000, 100_000, verbosity=False),
    _thinking("o4-mini", "low-high", 200_000, 100_000, verbosity=False, retired=True),
    _direct("gpt-4.1", 1_047_576, 32_768),
    _direct("gpt-4.1-mini", 1_047_576, 32_768),
    _direct("gpt-4.1-nano", 1_047_576, 32_768, retired=True),
    _direct("gpt-4o", 128_000, 16_384),
    _direct("gpt-4o-mini", 128_000, 16_384),
)

MODERATE: Sequence[Model] = (
    Model(
        "omni-moderation",
        dialects=["openai-moderate"],
        aliases=["omni-moderation-latest"],
        operation="moderate",
        at={"openai": "omni-moderation-latest"},
    ),
)

TRANSCRIBE: Sequence[Model] = tuple(
    Model(name, dialects=["openai-transcribe"], operation="transcribe", at=_at(name))
    for name in ("gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-1")
)

EMBED: Sequence[Model] = (
    _embed("text-embedding-3-small", 1536),
    _embed("text-embedding-3-large", 3072),
    _embed("text-embedding-ada-002", None),
)


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
    from genai_vendor_openai.openai import AzureProvider

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
