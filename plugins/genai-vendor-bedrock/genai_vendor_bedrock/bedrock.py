"""The provider `bedrock`: Amazon Bedrock, with an API key or signed requests.

Source: Amazon Bedrock API reference and user guide, "Amazon Bedrock endpoints", "API keys",
"Supported Regions and models for inference profiles", "Anthropic Claude tool use"; AWS SDKs and
Tools reference guide, "Service-specific endpoints"; as of November 2026.

Amazon's own library signs requests. It is slow to import, and can read files or call other
services, so it is used from the first request on. It renews credentials before they expire.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from attrs import define, evolve, field

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    HttpRequest,
    ListedModel,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    Secret,
    Services,
)
from genai_host.errors import AuthenticationFailed, ConfigurationError, GenaiError, MalformedReply
from genai_vendor_bedrock import BedrockSettings
from genai_vendor_bedrock.event_stream import FRAMINGS
from genai_vendor_bedrock.failures import explain_error

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
_FILES = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
_WAYS = ("aws_access_key_id", "credential_process", "login_session", "role_arn", "sso_")


@define(eq=False, repr=False, slots=False)
class Aws:
    """Region and credentials of AWS.

    Args:
        region: Region; empty for the region of the profile.
        profile: Profile in the user's files; empty for the default.
        keys: Access key, secret key and session token, which replace all other credentials.
        machine_role: Whether to query the metadata service of this machine.
    """

    _region: str
    _profile: str
    _keys: tuple[Secret, Secret, Secret | None] | None
    _machine_role: bool
    _lock: threading.RLock = field(init=False, factory=threading.RLock)
    _session: Any = field(init=False, default=None)
    _credentials: Any = field(init=False, default=None)
    _secrets: tuple[bytes, ...] = field(init=False, default=())

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


_MAX_PAGES = 100
_TOOLS = ["bash_", "computer_", "memory_", "text_editor_", "tool_search_tool_"]
"""Tools of Anthropic that Bedrock has. It neither searches the web nor runs code for Claude."""
_GLOBAL, _NEAR = "global.", "geo."
_NEAR_OF_REGION = {"us-gov": "us-gov", "us": "us", "ca": "us", "eu": "eu", "ap": "apac"}


class _Signed(HttpProvider):
    """One endpoint of the service, with the API key or a signature per request."""

    def __init__(self, services: Services, base_url: str, key: Secret | None, aws: Aws) -> None:
        super().__init__(services, base_url, key=key)
        self._aws = aws

    def authorize(self, request: HttpRequest, limits: CancelToken) -> HttpRequest:
        return request if self.has_key else self._aws.sign(request)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


class BedrockProvider(_Signed):
    """Provider for Bedrock. Unless an endpoint is set, the address depends on the region, which is
    determined by the first request.
    """

    framings = FRAMINGS
    default_models = {"chat": "nova-2-lite"}
    call_limits = {
        "first_token_timeout": 300,
        "read_timeout": 300,
        "timeout": 1800,
    }  # a model can reason for minutes

    def __init__(self, settings: BedrockSettings, services: Services) -> None:
        access, secret = settings.access_key_id, settings.secret_access_key
        keys = (access, secret, settings.session_token) if access and secret else None
        profile = settings.profile.strip()
        aws = Aws(
            settings.region.strip(), profile, None if profile else keys, settings.machine_role
        )
        super().__init__(services, settings.endpoint, settings.bearer_token, aws)
        self.serves = _serves(settings.betas)
        self._control_url = settings.control_endpoint
        self._geography = settings.geography.strip().rstrip(".")

    def unavailable_reason(self) -> str | None:
        no_credentials = None if self.has_key else self._aws.missing_credentials()
        needs_region = not (self.base_url and self.has_key)
        return no_credentials or (self._aws.missing() if needs_region else None)

    def provider_model_id(self, model_id: str) -> str:
        """Replace the prefixes `global.` and `geo.` by the location of the inference profile."""
        before, _, id = model_id.partition(".")
        if before == _NEAR[:-1]:
            return f"{self._geography or _geography_of(self._aws.region())}.{id}"
        if before == _GLOBAL[:-1] and self._geography:
            return f"{self._geography}.{id}"
        return model_id

    def address(self, request: ProviderRequest) -> str:
        if not self.base_url:
            self.base_url = self._url("bedrock-runtime")
        return super().address(request)

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self._shown(super().send(request, limits))

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        reply = super().stream(request, limits)
        return self._shown(reply) if isinstance(reply, ProviderReply) else reply

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        url = self._control_url or self._url("bedrock")
        control = _Signed(self.services, url, self._key, self._aws)
        yield from _models(control.get("/foundation-models?byOutputModality=TEXT", limits))
        yield from _profiles(control, limits)

    def _shown(self, reply: ProviderReply) -> ProviderReply:
        if reply.status < 400:
            return reply
        return evolve(reply, body=self._aws.without_secrets(reply.body))

    def _url(self, service: str) -> str:
        region = self._aws.region()
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://{service}.{region}.{domain}"


def _serves(betas: Sequence[str]) -> Mapping[str, DialectEndpoint]:
    version = {"anthropic_version": "bedrock-2023-05-31"}
    return {
        "anthropic-messages": DialectEndpoint(
            "/model/{model}/invoke",
            stream_path="/model/{model}/invoke-with-response-stream",
            omit_fields=["model", "stream"],
            extra_fields={**version, **({"anthropic_beta": [*betas]} if betas else {})},
            parameters={"betas": False},  # a setting, since they are in the body
            variant={"cache": "blocks", "unknown_fields": False, "vendor_tools": _TOOLS},
            model_ids="*anthropic.claude-*",
        ),
        "bedrock-converse": DialectEndpoint(),
        "bedrock-count": DialectEndpoint(),
    }


def _geography_of(region: str) -> str:
    """Return the location prefix of a region's inference profiles; its own if it is unknown."""
    before = region.rsplit("-", 2)[0]
    return _NEAR_OF_REGION.get(before, before)


def _models(page: Any) -> Iterator[ListedModel]:
    """Yield the models that run without an inference profile."""
    try:
        for model in page["modelSummaries"]:
            if "ON_DEMAND" in model["inferenceTypesSupported"]:
                yield ListedModel(model["modelId"])
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


def _profiles(control: HttpProvider, limits: CancelToken) -> Iterator[ListedModel]:
    """Yield the inference profiles, which have separate ids."""
    query = {"maxResults": "1000"}
    for _ in range(_MAX_PAGES):
        page = control.get(f"/inference-profiles?{urlencode(query)}", limits)
        try:
            for profile in page["inferenceProfileSummaries"]:
                yield ListedModel(profile["inferenceProfileId"])
            after = page.get("nextToken")
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedReply(f"the reply is not a list of profiles: {error!r}") from error
        if not isinstance(after, str) or not after:
            return
        query["nextToken"] = after
