"""The providers `gemini`, Google's Gemini API, and `vertex`, Vertex AI on Google Cloud.

Source: Gemini API reference, "Models"; Vertex AI, "Locations" and "Use Claude models"; google-genai
3.4 for the addresses, which differ by location, and for the environment variables; google-auth 2,
`google.auth.default` and `google.auth.transport`; as of November 2026.

google-auth is imported when a token is needed, because the import is slow. It uses the host's HTTP,
with its proxies, certificates and deadlines.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

from attrs import evolve, frozen
from genai_wire_gemini.dialect.generate_content import (
    EmbedContent,
    GeminiCountTokens,
    GenerateContent,
)

from genai_host.api import (
    AccessToken,
    CachedToken,
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    HttpRequest,
    ListedModel,
    Secret,
    Services,
    malformed,
    objects_in,
    string_in,
)
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    GenaiError,
    ServiceUnavailable,
)
from genai_vendor_gemini import GeminiSettings, VertexSettings

_MAX_PAGES = 100

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
        for _ in range(_MAX_PAGES):
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


_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_INSTALL = "genai-host install 'genai-vendor-gemini[vertex]'"


class Credentials:
    """Fetches tokens for `CachedToken`. `quota_project` is billed for the use of the credentials;
    it is empty before they are read, or if they name none."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._found: Any = None
        self.quota_project = ""

    def missing(self) -> str | None:
        """Why no token can be fetched, checked from the installed packages."""
        return None if _is_installed() else f"google-auth is not installed: {_INSTALL}"

    def __call__(self, limits: CancelToken) -> AccessToken:
        """Fetch a token. Raises `AuthenticationFailed`, `ServiceUnavailable` or the limits'
        error.
        """
        if not _is_installed():
            raise ConfigurationError("google-auth is not installed", hint=_INSTALL)
        import google.auth
        from google.auth import exceptions

        send = _transport(self._services, limits)
        try:
            if self._found is None:
                self._found, _ = google.auth.default(scopes=[_SCOPE], request=send)
            self._found.refresh(send)
        except exceptions.DefaultCredentialsError as error:
            raise AuthenticationFailed(
                "no application default credentials for Google Cloud",
                hint="gcloud auth application-default login",
            ) from error
        except exceptions.TransportError as error:
            limits.check()
            raise ServiceUnavailable("cannot get a token from Google Cloud") from error
        except exceptions.GoogleAuthError as error:  # its message can contain a token
            raise AuthenticationFailed(
                "the application default credentials of Google Cloud are not valid",
                hint="gcloud auth application-default login",
            ) from error
        self.quota_project = getattr(self._found, "quota_project_id", None) or ""
        return AccessToken(Secret(self._found.token), self._seconds())

    def _seconds(self) -> float | None:
        """Return the seconds until the token expires."""
        end = self._found.expiry  # in UTC, but without a time zone
        if not isinstance(end, datetime.datetime):
            return None
        return (end.replace(tzinfo=datetime.UTC) - self._services.clock.now()).total_seconds()


@frozen
class _Reply:
    """Response with the interface of `google.auth.transport.Response`."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def _transport(services: Services, limits: CancelToken) -> Any:
    """Return a transport with the interface of `google.auth.transport.Request`: the host's HTTP,
    with the limits of the call that needs a token.
    """
    from google.auth import exceptions

    def send(
        url: str,
        method: str = "GET",
        body: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **_: object,
    ) -> _Reply:
        data = body.encode() if isinstance(body, str) else body or b""
        try:
            reply = services.http.send(HttpRequest(method, url, dict(headers or {}), data), limits)
        except GenaiError as error:
            limits.check()  # a cancelled call has its own error
            failure = exceptions.TransportError(error)  # type: ignore[no-untyped-call]  # so it is
            raise failure from error
        return _Reply(reply.status, reply.headers, reply.body)

    return send


def _is_installed() -> bool:
    try:
        return find_spec("google.auth") is not None
    except ModuleNotFoundError:  # no Google package is installed
        return False


_GLOBAL = "global"
_REGIONS_OF_SEVERAL = ("us", "eu")  # with different addresses
_NAME = re.compile(r"[a-z0-9][a-z0-9.:-]*")  # older projects have a domain: `example.com:mine`
_CLAUDE_VERSION = "vertex-2023-10-16"  # the only version in the guide; the SDK sends a newer one


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
