"""Google's Gemini models, through the Gemini API and Vertex AI.

provider `gemini`        the Gemini API, by a key
provider `vertex`        Vertex AI, by the credentials of Google Cloud; Claude as well
models `gemini-...`
"""

from __future__ import annotations

from collections.abc import Iterable
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
    setting,
)
from genai_vendor_gemini.models import CHAT, CLAUDE, EMBED

__all__ = ["CHAT", "CLAUDE", "EMBED", "GeminiSettings", "VertexSettings"]


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
    from genai_vendor_gemini.vertex import VertexProvider

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
