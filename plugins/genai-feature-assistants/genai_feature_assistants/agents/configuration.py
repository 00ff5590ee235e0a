"""How a service is used: its address and its credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlsplit

import attrs
from attrs import field, frozen

from genai_feature_assistants.agents.definitions import Definitions, MemoryDefinitions
from genai_host.api import TEXT, TEXT_OR_NONE, Must, Secret
from genai_host.errors import ConfigurationError

if TYPE_CHECKING:
    from genai_feature_assistants.agents.client import ServiceClient

ServiceType = Literal["openai", "azure_openai", "host"]
ApiName = Literal["assistants", "responses"]

_ENDPOINTS = {"openai": "https://api.openai.com/v1/", "host": "http://127.0.0.1:8642/v1/"}


def _secret(given: str | Secret | None) -> Secret | None:
    if isinstance(given, str):
        return Secret(given) if given else None
    return given


def _has(*names: str) -> Callable[[Any], bool]:
    """Return a check for an object with these methods, or None."""
    return lambda value: (
        value is None or all(callable(getattr(value, name, None)) for name in names)
    )


def _one_of(names: tuple[str, ...]) -> Must:
    return Must(
        f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names
    )


@frozen
class OpenAIServiceConfiguration:
    """A service, and how to use it.

    Keys, sessions and `definitions` are in no repr and in no JSON.

    Attributes:
        api_key: The key; a host may need none.
        token_credential: Used instead of a key: a function that returns a token, or an object with
            `get_token(scope)`, for example of azure-identity.
        endpoint: The address; None for the default. For Azure that of the resource, to which
            `openai/` is added if it has no path.
        http_session: A session of requests, which is not closed. None makes one.
        service_type: `openai`, `azure_openai`, or `host` for `genai-host serve`.
        api_version: Version of Azure's API; empty for none.
        api: `assistants`, or `responses` for Responses and Conversations.
        definitions: Stores the assistants if the service does not, as with `responses`. None for
            the memory of this object.
        timeout: Seconds without data from the service, and for a whole response that is not
            streamed.

    Raises:
        ConfigurationError: The endpoint is invalid.
    """

    api_key: Secret | None = field(
        default=None,
        converter=_secret,
        validator=Must("a key", lambda value: value is None or isinstance(value, Secret)),
    )
    token_credential: Any = field(
        default=None,
        repr=False,
        validator=Must(
            "a function, or an object with get_token",
            lambda value: callable(value) or _has("get_token")(value),
        ),
    )
    endpoint: str | None = field(default=None, validator=TEXT_OR_NONE)
    http_session: Any = field(
        default=None, repr=False, validator=Must("a session of requests", _has("request"))
    )
    service_type: ServiceType = field(default="openai", validator=_one_of(get_args(ServiceType)))
    api_version: str = field(default="2024-05-01-preview", validator=TEXT)
    api: ApiName = field(default="assistants", validator=_one_of(get_args(ApiName)))
    definitions: Any = field(
        default=None,
        repr=False,
        validator=Must("an object that stores definitions", _has("save", "get", "all", "remove")),
    )
    timeout: float = field(
        default=60.0,
        validator=Must("seconds above 0", lambda value: type(value) in (int, float) and value > 0),
    )
    _memory: MemoryDefinitions = field(factory=MemoryDefinitions, init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        _ = self.base_url

    @classmethod
    def for_openai(cls, api_key: str | Secret, **more: Any) -> OpenAIServiceConfiguration:
        """Configure OpenAI. `more` are further attributes."""
        return cls(api_key=_secret(api_key), service_type="openai", **more)

    @classmethod
    def for_azure_openai(cls, endpoint: str, **more: Any) -> OpenAIServiceConfiguration:
        """Configure a resource at Azure. `more` has `api_key` or `token_credential`."""
        return cls(endpoint=endpoint, service_type="azure_openai", **more)

    @classmethod
    def for_host(cls, endpoint: str | None = None, **more: Any) -> OpenAIServiceConfiguration:
        """Configure a served host, `http://127.0.0.1:8642/v1/` by default."""
        return cls(endpoint=endpoint, service_type="host", **more)

    @property
    def base_url(self) -> str:
        """The address before the paths of requests. It ends with a slash."""
        if not self.endpoint:
            if self.service_type not in _ENDPOINTS:
                raise ConfigurationError(
                    "Azure requires an endpoint",
                    setting="endpoint",
                    hint="set it, for example https://name.openai.azure.com",
                )
            return _ENDPOINTS[self.service_type]
        try:
            parts = urlsplit(self.endpoint)
            named = bool(parts.hostname) and parts.port != 0
        except ValueError:
            named = False
        if not named or parts.scheme not in ("http", "https"):
            raise _wrong("must be an http(s) URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise _wrong("must be a URL without a user, a password or a query")
        azure = self.service_type == "azure_openai" and not parts.path.strip("/")
        return self.endpoint.rstrip("/") + ("/openai/" if azure else "/")

    @property
    def kept_definitions(self) -> Definitions:
        """Where definitions are stored."""
        kept: Definitions = self._memory if self.definitions is None else self.definitions
        return kept

    def public(self) -> OpenAIServiceConfiguration:
        """Return the configuration without keys and sessions, as it may be written."""
        return attrs.evolve(
            self, api_key=None, token_credential=None, http_session=None, definitions=None
        )

    def create_client(self) -> ServiceClient:
        """Return a client, which must be closed.

        Raises:
            ConfigurationError: The key is missing.
        """
        if self.service_type != "host" and not self.api_key and self.token_credential is None:
            raise ConfigurationError(
                f"no key for {self.service_type}",
                setting="api_key",
                hint="set api_key or token_credential",
            )
        from genai_feature_assistants.agents.client import ServiceClient

        return ServiceClient(self)


def _wrong(why: str) -> ConfigurationError:
    return ConfigurationError(f"the endpoint {why}", setting="endpoint")
