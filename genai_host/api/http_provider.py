"""Providers over HTTP: what they write is an address, headers and what they serve; the
host's transport does the rest, with its deadlines, its caps and its cancelling.

The whole of a vendor whose service speaks a known dialect:

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

from attrs import evolve, field, frozen

from genai_host.api.calls import CancelToken, Operation, ProviderReply, ProviderRequest, ReplyStream
from genai_host.api.dialects import DialectEndpoint
from genai_host.api.error_replies import error_of_reply, explain_unreadable
from genai_host.api.json_text import read_json
from genai_host.api.providers import (
    CachedToken,
    HttpRequest,
    ListedModel,
    Provider,
    ProviderType,
    Services,
    StreamParser,
)
from genai_host.api.settings import Secret, about
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    MalformedReply,
    ProviderError,
)

R = TypeVar("R", bound=ReplyStream | ProviderReply)

_BEARER = "Authorization: Bearer {key}"
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)  # RFC 9110, 5.6.2
_MOST_ADDRESSES = 256
_ABSENT = (None, 407, 502, 503, 504)  # no reply, or that of a proxy or gateway before the service
SHORTEST_KEY = 8  # characters: what is shorter may stand in any reply


class HttpProvider(Provider):
    """A provider over HTTP: a service's address, its key and headers.

    Override `authorize` to sign requests, `address` for addresses of another form;
    `framings` has how streamed replies of further content types are read, by their name.

    Args:
        base_url: The paths of the dialects are added to it; empty if it is not known yet.
        headers: Sent with each request.
        key: Sent with each request as well; what the service says of errors is shown without it.
        header: How the key is sent.
        token: A key that expires, in place of `key`: got anew in time, and once when the service
            refuses it with status 401.

    Raises:
        ConfigurationError: For a base_url that is no address, or holds a password, and for headers
            that are none.
    """

    framings: Mapping[str, StreamParser] = {}
    extra_body: Mapping[str, Any] | None = {}

    def __init__(
        self,
        services: Services,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        *,
        key: Secret | None = None,
        header: str = _BEARER,
        token: CachedToken | None = None,
    ) -> None:
        self.services = services
        self.base_url = _checked(base_url).rstrip("/")
        self.headers = {
            "Content-Type": "application/json",
            **_checked_headers(headers or {}),
            **key_header(header, key),
        }
        self._key = key
        self._header = header
        self._token = token
        self._addresses: dict[Any, str] = {}

    @property
    def has_key(self) -> bool:
        return self._token is not None or bool(_bytes_of(self._key))

    def missing(self) -> str | None:
        return None if self.base_url else "no address: set base_url"

    def priced_as(self, model_id: str) -> str:
        """Its address: what is behind another than the vendor's own is not known."""
        return self.base_url

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self._carry(self.services.http.send, self._outgoing(request), limits)

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        stream = partial(self.services.http.stream, framings=self.framings)
        return self._carry(stream, self._outgoing(request), limits)

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        """Ask for the list of models, which costs nothing, or for the address itself.

        A service that answers at all can be reached; one that answers 401 does not take the key.
        """
        if type(self).list_models is Provider.list_models:
            self._try(lambda: self.get("", limits))
        else:
            self._try(lambda: next(iter(self.list_models(limits)), None))
        return {}

    def _try(self, ask: Callable[[], Any]) -> None:
        """Raise if nobody answers, or if the key is refused. Any other reply will do: a service
        may have no list of models, or not show it to this key (403)."""
        try:
            ask()
        except ProviderError as error:
            is_refused = isinstance(error, AuthenticationFailed) and error.status != 403
            is_absent = error.status in _ABSENT and not isinstance(error, MalformedReply)
            if is_refused or is_absent:
                raise

    def address(self, request: ProviderRequest) -> str:
        """Where a request goes: the base address, the path with the model's id in it,
        the query.

        Raises:
            ConfigurationError: For a model id that would change the path.
        """
        path = request.path
        if "{model}" in path:
            path = path.replace("{model}", _path_segment(request.model_id))
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self.base_url}{path}{query}"

    def authorize(self, request: HttpRequest, limits: CancelToken) -> HttpRequest:
        """The last to touch a request, at each attempt: sign it, or add a token that
        expires."""
        return request

    def get(self, path: str, limits: CancelToken) -> Any:
        """The JSON that the service has at a path below its base address.

        Raises what its status means, and `MalformedReply`.
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
            if len(self._addresses) >= _MOST_ADDRESSES:
                self._addresses.clear()
            address = self._addresses[key] = self.address(request)
        headers = {**self.headers, **request.headers} if request.headers else self.headers
        return HttpRequest("POST", address, headers, request.data())

    def _carry(
        self,
        act: Callable[[HttpRequest, CancelToken], R],
        request: HttpRequest,
        limits: CancelToken,
    ) -> R:
        """Send a request with the key. A token that is refused may have been taken back
        before its time: then it is sent once more, with another."""
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
    usual_url: str,
    serves: Mapping[str, DialectEndpoint],
    *,
    key: str = "",
    header: str = _BEARER,
    models: str = "",
    default_models: Mapping[Operation, str] | None = None,
) -> ProviderType[Any]:
    """A provider type for a service over HTTP that needs no code of its own.

    Args:
        name: Of the type; `[a-z0-9-]+`.
        usual_url: Address of the service, unless an instance is given another.
        serves: The dialects it serves, best first.
        key: Environment variable of the key; empty if it needs none.
        header: How the key is sent.
        models: Path of its list of models, in OpenAI's form; empty if it has none.
        default_models: For an operation, the model to use where the user names none.
    """

    @frozen
    class Settings:
        base_url: str = field(default=usual_url, metadata=about("address of the service"))
        api_key: Secret | None = field(default=None, metadata=about("its key", env=key or ()))

    class Instance(HttpProvider):
        def __init__(self, settings: Settings, services: Services) -> None:
            super().__init__(services, settings.base_url, key=settings.api_key, header=header)

        def missing(self) -> str | None:
            no_key = key and not self.has_key
            return super().missing() or (self.services.no_key(key) if no_key else None)

        def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
            return listed_models(self.get(models, limits)) if models else ()

        def probe(self, limits: CancelToken) -> Mapping[str, str]:
            self._try(lambda: self.get(models, limits))
            return {}

    Instance.serves = dict(serves)
    Instance.default_models = dict(default_models or {})
    return ProviderType(name, Settings, Instance)


def key_header(header: str, key: Secret | None) -> dict[str, str]:
    """A header with a key in it: `key_header("x-api-key: {key}", key)`; none without
    a key.

    Raises:
        ConfigurationError: For a key that cannot stand in a header; the key is not in the message.
    """
    value = key.reveal().strip() if key is not None else ""
    if not value:
        return {}
    if not value.isascii() or not value.isprintable():
        raise ConfigurationError("the key has characters that no key has: was it cut or wrapped?")
    name, _, form = header.partition(":")
    return {name: form.strip().replace("{key}", value)}


def _bytes_of(key: Secret | None) -> bytes:
    return b"" if key is None else key.reveal().strip().encode()


def _without(key: Secret | None, reply: R) -> R:
    """Some services repeat the key that they refuse, and errors are shown."""
    if not isinstance(reply, ProviderReply) or reply.status < 400:
        return reply
    return evolve(reply, body=_redacted(key, reply.body))


def _redacted(key: Secret | None, body: bytes) -> bytes:
    shown = _bytes_of(key)
    return body if len(shown) < SHORTEST_KEY else body.replace(shown, b"***")


def listed_models(data: Any) -> list[ListedModel]:
    """A list of models in OpenAI's form, with the window where a server adds it. Raises
    `MalformedReply`."""
    try:
        return [ListedModel(each["id"], window=_window(each)) for each in data["data"]]
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


def _window(model: Mapping[str, Any]) -> int | None:
    """As OpenRouter and as vLLM call it."""
    sizes = (model.get("context_length"), model.get("max_model_len"))
    return next((size for size in sizes if type(size) is int and size > 0), None)


def _checked(base_url: str) -> str:
    base_url = base_url.strip()
    if not base_url:
        return ""
    try:
        parts = urlsplit(base_url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        known = False
    if "@" in base_url.partition("?")[0]:
        raise ConfigurationError("the address of a service must not hold a user or a password")
    if "?" in base_url or "#" in base_url:
        raise ConfigurationError("the address of a service must not hold a query")
    if not known:
        raise ConfigurationError(
            f"{base_url!r} is not an address of a service", hint="as https://api.example.com/v1"
        )
    return base_url


def _checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} is not a valid header name")
        if not value.isascii() or not value.isprintable():
            raise ConfigurationError(f"the header {name} has characters that none may have")
    return headers


def _path_segment(model_id: str) -> str:
    if model_id in ("", ".", ".."):
        raise ConfigurationError(f"{model_id!r} is not a model id")
    return quote(model_id, safe="")
