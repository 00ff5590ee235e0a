"""HTTP routes of plugins; requests and replies.

A plugin answers requests under its own paths:

    HttpRoute("POST", "/api/shop/orders/{id}", "genai_feature_shop.http:order")

    def order(request: RouteRequest, host: HostServices) -> RouteResponse:
        return json_response({"id": request.parameters["id"]})

The server admits the client and limits sizes and times. The function is called in a thread, and
several calls can run concurrently. If it raises an error of the host, the reply has that error's
message and a status (`http_status`). Any other exception becomes a 500 without details.

The body of a streamed reply consists of server-sent events or other chunks. The first chunk can
take long, for example while a model thinks. Source of the events: HTML Living Standard,
"Server-sent events".
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

from attrs import field, frozen

from genai_host.api.calls import CancelToken
from genai_host.api.dropped import DroppedFields
from genai_host.api.json_text import ValueBudget, write_json
from genai_host.api.validators import (
    ADDRESS,
    ADDRESS_OR_EMPTY,
    BOOLEAN,
    TEXT,
    TEXT_BY_NAME,
    Must,
    one_of,
    string_set,
)
from genai_host.errors import (
    BudgetExceeded,
    Cancelled,
    ConfigurationError,
    Conflict,
    ConversationBusy,
    ConversationClosed,
    GenaiError,
    GenerationError,
    Interrupted,
    InvalidParameter,
    LimitExceeded,
    NoRoute,
    NotFound,
    PermissionDenied,
    PluginError,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    ReplayError,
    ServiceUnavailable,
    StoreError,
    TurnPaused,
    UnsupportedPart,
    ValidationError,
)
from genai_host.util import paths

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_log = logging.getLogger(__name__)

_METHODS = get_args(Method)
_PATH = re.compile(r"/|(/([A-Za-z0-9._~-]+|\{[a-z_]+(:path)?\}))+")

_STATUS: tuple[tuple[type[GenaiError], int], ...] = (
    (ValidationError, 400),
    (InvalidParameter, 400),
    (UnsupportedPart, 400),
    (PermissionDenied, 403),
    (NoRoute, 404),
    (NotFound, 404),
    (Conflict, 409),
    (ConversationBusy, 409),
    (TurnPaused, 409),
    (ReplayError, 409),
    (Interrupted, 503),
    (Cancelled, 409),
    (ConversationClosed, 503),
    (StoreError, 503),
    (ConfigurationError, 400),
    (BudgetExceeded, 429),
    (LimitExceeded, 422),
    (RateLimited, 429),
    (ServiceUnavailable, 503),
    (ProviderTimeout, 504),
    (ProviderError, 502),
    (GenerationError, 502),
)


def http_status(error: GenaiError) -> int:
    """HTTP status for an error: 400 to 499 for errors of the client, 500 and above for others."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _is_path(value: Any) -> bool:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        return False
    names = re.findall(r"\{([a-z_]+)", value)
    return (
        len(names) == len(set(names))
        and value.count(":path}") <= 1
        and not {".", ".."} & set(value.split("/"))
    )


@frozen
class HttpProblem:
    """An error of an HTTP request, independent of the error format of an API.

    Attributes:
        status: HTTP status of the reply.
        code: Code of a host error, for example `invalid_data`, or `not_found`,
            `method_not_allowed`, `too_large`, `internal` …
        message: One line that describes the error.
        hint: Next step; empty if none.
        path: Location in the body, for example `$.message`; empty if none.
        retry_after: Seconds after which to retry; None if unknown.
        headers: Headers of the reply, for example `allow`.
        request_id: Id of the request; empty if unknown.
        parameter: Name of the invalid model parameter; empty if none.
        extra: Fields of a service's error; see `ProviderError`.
    """

    status: int
    code: str
    message: str
    hint: str = ""
    path: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = field(factory=dict)
    request_id: str = field(default="", kw_only=True)
    parameter: str = field(default="", kw_only=True)
    extra: Mapping[str, Any] = field(factory=dict, kw_only=True)

    @classmethod
    def of(cls, error: GenaiError) -> HttpProblem:
        """The problem for an error of the host. File names are removed; the log has them."""
        message, hint = (_without_file(text, error) for text in (error.message, error.hint))
        if message != error.message:
            _log.warning("%s", error)
        return cls(
            http_status(error),
            error.code,
            message,
            hint,
            error.path if isinstance(error, ValidationError) else "",
            error.retry_after if isinstance(error, (ProviderError, BudgetExceeded)) else None,
            # respected by clients of OpenAI and Anthropic: a retry would fail as well
            {"x-should-retry": "false"} if isinstance(error, BudgetExceeded) else {},
            parameter=error.parameter if isinstance(error, InvalidParameter) else "",
            extra=error.extra if isinstance(error, ProviderError) else {},
        )


