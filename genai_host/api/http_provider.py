"""Providers over HTTP: a base URL, headers and dialects. The transport of the host does the rest,
with timeouts, limits and cancellation.

A complete provider for a service with a known dialect:

    @hookimpl
    def genai_providers():
        yield http_provider(
            "acme",
            "https://api.acme.ai/v1",
            {"openai-chat": DialectEndpoint()},
            key="ACME_API_KEY",
        )
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from attrs import evolve, frozen

from genai_host.api.calls import CancelToken, Operation
from genai_host.api.dialects import DialectEndpoint
from genai_host.api.error_replies import (
    error_of_reply,
    explain_unreadable,
    plain_error_in,
    raise_error_in,
)
from genai_host.api.json_text import read_json, write_json
from genai_host.api.messages import File
from genai_host.api.provider_requests import (
    HttpRequest,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
)
from genai_host.api.providers import (
    CachedToken,
    ListedModel,
    Provider,
    ProviderType,
    Services,
    StreamParser,
)
from genai_host.api.settings import Secret, setting
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    MalformedReply,
    ProviderError,
)

R = TypeVar("R", bound=ReplyStream | ProviderReply)

_BEARER = "Authorization: Bearer {key}"
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)  # RFC 9110, 5.6.2
_MAX_ADDRESSES = 256
_ABSENT = (None, 407, 502, 503, 504)  # no reply, or one of a proxy or gateway
MIN_KEY_LENGTH = 8  # characters; shorter texts can occur in any reply


class HttpProvider(Provider):
    """Base class of providers over HTTP.

    Override `authorize` to sign requests, and `address` for URLs of another form. `framings` has
    stream parsers for further content types. `list_headers` has the names of headers that can have
    several values: if a request has such a header too, its value is appended after a comma.

    Args:
        services: Services of the host.
        base_url: Base URL; the paths of dialects are appended. Empty if not configured yet.
        headers: Headers of each request.
        key: API key, redacted from error messages.
        auth_header: Form of the header with the key, for example `x-api-key: {key}`.
        token: Access token that expires, instead of `key`; renewed in time, and once if the service
            refuses it with status 401.

    Raises:
        ConfigurationError: The base URL or a header is invalid, or the base URL contains a
            password.
    """

    framings: Mapping[str, StreamParser] = {}
    list_headers: frozenset[str] = frozenset()
    extra_body: Mapping[str, Any] | None = {}

    def __init__(
        self,
        services: Services,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        *,
        key: Secret | None = None,
        auth_header: str = _BEARER,
        token: CachedToken | None = None,
    ) -> None:
        self.services = services
        self.base_url = checked_base_url(base_url).rstrip("/")
        self.headers = {
            "Content-Type": "application/json",
            **_checked_headers(headers or {}),
            **key_header(auth_header, key),
        }
        self._key = key
        self._header = auth_header
        self._token = token
        self._addresses: dict[Any, str] = {}

    @property
    def has_key(self) -> bool:
        return self._token is not None or bool(_bytes_of(self._key))

    def unavailable_reason(self) -> str | None:
        return None if self.base_url else "no address: set base_url"

    def price_provider(self, model_id: str) -> str:
        """The base URL, since another URL may be another service."""
        return self.base_url

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self._carry(self.services.http.send, self._outgoing(request), limits)

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        stream = partial(self.services.http.stream, framings=self.framings)
        return self._carry(stream, self._outgoing(request), limits)

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        """Request the list of models, which is free, or the base URL.

        A service that replies is reachable; status 401 means that the key is invalid.
        """
        if type(self).list_models is Provider.list_models:
            self._try(lambda: self.get("", limits))
        else:
            self._try(lambda: next(iter(self.list_models(limits)), None))
        return {}

    def _try(self, ask: Callable[[], Any]) -> None:
        """Raise an error if the service cannot be reached or refuses the key. Other replies are
        accepted: a service may have no list of models, or hide it from this key (403)."""
        try:
            ask()
        except ProviderError as error:
            is_refused = isinstance(error, AuthenticationFailed) and error.status != 403
            is_absent = error.status in _ABSENT and not isinstance(error, MalformedReply)
            if is_refused or is_absent:
                raise

    def address(self, request: ProviderRequest) -> str:
        """URL of a request: the base URL, the path with the model id, and the query.

        Raises:
            ConfigurationError: The model id would change the path.
        """
        path = request.path
        if "{model}" in path:
            path = path.replace("{model}", _path_segment(request.model_id))
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self.base_url}{path}{query}"

    def authorize(self, request: HttpRequest, limits: CancelToken) -> HttpRequest:
        """Sign a request or add a token that expires; called last, at each attempt."""
        return request

    def get(self, path: str, limits: CancelToken) -> Any:
        """Get the JSON at a path below the base URL.

        Raises:
            MalformedReply: The reply is not JSON.
            ProviderError: The service failed or refused the request.
        """
        request = HttpRequest("GET", f"{self.base_url}{path}", self.headers)
        reply = self._carry(self.services.http.send, request, limits)
        if reply.status >= 300:
            error = self.map_error(reply) or error_of_reply(reply)
            if reply.status == 401:
                error.args = (f"the service refused the key: {error}",)
            raise error
        try:
            return read_json(reply.body)
        except ValueError as wrong:
            cleaned = evolve(reply, body=_redacted(self._key, reply.body))
            unreadable = explain_unreadable(cleaned)
            raise unreadable or MalformedReply(f"the reply is malformed: {wrong}") from wrong

    def _outgoing(self, request: ProviderRequest) -> HttpRequest:
        key = (request.path, request.model_id, tuple(request.query.items()))
        address = self._addresses.get(key)
        if address is None:
            if len(self._addresses) >= _MAX_ADDRESSES:
                self._addresses.clear()
            address = self._addresses[key] = self.address(request)
        headers = {**self.headers, **request.headers} if request.headers else self.headers
        for name in self.list_headers & request.headers.keys() & self.headers.keys():
            headers[name] = f"{self.headers[name]},{request.headers[name]}"
        if request.file is None:
            return HttpRequest("POST", address, headers, request.data())
        kind, data = _form(request.body, request.file)
        others = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return HttpRequest("POST", address, {**others, "Content-Type": kind}, data)

    def _carry(
        self,
        act: Callable[[HttpRequest, CancelToken], R],
        request: HttpRequest,
        limits: CancelToken,
    ) -> R:
        """Send a request with the key. If an expiring token is refused, renew it and send the
        request once more."""
        if self._token is None:
            return _without(self._key, act(self.authorize(request, limits), limits))
        token = self._token.get(limits)
        reply = act(self._authorized(request, token, limits), limits)
        if isinstance(reply, ProviderReply) and reply.status == 401:
            self._token.drop(token)
            token = self._token.get(limits)
            reply = act(self._authorized(request, token, limits), limits)
        return _without(token, reply)

    def _authorized(self, request: HttpRequest, token: Secret, limits: CancelToken) -> HttpRequest:
        headers = {**request.headers, **key_header(self._header, token)}
        return self.authorize(evolve(request, headers=headers), limits)


def http_provider(
    name: str,
    base_url: str,
    serves: Mapping[str, DialectEndpoint],
    *,
    key: str = "",
    auth_header: str = _BEARER,
    models: str = "",
    default_models: Mapping[Operation, str] | None = None,
) -> ProviderType[Any]:
    """Create a provider type for a service over HTTP.

    Args:
        name: Name of the type; `[a-z0-9-]+`.
        base_url: Default base URL.
        serves: Supported dialects, best first.
        key: Environment variable with the API key; empty if the service needs none.
        auth_header: Form of the header with the key.
        models: Path of the model list in OpenAI's form; empty if there is none.
        default_models: Default model of an operation.
    """

    default_url = base_url  # a class body has no access to a variable named like its field

    @frozen
    class Settings:
        base_url: str = setting(default_url, "address of the service")
        api_key: Secret | None = setting(None, "its key", env=key or ())

    class Instance(HttpProvider):
        def __init__(self, settings: Settings, services: Services) -> None:
            super().__init__(
                services, settings.base_url, key=settings.api_key, auth_header=auth_header
            )

        def unavailable_reason(self) -> str | None:
            no_key = key and not self.has_key
            return super().unavailable_reason() or (self.services.no_key(key) if no_key else None)

        def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
            return listed_models(self.get(models, limits)) if models else ()

        def probe(self, limits: CancelToken) -> Mapping[str, str]:
            self._try(lambda: self.get(models, limits))
            return {}

    Instance.serves = dict(serves)
    Instance.default_models = dict(default_models or {})
    return ProviderType(name, Settings, Instance)


def _form(fields: Mapping[str, Any], file: File) -> tuple[str, bytes]:
    """The media type and the bytes of a form with a file. A list has a field for each item."""
    from urllib3.filepost import encode_multipart_formdata  # slow to import

    parts: list[tuple[str, Any]] = []
    for name, value in fields.items():
        values = {f"{name}[]": value} if isinstance(value, (list, tuple)) else {name: [value]}
        for key, items in values.items():
            texts = (each if isinstance(each, str) else write_json(each).decode() for each in items)
            parts += ((key, text) for text in texts)
    parts.append(("file", (file.name or "file", file.data, file.media_type or _BYTES)))
    data, kind = encode_multipart_formdata(parts)
    return kind, data


_BYTES = "application/octet-stream"


def key_header(header: str, key: Secret | None) -> dict[str, str]:
    """A header with a key: `key_header("x-api-key: {key}", key)`; empty without a key.

    Args:
        header: Form of the header, `NAME: VALUE` with `{key}`.
        key: The key.

    Raises:
        ConfigurationError: The key contains characters that are not allowed in headers. The message
            does not contain the key.
    """
    value = key.reveal().strip() if key is not None else ""
    if not value:
        return {}
    if not value.isascii() or not value.isprintable():
        raise ConfigurationError(
            "the key contains invalid characters: check that it was copied completely"
        )
    name, _, form = header.partition(":")
    return {name: form.strip().replace("{key}", value)}


def _bytes_of(key: Secret | None) -> bytes:
    return b"" if key is None else key.reveal().strip().encode()


def _without(key: Secret | None, reply: R) -> R:
    """Redact the key from a reply: some services repeat a refused key in errors."""
    if not isinstance(reply, ProviderReply) or reply.status < 400:
        return reply
    return evolve(reply, body=_redacted(key, reply.body))


def _redacted(key: Secret | None, body: bytes) -> bytes:
    shown = _bytes_of(key)
    return body if len(shown) < MIN_KEY_LENGTH else body.replace(shown, b"***")


_LISTS = ("data", "models")
"""Fields with a list of models."""


def listed_models(data: Any) -> list[ListedModel]:
    """Read a list of models in OpenAI's form, with the context window if the server reports it.
    Some services send the list alone, name its field `models`, or give models only a name.

    Raises:
        MalformedReply: It is not a list of models.
        ProviderError: The error in the reply.
    """
    if isinstance(data, dict):
        raise_error_in(data, plain_error_in, _LISTS)
        data = next((data[name] for name in _LISTS if name in data), None)
    try:
        return [ListedModel(each.get("id") or each["name"], window=_window(each)) for each in data]
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


_WINDOWS = ("context_length", "max_model_len", "context_window", "max_context_length")


def _window(model: Mapping[str, Any]) -> int | None:
    """The context window: services use different fields for it."""
    sizes = map(model.get, _WINDOWS)
    return next((size for size in sizes if type(size) is int and size > 0), None)


def checked_base_url(base_url: str) -> str:
    """Return a base URL without surrounding spaces. Raises `ConfigurationError` if it is invalid;
    empty is valid."""
    base_url = base_url.strip()
    if not base_url:
        return ""
    try:
        parts = urlsplit(base_url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises if it is not a number
    except ValueError:
        known = False
    if "@" in base_url.partition("?")[0]:
        raise ConfigurationError("base_url must not contain a user name or a password")
    if "?" in base_url or "#" in base_url:
        raise ConfigurationError("base_url must not contain a query or a fragment")
    if not known:
        raise ConfigurationError(
            f"invalid base URL {base_url!r}", hint="for example https://api.example.com/v1"
        )
    return base_url


def _checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} is not a valid header name")
        if not value.isascii() or not value.isprintable():
            raise ConfigurationError(f"the header {name} contains invalid characters")
    return headers


def _path_segment(model_id: str) -> str:
    if model_id in ("", ".", ".."):
        raise ConfigurationError(f"{model_id!r} is not a model id")
    return quote(model_id, safe="")
