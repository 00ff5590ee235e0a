"""Credentials, region and request signatures (Signature Version 4) from Amazon's own library.

The library is slow to import, and can read files or call other services, so it is used from the
first request on. It renews credentials before they expire.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attrs import evolve

from genai_host.api import HttpRequest, Secret
from genai_host.errors import AuthenticationFailed, ConfigurationError

R = TypeVar("R")

_SIGNED_FOR = "bedrock"
_OF_MACHINE = "iam-role"  # the library's name for credentials from the metadata service
_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
_WAYS = ("aws_access_key_id", "credential_process", "login_session", "role_arn", "sso_")


class Aws:
    """Region and credentials of AWS.

    Args:
        region: Region; empty for the region of the profile.
        profile: Profile in the user's files; empty for the default.
        keys: Access key, secret key and session token, which replace all other credentials.
        machine_role: Whether to query the metadata service of this machine.
    """

    def __init__(
        self,
        region: str = "",
        profile: str = "",
        keys: tuple[Secret, Secret, Secret | None] | None = None,
        *,
        machine_role: bool = False,
    ) -> None:
        self._region = region
        self._profile = profile
        self._keys = None if profile else keys
        self._machine_role = machine_role
        self._lock = threading.RLock()
        self._session: Any = None
        self._credentials: Any = None
        self._secrets: tuple[bytes, ...] = ()

    def missing(self) -> str | None:
        """Why there is no region, checked from files and the environment only."""
        if not self._region and not _is_there("AWS_CONFIG_FILE"):
            return "no region: set AWS_REGION"
        return None

    def missing_credentials(self) -> str | None:
        found = self._keys or self._profile or self._machine_role
        if found or any(os.environ.get(name) for name in _VARIABLES):
            return None
        if _is_there("AWS_SHARED_CREDENTIALS_FILE") or _has_credential_source():
            return None
        return "no credentials: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and its secret"

    def region(self) -> str:
        """Return the region. Raises `ConfigurationError` if none is configured."""
        if not self._region:
            self._region = (
                _call_botocore(lambda: self._opened().get_config_variable("region")) or ""
            )
        if not self._region:
            raise ConfigurationError("no region is set for Bedrock", hint="set AWS_REGION")
        return self._region

    def sign(self, request: HttpRequest) -> HttpRequest:
        """Return the request with a signature, which is valid for minutes.

        Raises:
            AuthenticationFailed: There are no valid credentials.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        frozen = _call_botocore(lambda: self._found().get_frozen_credentials())
        self._secrets = tuple(
            value.encode() for value in (frozen.secret_key, frozen.token) if value
        )
        signed = AWSRequest(request.method, request.url, dict(request.headers), request.body)
        SigV4Auth(frozen, _SIGNED_FOR, self.region()).add_auth(signed)
        return evolve(request, headers={name: str(value) for name, value in signed.headers.items()})

    def without_secrets(self, body: bytes) -> bytes:
        """Mask secrets in an error message, which can quote the signed headers."""
        for secret in self._secrets:
            body = body.replace(secret, b"***")
        return body

    def _found(self) -> Any:
        with self._lock:
            if self._credentials is None:
                self._credentials = self._look_up()
        if self._credentials is None:
            raise AuthenticationFailed(
                "no AWS credentials found",
                hint="set AWS_BEARER_TOKEN_BEDROCK, or sign in: aws configure, aws sso login",
            )
        return self._credentials

    def _look_up(self) -> Any:
        if self._keys is not None:
            from botocore.credentials import Credentials

            access, secret, token = self._keys
            revealed = token.reveal().strip() if token else None
            return Credentials(access.reveal().strip(), secret.reveal().strip(), revealed)
        return self._opened().get_credentials()

    def _opened(self) -> Any:
        with self._lock:
            if self._session is None:
                from botocore.session import Session

                session = Session(profile=self._profile or None)
                if not self._machine_role:
                    session.get_component("credential_provider").remove(_OF_MACHINE)
                self._session = session
            return self._session


def _is_there(variable: str) -> bool:
    """Whether the file named by a variable, or its default path, exists."""
    return _path(variable).is_file()


def _path(variable: str) -> Path:
    return Path(os.environ.get(variable) or _FILES[variable]).expanduser()


def _has_credential_source() -> bool:
    """Whether the AWS configuration contains a source of credentials, not only a region."""
    try:
        text = _path("AWS_CONFIG_FILE").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(name in text for name in _WAYS)


def _call_botocore(act: Callable[[], R]) -> R:
    """Call the library and convert its errors, without text that they quote."""
    from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound

    try:
        return act()
    except ProfileNotFound as error:
        raise ConfigurationError(f"AWS: {error}", hint="see ~/.aws/config") from None
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        raise AuthenticationFailed(
            f"cannot get AWS credentials: {type(error).__name__}",
            hint="sign in again, for example: aws sso login",
        ) from error