def _without_file(text: str, error: GenaiError) -> str:
    """The message without the file or database, and without directories of the user."""
    file = str(getattr(error, "file", ""))
    if file and file in text:
        text = text.removeprefix(f"{file}: ").replace(file, os.path.basename(file) or "(file)")
    home = os.path.expanduser("~")
    places = {paths.config_dir(), paths.cache_dir(), paths.state_dir(), paths.data_dir(""), home}
    for place in sorted((each for each in places if len(each) > 1), key=len, reverse=True):
        text = text.replace(place, "(folder)")
    return text


@frozen
class RouteRequest:
    """A request. Its repr omits query, headers and body, since they can contain keys.

    Attributes:
        method: HTTP method.
        path: Path without the query, percent-encoded as sent.
        parameters: Values of `{name}` in the path of the route, percent-decoded.
        query: Query parameters by name; the last of repeated ones.
        headers: Headers by name in lower case; repeated ones are joined by commas.
        body: The body, at most as large as the route accepts.
        limits: Cancelled when the client disconnects; check it in long work.
        user: The authenticated user, whose conversations are accessible; empty for the server's
            owner.
        root: Path prefix of a reverse proxy, for example `/host`. `path` does not include it; links
            for the client must.
        dropped: Paths of body fields that are ignored; the reply lists them in the header
            `x-genai-host-dropped`.
        request_id: Id of the request in the log and in the header `x-request-id` of the reply. It
            may be chosen by the client, so it need not be unique. Empty if the server assigns none.
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(factory=dict)
    query: Mapping[str, str] = field(factory=dict, repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    limits: CancelToken = field(kw_only=True, repr=False)
    user: str = field(default="", kw_only=True)
    root: str = field(default="", kw_only=True)
    dropped: DroppedFields = field(factory=DroppedFields, kw_only=True, eq=False, repr=False)
    request_id: str = field(default="", kw_only=True)

    def json(self) -> Any:
        """Parse the body as JSON.

        Raises:
            ValidationError: It is not JSON, or has too many values for its size (`ValueBudget`).
        """
        try:
            return ValueBudget().read(self.body)
        except ValueError as error:
            raise ValidationError(f"the body is not JSON: {error}", path="$") from error


@frozen
class RouteResponse:
    """A reply.

    Attributes:
        body: The complete body, or an iterable of chunks that are sent as they are produced. The
            iterable is closed, if it has `close`, after the last chunk or when the client
            disconnects.
        status: HTTP status, 200 to 599.
        headers: Headers by name; the server sets the length.
        keepalive: Keep-alive data, sent when no chunk was produced for some seconds: data that
            clients ignore, for example a comment in an event stream. Empty for none.
        begin: Called before the body is iterated. If it raises, the error becomes the reply; if it
            returns a reply, that is sent instead. If it takes more than a second, the headers are
            sent meanwhile, and the body has to report the outcome (`StreamedBody` does).
        suspends: Whether the server may iterate over the body in its event loop, without a thread:
            the iteration waits only within calls of the host. It has no effect for routes of third
            parties.
    """

    body: bytes | Iterable[bytes] = field(default=b"", repr=False)
    status: int = field(
        default=200,
        validator=Must("from 200 to 599", lambda value: type(value) is int and 200 <= value < 600),
        kw_only=True,
    )
    headers: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME, kw_only=True)
    keepalive: bytes = field(default=b"", kw_only=True)
    begin: Callable[[], RouteResponse | None] | None = field(
        default=None, kw_only=True, repr=False, eq=False
    )
    suspends: bool = field(default=False, kw_only=True)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> RouteResponse:
    """A reply with a JSON value.

    Raises:
        ValueError: The value contains NaN, infinity or itself.
        TypeError: The value has no JSON form.
    """
    kind = {"content-type": "application/json"}
    return RouteResponse(write_json(value), status=status, headers={**kind, **(headers or {})})


@frozen
class HttpRoute:
    """A declaration of an HTTP route.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        path: For example `/api/shop/orders/{id}`; `{name}` matches one segment, and `{name:path}`,
            at most once, one or more, which can be `..` if it was percent-encoded. If several
            paths match, the one with more literal segments wins.
        load: Handler, `package.module:name`, imported on first use: a function of a `RouteRequest`
            and a `HostServices` that returns a `RouteResponse`. For state between requests, use
            `package.module:Class.method`: one object is created with the host for all routes of the
            class, and closed if it has `close`.
        max_body_size: Maximum size of the body in bytes.
        rate_limited: Whether requests count toward the user's rate limit; False for small requests
            that pages repeat.
        run_at_startup: Whether to load the handler when the server starts instead of at the first
            request, for example to resume unfinished work.
        key: Unique among all plugins; names in braces do not distinguish routes.
    """

    method: Method = field(validator=one_of(_METHODS))
    path: str = field(validator=Must("a path such as /api/shop/orders/{id}", _is_path))
    load: str = field(validator=ADDRESS)
    max_body_size: int = field(
        default=2**20,
        validator=Must("a number of bytes", lambda value: type(value) is int and value >= 0),
        kw_only=True,
    )
    rate_limited: bool = field(default=True, validator=BOOLEAN, kw_only=True)
    run_at_startup: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    key: str = field(init=False, repr=False, eq=False)

    @key.default
    def _key(self) -> str:
        # validators run after this
        return f"{self.method} {re.sub(r'{[a-z_]+', '{', str(self.path))}"


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (TypeError, re.error):
        return False
    return isinstance(value, str)


_PATTERN = Must("a regular expression", _is_pattern)


@frozen
class HttpApi:
    """A declaration of an API of the server: the form of its errors and of its list of models.

    A request belongs to the first of these APIs:

    - one whose `paths` match the path of the request
    - one whose `shared_paths` match it, if the request has one of its `headers`
    - one whose `shared_paths` match it and that has no `headers`

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        write_error: `package.module:name` of a function of a `HttpProblem` that returns a
            `RouteResponse`.
        paths: Regular expression of whole paths that only this API has.
        shared_paths: Regular expression of whole paths that other APIs may have, too.
        headers: Names of headers, in lower case, that only clients of this API send.
        list_models: `package.module:name` of a function that handles `GET /v1/models`, if that is
            a path of the API; see `HttpRoute.load`.
        show_model: The same for `GET /v1/models/{model}`. A name with slashes has the parameters
            `provider` and `owner` as well.
        aliases: Further prefixes of routes, for example `{"/compatible/v1": "/v1"}`. A path
            without a route has that of the path with the replaced prefix. The longest alias with a
            route is used.
        request_id_header: Name of a header, in lower case, in which clients of the API also expect
            the id of the request.
    """

    name: str = field(validator=TEXT)
    write_error: str = field(validator=ADDRESS)
    paths: str = field(default="", validator=_PATTERN, kw_only=True)
    shared_paths: str = field(default="", validator=_PATTERN, kw_only=True)
    headers: frozenset[str] = field(default=(), converter=string_set, kw_only=True)
    list_models: str = field(default="", validator=ADDRESS_OR_EMPTY, kw_only=True)
    show_model: str = field(default="", validator=ADDRESS_OR_EMPTY, kw_only=True)
    aliases: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME, kw_only=True)
    request_id_header: str = field(default="", validator=TEXT, kw_only=True)


_EVENTS = "text/event-stream"


def sse_event(name: str, data: Any) -> bytes:
    """Write a server-sent event with JSON as its data."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), write_json(data))


