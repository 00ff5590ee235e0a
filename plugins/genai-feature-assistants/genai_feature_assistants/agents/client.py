"""The client of a service, and how it is configured.

`OpenAIServiceConfiguration` names a service and its credentials. `ServiceClient` sends requests
to a service that has the Assistants API or the Responses API.

Source: OpenAI's OpenAPI document 2.3.0; Azure OpenAI's REST reference for `api-key` and
`api-version`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote, urlsplit

import attrs
from attrs import field, frozen

from genai_feature_assistants.agents.definitions import Definitions, MemoryDefinitions
from genai_feature_assistants.agents.events import (
    ServerEvent,
    arrived,
    retry_after,
    server_events,
)
from genai_host.api import (
    TEXT,
    TEXT_OR_NONE,
    Must,
    ProviderReply,
    Secret,
    error_of_reply,
    list_in,
    malformed,
    read_object,
    string_in,
    write_json,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ConfigurationError,
    IncompleteReply,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
    ValidationError,
)

if TYPE_CHECKING:
    import requests


ServiceType = Literal["openai", "azure_openai", "host"]
ApiName = Literal["assistants", "responses"]

_ENDPOINTS = {"openai": "https://api.openai.com/v1/", "host": "http://127.0.0.1:8642/v1/"}


def _secret(given: str | Secret | None) -> Secret | None:
    if isinstance(given, str):
        return Secret(given) if given else None
    return given


def _is_credential(value: Any) -> bool:
    return value is None or callable(value) or callable(getattr(value, "get_token", None))


def _is_session(value: Any) -> bool:
    return value is None or callable(getattr(value, "request", None))


def _is_kept(value: Any) -> bool:
    return value is None or all(
        callable(getattr(value, name, None)) for name in ("save", "get", "all", "remove")
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
        validator=Must("a function, or an object with get_token", _is_credential),
    )
    endpoint: str | None = field(default=None, validator=TEXT_OR_NONE)
    http_session: Any = field(
        default=None, repr=False, validator=Must("a session of requests", _is_session)
    )
    service_type: ServiceType = field(default="openai", validator=_one_of(get_args(ServiceType)))
    api_version: str = field(default="2024-05-01-preview", validator=TEXT)
    api: ApiName = field(default="assistants", validator=_one_of(get_args(ApiName)))
    definitions: Any = field(
        default=None, repr=False, validator=Must("an object that stores definitions", _is_kept)
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
        return ServiceClient(self)


def _wrong(why: str) -> ConfigurationError:
    return ConfigurationError(f"the endpoint {why}", setting="endpoint")


MOST_BYTES = 64 * 2**20
"""Limit of a response, decompressed."""

_MOST_PAGES = 10_000
_PAGE = 100
_CONNECT = 10.0  # seconds
_SCOPE = "https://cognitiveservices.azure.com/.default"


def path_of(*pieces: str) -> str:
    """Return a path of names and ids.

    Raises:
        ValidationError: A piece cannot be an id.
    """
    for piece in pieces:
        if not piece or len(piece) > 256 or piece in (".", ".."):
            raise ValidationError(f"invalid id {piece!r:.80}")
    try:
        return "/".join(quote(piece, safe="") for piece in pieces)
    except UnicodeEncodeError as error:
        raise ValidationError("invalid id") from error


_HERE = ("localhost", "127.0.0.1", "::1")  # not reachable through a proxy


class ServiceClient:
    """Sends requests to a service. Thread-safe.

    It follows no redirects, and takes no key from a `.netrc`. Every method raises a
    `ProviderError`:
    the error of `error_of_reply`, `ServiceUnavailable`, `ProviderTimeout`, `MalformedReply`, or
    `IncompleteReply` for an interrupted response.
    """

    def __init__(self, configuration: OpenAIServiceConfiguration) -> None:
        import requests

        self.configuration = configuration
        self.base_url = configuration.base_url
        self._sent = _Key("", "")
        self._own = configuration.http_session is None
        self._session: requests.Session = configuration.http_session or requests.Session()
        if self._own:
            self._session.trust_env = False  # it would take keys out of a .netrc
            if urlsplit(self.base_url).hostname not in _HERE:
                self._session.proxies = requests.utils.get_environ_proxies(self.base_url)

    def close(self) -> None:
        """Close the connections of its own session."""
        if self._own:
            self._session.close()

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self._asked("GET", path, query=query)

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, seconds: float | None = None
    ) -> dict[str, Any]:
        """Send a body. `seconds` is the time limit of the response; None for the default."""
        return self._asked("POST", path, body=body or {}, seconds=seconds)

    def delete(self, path: str) -> dict[str, Any]:
        return self._asked("DELETE", path)

    def pages(self, path: str, *, order: str = "asc", **query: Any) -> Iterator[dict[str, Any]]:
        """Yield the objects of all pages of a list. Each page is fetched when it is needed."""
        after: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            page = self.get(path, limit=_PAGE, order=order, **query, **after)
            found = list_in(page, "data")
            if not all(isinstance(each, dict) for each in found):
                raise malformed("data contains an item that is not an object")
            yield from found
            last = string_in(page, "last_id") or (string_in(found[-1], "id") if found else "")
            if not page.get("has_more") or not found or after == {"after": last}:
                return
            after = {"after": last}
        raise malformed("the list has too many pages")

    def upload(
        self,
        name: str,
        data: bytes,
        purpose: str = "assistants",
        media_type: str = "application/octet-stream",
    ) -> dict[str, Any]:
        """Upload a file, and return the object of the service, with its `id`."""
        files = {"file": (name, data, media_type)}
        return self._asked("POST", "files", files=files, form={"purpose": purpose})

    def stream(
        self, path: str, body: Mapping[str, Any], *, seconds: float
    ) -> Iterator[ServerEvent]:
        """Yield the events of a stream, up to `[DONE]`, which is left out.

        Args:
            path: Path of the request.
            body: Body of the request.
            seconds: Time limit of the whole stream.
        """
        until = _now() + seconds
        silence = min(seconds, self.configuration.timeout)
        asked = self._reply("POST", path, body=body, seconds=silence, accept="text/event-stream")
        try:
            with asked as response:
                for event in server_events(_in_time(arrived(response), until)):
                    if event.data == "[DONE]":
                        return
                    yield event
        except ProviderTimeout as error:
            if error.deadline != "connect_timeout" and _now() >= until:
                error.deadline, error.retryable = "timeout", False
            raise

    def without_key(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object of the service, without the key in the text of its errors."""
        errors: dict[str, Any] = {
            name: self.without_key(data[name])
            for name in ("error", "last_error")
            if isinstance(data.get(name), dict)
        }
        message = data.get("message")
        if isinstance(message, str):
            errors["message"] = self._sent.hidden_in(message)
        return {**data, **errors}

    def _asked(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        seconds = given.pop("seconds", None) or self.configuration.timeout
        begun = _now()
        with self._reply(method, path, seconds=seconds, **given) as response:
            return read_object(self._body(response, begun + seconds))

    @contextmanager
    def _reply(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        files: Any = None,
        form: Any = None,
        seconds: float | None = None,
        accept: str = "application/json",
    ) -> Iterator[requests.Response]:
        """A successful reply."""
        headers = {"Accept": accept, "OpenAI-Beta": "assistants=v2"}
        data: Any = form
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = _written(body)
        sent = {**(query or {}), **self._version()}
        key = self._sent = self._key()
        silence = seconds or self.configuration.timeout
        with (
            self._failures(),
            self._session.request(
                method,
                self.base_url + path,
                params=sent,
                data=data,
                files=files,
                headers=headers,
                auth=key,
                timeout=(min(_CONNECT, silence), silence),
                allow_redirects=False,
                stream=True,
            ) as response,
        ):
            if response.status_code >= 300:
                raise self._refused(response, key)
            yield response

    def _version(self) -> dict[str, str]:
        version = self.configuration.api_version
        azure = self.configuration.service_type == "azure_openai"
        return {"api-version": version} if azure and version else {}

    def _key(self) -> _Key:
        given = self.configuration
        if given.token_credential is not None:
            return _Key("Authorization", _token(given.token_credential), "Bearer ")
        if given.api_key is None:
            return _Key("", "")
        key = given.api_key.reveal()
        if given.service_type == "azure_openai":
            return _Key("api-key", key)
        return _Key("Authorization", key, "Bearer ")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raises what went wrong on the way as an error of the host."""
        import requests
        import urllib3.exceptions as amid  # raised while a reply is read

        host = urlsplit(self.base_url).hostname
        try:
            yield
        except requests.ConnectTimeout:
            raise ProviderTimeout(f"cannot connect to {host}", deadline="connect_timeout") from None
        except (requests.Timeout, amid.ReadTimeoutError):
            raise ProviderTimeout(
                f"{host} did not respond in time", deadline="read_timeout"
            ) from None
        except (requests.exceptions.ChunkedEncodingError, amid.ProtocolError):
            raise IncompleteReply(f"the reply of {host} was interrupted") from None
        except (
            requests.exceptions.ProxyError,
            requests.exceptions.InvalidProxyURL,
            requests.exceptions.InvalidSchema,  # a SOCKS proxy
        ):
            raise ServiceUnavailable(
                f"the proxy to {host} failed, or is not an HTTP proxy",
                hint="check HTTPS_PROXY and ALL_PROXY in the environment, or set NO_PROXY",
            ) from None
        except requests.ConnectionError as error:
            if "timed out" in str(
                error
            ):  # while a reply is read, requests raises this for a timeout
                raise ProviderTimeout(
                    f"{host} did not respond in time", deadline="read_timeout"
                ) from None
            raise ServiceUnavailable(f"cannot connect to {host}") from None
        except (requests.RequestException, amid.HTTPError, ValueError, OSError) as error:
            # their messages may contain request data
            raise ServiceUnavailable(
                f"the request to {host} failed: {type(error).__name__}"
            ) from None

    def _body(self, response: requests.Response, until: float) -> bytes:
        pieces, size = [], 0
        for piece in arrived(response):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise malformed(f"it has more than {MOST_BYTES} bytes")
            if _now() > until:
                raise ProviderTimeout("the reply took too long", deadline="timeout")
        return b"".join(pieces)

    def _refused(self, response: requests.Response, key: _Key) -> ProviderError:
        status = response.status_code
        if status < 400:
            return BadRequest(
                f"the service redirects (status {status}); keys are not sent to other hosts",
                status=status,
                hint="set endpoint to the address that it redirects to",
            )
        body = self._body(response, _now() + self.configuration.timeout)
        text = key.hidden_in(body.decode(errors="replace"))  # a truncated key is hidden as well
        error = error_of_reply(ProviderReply(text.encode(), status))
        error.retry_after = retry_after(response.headers.get("Retry-After"))
        return error


def _now() -> float:
    return time.monotonic()


def _in_time(chunks: Iterator[bytes], until: float) -> Iterator[bytes]:
    for chunk in chunks:
        if _now() > until:
            raise ProviderTimeout("the stream took too long", deadline="timeout")
        yield chunk


class _Key:
    """Puts a key into the header of a request; that it is there keeps requests from looking
    for another in a `.netrc`."""

    def __init__(self, header: str, key: str, kind: str = "") -> None:
        self._header = header
        self._key = key
        self._kind = kind

    def __call__(self, request: Any) -> Any:
        if self._header:
            request.headers[self._header] = self._kind + self._key
        return request

    def hidden_in(self, text: str) -> str:
        """The text of a service, with the key removed."""
        return text.replace(self._key, "***") if self._key else text


def _token(credential: Any) -> str:
    """Raises `AuthenticationFailed` where there is none."""
    get = getattr(credential, "get_token", None)
    try:
        found = get(_SCOPE) if callable(get) else credential()
    except Exception as error:  # noqa: BLE001 - whatever the credential raises; it may hold secrets
        raise AuthenticationFailed(
            f"the credential returned no token: {type(error).__name__}"
        ) from None
    token = getattr(found, "token", found)
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed("the credential returned no token")
    return token


def _written(body: Mapping[str, Any]) -> bytes:
    try:
        return write_json(body)
    except (ValueError, TypeError) as error:
        raise ValidationError(f"invalid request: {error}") from error
