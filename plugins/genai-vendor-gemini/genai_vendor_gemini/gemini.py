"""The provider `gemini`: Google's Gemini API.

Source: Gemini API reference, "Models"; google-genai 3.4 for the environment variables; as
of November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from genai_wire_gemini.dialect.generate_content import (
    EmbedContent,
    GeminiCountTokens,
    GenerateContent,
)

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Services,
    malformed,
    objects_in,
    string_in,
)
from genai_vendor_gemini import GeminiSettings

_MOST_PAGES = 100

PATIENT: Mapping[str, float] = {"first_token_timeout": 300, "read_timeout": 300, "timeout": 1800}
"""Timeouts in seconds. A reasoning model can send nothing for minutes."""

_METHODS: Mapping[str, str] = {
    "generateContent": GenerateContent.name,
    "embedContent": EmbedContent.name,
}


class GeminiProvider(HttpProvider):
    default_models = {"chat": "gemini-3.8-flash", "embed": "gemini-embedding-2"}
    call_limits = PATIENT

    def __init__(self, settings: GeminiSettings, services: Services) -> None:
        super().__init__(
            services, settings.base_url, key=settings.api_key, auth_header="x-goog-api-key: {key}"
        )
        self._models = f"/{settings.api_version.strip('/')}/models"
        self.serves = serves(self._models)

    def unavailable_reason(self) -> str | None:
        return super().unavailable_reason() or (
            None if self.has_key else self.services.no_key("GEMINI_API_KEY")
        )

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        query = {"pageSize": "1000"}
        for _ in range(_MOST_PAGES):
            page = self.get(f"{self._models}?{urlencode(query)}", limits)
            if not isinstance(page, dict):
                raise malformed("it is not a list of models")
            yield from map(_listed, objects_in(page, "models"))
            token = string_in(page, "nextPageToken")
            if not token:
                return
            query["pageToken"] = token


def serves(models: str, *, ids: str = "*", nested: bool = False) -> dict[str, DialectEndpoint]:
    """The endpoints of Gemini's dialects below the path of the models. `ids` is the pattern of the
    ids of models for chat; embeddings and counts are `nested` in the format of Vertex AI."""
    generate, embed = GenerateContent.endpoint, EmbedContent.endpoint
    return {
        GenerateContent.name: DialectEndpoint(
            _below(models, generate.path), _below(models, generate.stream_path or ""), model_ids=ids
        ),
        EmbedContent.name: DialectEndpoint(
            _below(models, embed.path), model_ids="*embedding*", variant={"nested": nested}
        ),
        GeminiCountTokens.name: DialectEndpoint(
            _below(models, GeminiCountTokens.endpoint.path), variant={"wrapped": not nested}
        ),
    }


def _below(models: str, path: str) -> str:
    return models + path.removeprefix("/models")


def _listed(model: Mapping[str, Any]) -> ListedModel:
    """Convert a listed model; models for other purposes, such as images, get no capabilities."""
    methods = model.get("supportedGenerationMethods")
    if not isinstance(methods, list):
        raise malformed("a model has no methods")
    window = model.get("inputTokenLimit")
    return ListedModel(
        string_in(model, "name").removeprefix("models/"),
        dialects=[dialect for method, dialect in _METHODS.items() if method in methods],
        window=window if type(window) is int and window > 0 else None,
    )
