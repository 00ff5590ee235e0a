"""Google's Gemini models, through the Gemini API and Vertex AI.

provider `gemini`        the Gemini API, by a key
provider `vertex`        Vertex AI, by the credentials of Google Cloud; Claude as well
models `gemini-...`

Source of the models: their pages, their developer's guides and the table of thinking levels, in the
documentation of the Gemini API and of Google Cloud, as of November 2026. In models of the fourth
generation the prompt and the answer share the context window, and a request limits the answer;
earlier models limit both separately. Sampling parameters that a model ignores are rejected here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import (
    Model,
    Offering,
    Provider,
    ProviderType,
    Secret,
    Services,
    hookimpl,
    parameter,
    setting,
    standard_parameters,
)

__all__ = ["CHAT", "CLAUDE", "EMBED", "GeminiSettings", "VertexSettings"]


_WINDOW = 1_048_576
_MAX_OUTPUT = 65_536
_ABLE = {"tools", "schema", "images", "files", "reasoning"}
_EFFORTS = ["minimal", "low", "medium", "high", "xhigh"]
_GUIDES = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
_FROM_ELSEWHERE = "skip_thought_signature_validator"  # from the guide to thought signatures


def _thinking(name: str, efforts: str = "", *, guides: bool = False, budget: bool = True) -> Model:
    """A model with reasoning.

    Args:
        name: Name of the model.
        efforts: Lowest and highest `reasoning_effort`, for example `low-high`; empty if unknown.
        guides: Whether it honors sampling parameters.
        budget: Whether it accepts a reasoning budget.
    """
    return Model(
        name,
        dialects=["gemini"],
        capabilities=_ABLE,
        window=_WINDOW,
        max_output=_MAX_OUTPUT,
        parameters={
            **({} if guides else dict.fromkeys(_GUIDES, False)),
            **({} if budget else {"thinking_budget": False}),
            **({"reasoning_effort": _effort(efforts)} if efforts else {}),
            **standard_parameters(max_tokens={"maximum": _MAX_OUTPUT}),
        },
        variant={"gemini": {"unsigned_calls": _FROM_ELSEWHERE}},
        at=_at(name),
    )


def _embed(name: str, window: int, *, purpose: bool) -> Model:
    """An embedding model; `purpose` is whether it accepts a purpose."""
    return Model(
        name,
        dialects=["gemini-embed"],
        operation="embed",
        window=window,
        parameters={
            "dimensions": parameter("integer", "size of the vectors", minimum=128, maximum=3072),
            **({} if purpose else {"task_type": False}),
        },
        variant={} if purpose else {"gemini-embed": {"purpose": False}},
        at=_at(name),
    )


def _at(name: str) -> Mapping[str, str]:
    return {"gemini": name, "vertex": name}


def _effort(efforts: str) -> Mapping[str, Any]:
    least, _, most = efforts.partition("-")
    return parameter(
        "string",
        "reasoning effort",
        enum=_EFFORTS[_EFFORTS.index(least) : _EFFORTS.index(most) + 1],
    )


CHAT: Sequence[Model] = (
    _thinking("gemini-4-neon", "low-xhigh", budget=False),
    _thinking("gemini-4-hydrogen", "low-xhigh", budget=False),
    _thinking("gemini-4-carbon", "low-high", budget=False),
    _thinking("gemini-4-argon", "low-high", budget=False),
    _thinking("gemini-3.8-flash", "low-high"),
    _thinking("gemini-3.7-flash", "low-high"),
    _thinking("gemini-3.6-flash"),
    _thinking("gemini-3.5-flash-lite", "minimal-high"),
    _thinking("gemini-3.5-flash", "minimal-high", guides=True),
    _thinking("gemini-3.1-flash-lite", "minimal-high", guides=True),
    _thinking("gemini-3.1-pro-preview", "low-high", guides=True),
)

EMBED: Sequence[Model] = (
    _embed("gemini-embedding-2", 8192, purpose=False),
    _embed("gemini-embedding-001", 2048, purpose=True),
)

CLAUDE: Sequence[Offering] = tuple(
    Offering(name, "vertex", f"{name}@{date}" if date else name)
    for name, date in {
        "claude-fable-5": "",
        "claude-opus-5": "",
        "claude-opus-4-6": "",
        "claude-sonnet-4-6": "",
        "claude-opus-4-5": "20251101",
        "claude-sonnet-4-5": "20250929",
        "claude-haiku-4-5": "20251001",
    }.items()
)
"""Anthropic's models with an id in the guide "Claude on Vertex AI"."""


@frozen
class GeminiSettings:
    base_url: str = setting(
        "https://generativelanguage.googleapis.com",
        "address of the service, without its version",
        env="GOOGLE_GEMINI_BASE_URL",
    )
    api_key: Secret | None = setting(None, "API key", env=("GEMINI_API_KEY", "GOOGLE_API_KEY"))
    api_version: str = setting("v1beta", "version of the API, for example v1")


@frozen
class VertexSettings:
    project: str = setting("", "project that is billed", env="GOOGLE_CLOUD_PROJECT")
    location: str = setting(
        "global", "where models run, for example europe-west4", env="GOOGLE_CLOUD_LOCATION"
    )
    token: Secret | None = setting(
        None,
        "access token instead of application default credentials; not renewed",
        env="CLOUDSDK_AUTH_ACCESS_TOKEN",
    )
    base_url: str = setting(
        "", "URL of the service, if not that of its location", env="GOOGLE_VERTEX_BASE_URL"
    )
    api_version: str = setting("v1beta1", "version of the API for Gemini, for example v1")


def _open(settings: GeminiSettings, services: Services) -> Provider:
    from genai_vendor_gemini.gemini import GeminiProvider

    return GeminiProvider(settings, services)


def _open_vertex(settings: VertexSettings, services: Services) -> Provider:
    from genai_vendor_gemini.gemini import VertexProvider

    return VertexProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("gemini", GeminiSettings, _open)
    # a Google Cloud project can be set for other purposes, so the provider must be chosen
    # explicitly
    yield ProviderType("vertex", VertexSettings, _open_vertex, automatic=False)


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED]


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    return CLAUDE
