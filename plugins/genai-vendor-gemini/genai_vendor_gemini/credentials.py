"""Access tokens for Google Cloud from the application default credentials.

Source: google-auth 2, `google.auth.default`, `google.auth.transport`. It is imported when a token
is needed, because the import is slow. It uses the host's HTTP, with its proxies, certificates and
deadlines.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from attrs import frozen

from genai_host.api import AccessToken, CancelToken, HttpRequest, Secret, Services
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    GenaiError,
    ServiceUnavailable,
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
