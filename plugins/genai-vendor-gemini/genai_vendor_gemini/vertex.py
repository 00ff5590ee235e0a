"""The provider `vertex`: Vertex AI, on Google Cloud.

Source: Vertex AI, "Locations" and "Use Claude models"; google-genai 3.4 for the addresses,
which differ by location, and for the environment variables; as of November 2026.
"""

from __future__ import annotations

import re

from attrs import evolve, field, frozen

from genai_host.api import (
    CachedToken,
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    HttpRequest,
    Secret,
    Services,
    about,
)
from genai_host.errors import ConfigurationError
from genai_vendor_gemini.credentials import Credentials
from genai_vendor_gemini.gemini import PATIENT, serves

_GLOBAL = "global"
_REGIONS_OF_SEVERAL = ("us", "eu")  # with different addresses
_NAME = re.compile(r"[a-z0-9][a-z0-9.:-]*")  # older projects have a domain: `example.com:mine`
_CLAUDE_VERSION = "vertex-2023-10-16"  # the only version in the guide; the SDK sends a newer one


@frozen
class VertexSettings:
    project: str = field(
        default="", metadata=about("project that is billed", env="GOOGLE_CLOUD_PROJECT")
    )
    location: str = field(
        default=_GLOBAL,
        metadata=about("where models run, for example europe-west4", env="GOOGLE_CLOUD_LOCATION"),
    )
    token: Secret | None = field(
        default=None,
        metadata=about(
            "access token instead of application default credentials; not renewed",
            env="CLOUDSDK_AUTH_ACCESS_TOKEN",
        ),
    )
    base_url: str = field(
        default="",
        metadata=about(
            "URL of the service, if not that of its location", env="GOOGLE_VERTEX_BASE_URL"
        ),
    )
    api_version: str = field(
        default="v1beta1", metadata=about("version of the API for Gemini, for example v1")
    )


class VertexProvider(HttpProvider):
    """Provider for Vertex AI. Credentials are read with the first call."""

    default_models = {"chat": "gemini-3.8-flash", "embed": "gemini-embedding-2"}
    call_limits = PATIENT

    def __init__(self, settings: VertexSettings, services: Services) -> None:
        self._project = _checked(settings.project, "project")
        location = _checked(settings.location, "location") or _GLOBAL
        self._credentials = None if settings.token else Credentials(services)
        super().__init__(
            services,
            settings.base_url or _address(location),
            key=settings.token,
            token=CachedToken(self._credentials, services.clock) if self._credentials else None,
        )
        place = f"projects/{self._project}/locations/{location}/publishers"
        version = settings.api_version.strip("/")
        claude = f"/v1/{place}/anthropic/models/{{model}}"
        self.serves = {
            **serves(f"/{version}/{place}/google/models", ids="gemini*", nested=True),
            "anthropic-messages": DialectEndpoint(
                f"{claude}:rawPredict",
                f"{claude}:streamRawPredict",
                extra_fields={"anthropic_version": _CLAUDE_VERSION},
                omit_fields=["model"],
                unsupported={"schema"},  # enforcement of schemas is undocumented here
                variant={"cache": "blocks"},
                model_ids="claude*",
            ),
            "anthropic-count": DialectEndpoint(
                f"/v1/{place}/anthropic/models/count-tokens:rawPredict",
                extra_fields={"anthropic_version": _CLAUDE_VERSION},
            ),
        }

    def unavailable_reason(self) -> str | None:
        if not self._project:
            return "no project: set GOOGLE_CLOUD_PROJECT"
        return super().unavailable_reason() or (
            self._credentials.missing() if self._credentials else None
        )

    def authorize(self, request: HttpRequest, limits: CancelToken) -> HttpRequest:
        """Add the project that is billed for the use of the credentials, if they name one."""
        project = self._credentials.quota_project if self._credentials else ""
        if not project:
            return request
        return evolve(request, headers={**request.headers, "x-goog-user-project": project})


def _address(location: str) -> str:
    if location == _GLOBAL:
        return "https://aiplatform.googleapis.com"
    if location in _REGIONS_OF_SEVERAL:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _checked(name: str, what: str) -> str:
    """Validate a name that becomes part of an address."""
    name = name.strip()
    if name and not _NAME.fullmatch(name):
        raise ConfigurationError(f"invalid Google Cloud {what} {name!r}", setting=what)
    return name
