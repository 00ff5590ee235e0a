"""The provider `azure-openai`: the deployments of one Azure resource.

Source: "Azure OpenAI in Azure AI Foundry Models API lifecycle". Since August 2025 there is a v1 API
without versions, in which the model name is the name of a deployment. The older, dated versions
have the deployment in the path.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from genai_host.api import (
    CachedToken,
    DialectEndpoint,
    HttpProvider,
    ProviderReply,
    Secret,
    Services,
    about,
    read_json,
)
from genai_host.errors import BadRequest, GenaiError
from genai_vendor_openai.openai import HELD, PATIENT
from genai_vendor_openai.token_command import TokenCommand

_V1 = ("", "v1", "latest", "preview")
_FIRST_WITH_RESPONSES = "2025-03-01"
_NO_DEPLOYMENT = ("DeploymentNotFound", "unknown_model")


@frozen
class AzureSettings:
    endpoint: str = field(
        default="",
        metadata=about(
            "address of the resource, for example https://my-resource.openai.azure.com",
            env="AZURE_OPENAI_ENDPOINT",
        ),
    )
    api_key: Secret | None = field(
        default=None, metadata=about("API key", env="AZURE_OPENAI_API_KEY")
    )
    token: Secret | None = field(
        default=None,
        metadata=about("Microsoft Entra ID token instead of a key", env="AZURE_OPENAI_AD_TOKEN"),
    )
    token_command: tuple[str, ...] = field(
        default=(),
        metadata=about("command that prints such a token; takes precedence over both"),
    )
    api_version: str = field(
        default="",
        metadata=about(
            "dated API version, for example 2024-10-21; empty for the v1 API, "
            "`preview` for its previews",
            env="OPENAI_API_VERSION",
        ),
    )


class AzureProvider(HttpProvider):
    """Provider for Azure deployments. A deployment is assumed to have the name of its model, unless
    an instance maps the names.
    """

    call_limits = PATIENT

    def __init__(self, settings: AzureSettings, services: Services) -> None:
        version = settings.api_version.strip()
        command = TokenCommand(settings.token_command, services.clock)
        self._command = command if settings.token_command else None
        by_token = self._command is not None or settings.token is not None
        super().__init__(
            services,
            _base_url(settings.endpoint, version),
            key=None if self._command else settings.token or settings.api_key,
            auth_header="Authorization: Bearer {key}" if by_token else "api-key: {key}",
            token=CachedToken(command, services.clock) if self._command else None,
        )
        self.serves = _serves(version)

    def unavailable_reason(self) -> str | None:
        if not self.base_url:
            return "no endpoint: set AZURE_OPENAI_ENDPOINT"
        if self._command is not None:
            return self._command.missing()
        return None if self.has_key else self.services.no_key("AZURE_OPENAI_API_KEY")

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        if reply.status != 404 or not _is_about_a_deployment(reply):
            return None
        return BadRequest(
            "the resource has no deployment of this name",
            hint='name your deployment in the configuration: models = { gpt-5 = "mine" }',
            status=reply.status,
        )


def _base_url(endpoint: str, version: str) -> str:
    """Return the base URL for an address from the portal, or in another client's form."""
    resource = endpoint.strip().rstrip("/").removesuffix("/v1").removesuffix("/openai")
    if not resource:
        return ""
    return f"{resource}/openai/v1" if version in _V1 else f"{resource}/openai"


def _serves(version: str) -> Mapping[str, DialectEndpoint]:
    query = {"api-version": version} if version not in ("", "v1") else {}
    by_deployment = "" if version in _V1 else "/deployments/{model}"
    responses = DialectEndpoint(query=query, variant=HELD)
    others = {
        "openai-chat": DialectEndpoint(
            f"{by_deployment}/chat/completions",
            query=query,
            unsupported={"files"},
            variant={**HELD, "max_tokens": "max_completion_tokens"},
        ),
        "openai-embed": DialectEndpoint(
            f"{by_deployment}/embeddings", query=query, variant={"encoding": "base64"}
        ),
    }
    has_responses = version in _V1 or version >= _FIRST_WITH_RESPONSES
    return {"openai-responses": responses, **others} if has_responses else others


def _is_about_a_deployment(reply: ProviderReply) -> bool:
    try:
        error = read_json(reply.body)["error"]
        return error["code"] in _NO_DEPLOYMENT
    except (ValueError, LookupError, TypeError):
        return False
