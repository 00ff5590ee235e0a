"""HTTP routes of plugins, and how the bodies of requests are read.

A plugin answers requests under its own paths:

    HttpRoute("POST", "/api/shop/orders/{id}", "genai_feature_shop.http:order")

    def order(request: RouteRequest, host: HostServices) -> RouteResponse:
        return json_response({"id": request.parameters["id"]})

The server admits the client and limits sizes and times. The function is called in a thread, and
several calls can run concurrently. If it raises an error of the host, the reply has that error's
message and a status (`http_status`). Any other exception becomes a 500 without details.

`JsonReader` checks the type of each field. A wrong field is answered with a 400 that names it:

    body = body_of(request)
    body.text("model")                  # "" if it is missing
    for message in body.objects("messages"):
        message.choice("role", ("user", "assistant"))
    body.nothing_else()
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from attrs import field, frozen

from genai_host.api.calls import CancelToken
from genai_host.api.json_text import ValueBudget, write_json
from genai_host.api.validators import ADDRESS, BOOLEAN, TEXT_BY_NAME, Must
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
from genai_host.util.text import short_repr
from genai_host.util.text_encoding import decode_base64

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_log = logging.getLogger(__name__)

_METHODS = get_args(Method)
_PATH = re.compile(r"/|(/([A-Za-z0-9._~-]+|\{[a-z_]+\}))+")

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
    (Interrupted, 503),
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
    names = re.findall(r"\{[a-z_]+\}", value)
    return len(names) == len(set(names)) and not {".", ".."} & set(value.split("/"))


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
    """

    status: int
    code: str
    message: str
    hint: str = ""
    path: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = field(factory=dict)

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
        dropped: Paths of body fields that were ignored; the reply lists them in the header
            `x-genai-host-dropped`.
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
    dropped: list[str] = field(factory=list, kw_only=True, eq=False, repr=False)

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


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> RouteResponse:
    """A reply with a JSON value.

    Args:
        value: The value.
        status: HTTP status.
        headers: Further headers.

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
        path: For example `/api/shop/orders/{id}`; `{name}` matches one segment. If several paths
            match, the one with more literal segments wins.
        load: Handler, `package.module:name`, imported on first use: a function of a `RouteRequest`
            and a `HostServices` that returns a `RouteResponse`. For state between requests, use
            `package.module:Class.method`: one object is created with the host for all routes of the
            class, and closed if it has `close`.
        max_body_size: Maximum size of the body in bytes.
        rate_limited: Whether requests count toward the user's rate limit; False for small requests
            that pages repeat.
        run_at_startup: Whether to load the handler when the server starts instead of at the first
            request, for example to resume unfinished work.
    """

    method: Method = field(
        validator=Must(
            f"one of {', '.join(_METHODS)}",
            lambda value: isinstance(value, str) and value in _METHODS,
        )
    )
    path: str = field(validator=Must("a path such as /api/shop/orders/{id}", _is_path))
    load: str = field(validator=ADDRESS)
    max_body_size: int = field(
        default=2**20,
        validator=Must("a number of bytes", lambda value: type(value) is int and value >= 0),
        kw_only=True,
    )
    rate_limited: bool = field(default=True, validator=BOOLEAN, kw_only=True)
    run_at_startup: bool = field(default=False, validator=BOOLEAN, kw_only=True)

    @property
    def key(self) -> str:
        """Unique among all plugins; names in braces do not distinguish routes."""
        return f"{self.method} {re.sub(r'{[a-z_]+}', '{}', self.path)}"


MOST_LEVELS = 100
"""Maximum nesting of a body: later code may recurse once per level."""

MOST_DROPPED = 20
"""Maximum number of ignored fields that a reply lists."""

_HUMP = re.compile(r"_([a-z0-9])")


def body_of(request: RouteRequest, *, camel: bool = False) -> JsonReader:
    """A reader for the JSON object in the body of a request.

    Args:
        request: The request.
        camel: Whether `top_p` is accepted for `topP`.

    Raises:
        ValidationError: The body is not a JSON object, or nested too deeply.
    """
    value = request.json()
    if is_deep(value):
        raise ValidationError(f"the body is nested more than {MOST_LEVELS} levels deep", path="$")
    return JsonReader(value, "$", camel=camel, dropped=request.dropped)


