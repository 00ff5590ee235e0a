"""`ServiceClient` sends requests to a service that has the Assistants API or the Responses API.

A reply is read as its bytes arrive (`arrived`).

Source: OpenAI's OpenAPI document 2.3.0; Azure OpenAI's REST reference for `api-key` and
`api-version`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from genai_host.api import (
    ProviderReply,
    StreamEvent,
    error_of_reply,
    malformed,
    objects_in,
    read_object,
    read_sse,
    retry_after_of,
    string_in,
    write_json,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    IncompleteReply,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
    ValidationError,
)

if TYPE_CHECKING:
    import requests

    from genai_feature_assistants.agents.configuration import OpenAIServiceConfiguration


MAX_BYTES = 64 * 2**20
"""Limit of a response, decompressed."""

_MAX_PAGES = 10_000
_PAGE = 100
_CONNECT = 10.0  # seconds
_CHUNK = 64 * 1024
_SCOPE = "https://cognitiveservices.azure.com/.default"


def arrived(response: requests.Response) -> Iterator[bytes]:
    """Yield the bytes of a response as they arrive.

    A read that waits for more would let a slow service exceed the time limit.
    """
    read = getattr(response.raw, "read1", None)
    if read is None:
        yield from response.iter_content(1)
        return
    while piece := read(_CHUNK, decode_content=True):
        yield piece


def path_of(*pieces: str) -> str:
    """Return a path of names and ids. Raises `ValidationError`: a piece cannot be an id."""
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
        for _ in range(_MAX_PAGES):
            page = self.get(path, limit=_PAGE, order=order, **query, **after)
            found = objects_in(page, "data")
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
    ) -> Iterator[StreamEvent]:
        """Yield the events of a stream, up to `[DONE]`, which is left out. `seconds` is the time
        limit of the whole stream."""
        until = _now() + seconds
        silence = min(seconds, self.configuration.timeout) or self.configuration.timeout
        reply = self._reply("POST", path, body=body, seconds=silence, accept="text/event-stream")
        try:
            with reply as response:
                for event in read_sse(_in_time(arrived(response), until), whole=True):
                    if event.data == b"[DONE]":
                        return
                    yield event
        except ProviderTimeout as error:
            if error.deadline != "connect_timeout" and _now() >= until:
                error.deadline, error.retryable = "timeout", False
            raise

    def without_key(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object of the service, without the key in the text of its errors."""
        found = dict(data)
        for name in ("error", "last_error", "message"):
            match data.get(name):
                case dict(error):
                    found[name] = self.without_key(error)
                case str(text) if name == "message":
                    found[name] = self._sent.hidden_in(text)
        return found

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
        seconds: float,
        accept: str = "application/json",
    ) -> Iterator[requests.Response]:
        """A successful reply."""
        headers = {"Accept": accept, "OpenAI-Beta": "assistants=v2"}
        data: Any = form
        if body is not None:
            headers["Content-Type"] = "application/json"
            try:
                data = write_json(body)
            except (ValueError, TypeError) as error:
                raise ValidationError(f"invalid request: {error}") from error
        version = self.configuration.api_version if self._is_azure else ""
        key = self._sent = self._key()
        with (
            self._failures(),
            self._session.request(
                method,
                self.base_url + path,
                params={**(query or {}), **({"api-version": version} if version else {})},
                data=data,
                files=files,
                headers=headers,
                auth=key,
                timeout=(min(_CONNECT, seconds), seconds),
                allow_redirects=False,
                stream=True,
            ) as response,
        ):
            if response.status_code >= 300:
                raise self._refused(response, key)
            yield response

    @property
    def _is_azure(self) -> bool:
        return self.configuration.service_type == "azure_openai"

    def _key(self) -> _Key:
        given = self.configuration
        if given.token_credential is not None:
            return _Key("Authorization", _token(given.token_credential), "Bearer ")
        if given.api_key is None:
            return _Key("", "")
        key = given.api_key.reveal()
        return _Key("api-key", key) if self._is_azure else _Key("Authorization", key, "Bearer ")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raises what went wrong on the way as an error of the host."""
        import requests
        import urllib3.exceptions as amid  # raised while a reply is read

        host = urlsplit(self.base_url).hostname
        silent = ProviderTimeout(f"{host} did not respond in time", deadline="read_timeout")
        try:
            yield
        except requests.ConnectTimeout:
            raise ProviderTimeout(f"cannot connect to {host}", deadline="connect_timeout") from None
        except (requests.Timeout, amid.ReadTimeoutError):
            raise silent from None
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
            if "timed out" in str(error):  # raised for a timeout while a reply is read
                raise silent from None
            raise ServiceUnavailable(f"cannot connect to {host}") from None
        except (requests.RequestException, amid.HTTPError, ValueError, OSError) as error:
            # their messages may contain request data
            raise ServiceUnavailable(
                f"the request to {host} failed: {type(error).__name__}"
            ) from None

    def _body(self, response: requests.Response, until: float) -> bytes:
        body = bytearray()
        for piece in _in_time(arrived(response), until):
            body += piece
            if len(body) > MAX_BYTES:
                raise malformed(f"it has more than {MAX_BYTES} bytes")
        return bytes(body)

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
        headers = dict(response.headers)
        error.retry_after = retry_after_of(ProviderReply(b"", headers=headers), datetime.now(UTC))
        return error


def _now() -> float:
    return time.monotonic()


def _in_time(chunks: Iterator[bytes], until: float) -> Iterator[bytes]:
    for chunk in chunks:
        if _now() > until:
            raise ProviderTimeout("the reply took too long", deadline="timeout")
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