def prefers_events(request: RouteRequest) -> bool:
    """Whether a client prefers server-sent events to JSON, by order in `Accept`."""
    accepted = request.headers.get("accept", "").lower().split(",")
    kinds = [each.split(";")[0].strip() for each in accepted]
    return next((kind for kind in kinds if kind in (_EVENTS, "application/json")), "") == _EVENTS


@contextmanager
def reported() -> Iterator[None]:
    """Convert unexpected exceptions to an error that a stream can report: if the connection just
    ended, the client would take the answer for complete."""
    try:
        yield
    except (GenaiError, StopIteration):
        raise
    except Exception as error:
        _log.exception("an answer failed")
        raise PluginError("internal error; see the log of the server") from error


class StreamedBody:
    """Body of a streamed reply. Use its `begin` as `RouteResponse.begin`.

    An error before the first chunk becomes the reply. Once the headers are sent, it is reported in
    the body, like an error between chunks.

    Args:
        chunks: Generates the body.
        write_error: Writes an error as the last chunk.
    """

    def __init__(
        self, chunks: Generator[bytes, None, None], write_error: Callable[[GenaiError], bytes]
    ) -> None:
        self._chunks = chunks
        self._write_error = write_error
        self._first = b""
        self._failed: GenaiError | None = None

    def begin(self) -> None:
        """Wait for the first chunk. Raises the error that occurs before it."""
        try:
            with reported():
                self._first = next(self._chunks, b"")
        except GenaiError as error:
            self._failed = error
            raise

    def __iter__(self) -> Iterator[bytes]:
        try:
            if self._failed is not None:
                raise self._failed
            yield self._first
            with reported():
                yield from self._chunks
        except GenaiError as error:
            yield self._write_error(error)

    def close(self) -> None:
        """End the generator. Nothing follows."""
        self._first = b""
        self._chunks.close()