class JsonReader:
    """Reads fields of a client's JSON object and checks their types. A null field counts as
    missing.

    Methods that read a field raise `ValidationError` with its path if the type does not match.

    Attributes:
        path: Location in the body, for example `$.messages[0]`.
        value: The object.
        read: Names of the fields read so far.
        dropped: Collects the paths of ignored fields, including those of nested objects.
    """

    __slots__ = ("_camel", "_names", "dropped", "path", "read", "value")

    def __init__(
        self, value: Any, path: str, *, camel: bool = False, dropped: list[str] | None = None
    ) -> None:
        if not isinstance(value, dict):
            raise ValidationError(f"{short_repr(value)} is not an object", path=path)
        self.path = path
        self.value: Mapping[str, Any] = value
        self.dropped = [] if dropped is None else dropped
        self._camel = camel
        self._names: dict[str, str] = {}  # original spelling
        self.read: set[str] = set()
        for written, each in value.items():
            name = _in_camel_case(written) if camel else written
            if name in self._names:
                raise ValidationError(f"duplicate field {name}", path=f"{path}.{written}")
            if each is not None:
                self._names[name] = written

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def names(self) -> Iterable[tuple[str, str]]:
        """Name and original spelling of each field."""
        return self._names.items()

    def at(self, name: str) -> str:
        """Path of a field, even if it is missing."""
        return f"{self.path}.{self._names.get(name, name)}"

    def raw(self, name: str) -> Any:
        """Any value; None if it is missing."""
        self.read.add(name)
        return self.value[self._names[name]] if name in self._names else None

    def text(self, name: str, usual: str = "") -> str:
        value = self.raw(name)
        if value is None:
            return usual
        if not isinstance(value, str):
            raise self.wrong(name, "not a string")
        return value

    def choice(self, name: str, choices: Collection[str], usual: str = "") -> str:
        """A string out of several."""
        value = self.text(name, usual)
        if name in self and value not in choices:
            raise self.wrong(name, f"not one of {', '.join(choices)}")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "neither true nor false")
        return value

    def whole(self, name: str) -> int | None:
        """An integer in any spelling: `3`, `3.0`, `"3"`."""
        value = self.raw(name)
        if value is None or type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            return int(value)
        raise self.wrong(name, "not an integer")

    def number(self, name: str) -> int | float | None:
        value = self.raw(name)
        if value is not None and type(value) not in (int, float):
            raise self.wrong(name, "not a number")
        return value  # type: ignore[no-any-return]  # it was looked at

    def data(self, name: str) -> bytes:
        """Decoded base64, in either alphabet."""
        return bytes_of(self.text(name), self.at(name))

    def values(self, name: str) -> Sequence[Any]:
        """A list; empty if it is missing."""
        value = self.raw(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "not a list")
        return value or ()

    def texts(self, name: str) -> Sequence[str]:
        values = self.values(name)
        for number, each in enumerate(values):
            if not isinstance(each, str):
                raise ValidationError(
                    f"{short_repr(each)} is not text", path=f"{self.at(name)}[{number}]"
                )
        return values

    def object(self, name: str) -> JsonReader | None:
        value = self.raw(name)
        return None if value is None else self._inner(value, self.at(name))

    def objects(self, name: str) -> Sequence[JsonReader]:
        return [
            self._inner(each, f"{self.at(name)}[{number}]")
            for number, each in enumerate(self.values(name))
        ]

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """An object with arbitrary names."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "not an object")
        return value

    def refuse(self, *names: str) -> None:
        """Refuse fields that are not supported here.

        Raises:
            ValidationError: A field is present and has an effect.
        """
        for name in names:
            if self.raw(name):
                raise ValidationError(f"{name} is not supported here", path=self.at(name))

    def drop(self, *names: str) -> None:
        """Ignore fields, if present: the reply is correct without them."""
        for name in names:
            if self.raw(name) is not None and len(self.dropped) <= MOST_DROPPED:
                self.dropped.append(self.at(name).removeprefix("$."))

    def drop_others(self) -> None:
        """Ignore all fields not read so far. Formats grow, and an answer seldom depends on new
        fields."""
        self.drop(*(name for name in self._names if name not in self.read))

    def nothing_else(self) -> None:
        """Check that all fields were read.

        Raises:
            ValidationError: There is another field.
        """
        for name, written in self._names.items():
            if name not in self.read:
                raise ValidationError(f"unknown field {short_repr(written)} here", path=self.path)

    def _inner(self, value: Any, path: str) -> JsonReader:
        return JsonReader(value, path, camel=self._camel, dropped=self.dropped)

    def wrong(self, name: str, why: str) -> ValidationError:
        return ValidationError(f"{name}: {short_repr(self.raw(name))} is {why}", path=self.at(name))


def bytes_of(text: str, path: str) -> bytes:
    """Decode Base64; see `decode_base64`.

    Raises:
        ValidationError: The text is not Base64.
    """
    try:
        return decode_base64(text)
    except ValueError as error:
        raise ValidationError(str(error), path=path) from error


def number_in(query: Mapping[str, str], name: str, usual: int, most: int, path: str = "") -> int:
    """A positive integer from a query.

    Args:
        query: The query parameters.
        name: Name of the parameter.
        usual: Default.
        most: Maximum.
        path: Location for the error; empty for `?name`.

    Raises:
        ValidationError: The value is not an integer from 1 to `most`.
    """
    text = query.get(name) or str(usual)
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= most:
        raise ValidationError(f"{name} must be a number from 1 to {most}", path=path or f"?{name}")
    return int(text)


def is_deep(value: Any) -> bool:
    """Whether a value is nested more than `MOST_LEVELS` levels deep."""
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _in_camel_case(name: str) -> str:
    return _HUMP.sub(lambda hump: hump[1].upper(), name) if "_" in name else name
