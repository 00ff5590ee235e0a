"""HTTP routes of plugins, and how the bodies of requests are read.

A plugin answers requests under its own paths:

    HttpRoute("POST", "/api/shop/orders/{id}", "genai_feature_shop.http:order")

    def order(request: RouteRequest, host: Host) -> RouteResponse:
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
    """The status of a reply that tells of an error: 400 and more for what the client can do
    something about, 500 and more for the rest."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _is_path(value: Any) -> bool:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        return False
    names = re.findall(r"\{[a-z_]+\}", value)
    return len(names) == len(set(names)) and not {".", ".."} & set(value.split("/"))


@frozen
class HttpProblem:
    """What went wrong with a request, free of the form that an API has for it.

    Attributes:
        status: Of the reply.
        code: As that of an error of the host, `invalid_data`, or `not_found`, `method_not_allowed`,
            `too_large`, `internal` ...
        hint: The next step; empty if there is none.
        path: Where in the body, for example `$.message`; empty if it is about no place in it.
        retry_after: Seconds after which it may be asked again; None if that is not known.
        headers: Sent with the reply, for example `allow`.
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
        """The problem that an error of the host is. Files are no client's to know: the log has
        the error with them."""
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
            # what clients of OpenAI and Anthropic heed: to ask again soon is no use
            {"x-should-retry": "false"} if isinstance(error, BudgetExceeded) else {},
        )


def _without_file(text: str, error: GenaiError) -> str:
    """Without the file or database that an error is about, and the user's folders."""
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
    """What a client sent. Query, headers and body are not in its repr: they hold keys.

    Attributes:
        path: Without the query, as it was sent: percent-encoded.
        parameters: What stands in the path for each `{name}` of the route, percent-decoded.
        query: By name; of names that come twice, the last.
        headers: By name in lower case; of names that come twice, joined by a comma.
        body: As it came; at most as much as the route takes.
        limits: End when the client has gone: for what takes long, as a tool's do.
        user: Who asks, as the server knows them: whose conversations they may see; empty for
            whoever runs the server.
        root: What stands before all paths where the server is behind a proxy, for example `/host`:
            `path` is without it, links that are sent to a client need it.
        dropped: Where fields of the body stand that were left out, since they say nothing here; the
            reply names them in the header `x-genai-host-dropped`.
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
        """The value that the body is the JSON of. Raises `ValidationError` if it is none, or has
        too many values for its size (`ValueBudget`)."""
        try:
            return ValueBudget().read(self.body)
        except ValueError as error:
            raise ValidationError(f"the body is not JSON: {error}", path="$") from error


@frozen
class RouteResponse:
    """What is sent back.

    Attributes:
        body: Whole, or piece by piece as they are made: then each is sent at once, and the iterable
            is closed, if it can be, when all are sent or the client has gone.
        headers: By name; the length is nobody's but the server's.
        silence: Sent between pieces whenever there was none for some seconds, so that nothing in
            between takes the connection for dead: what the client skips, as a comment in a stream
            of events. Empty for nothing.
        begin: Called before the body is asked for. Where it raises, that is the reply; if it takes
            more than a second, the head is sent meanwhile, and the body has to say what went wrong.
    """

    body: bytes | Iterable[bytes] = field(default=b"", repr=False)
    status: int = field(
        default=200,
        validator=Must("from 200 to 599", lambda value: type(value) is int and 200 <= value < 600),
        kw_only=True,
    )
    headers: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME, kw_only=True)
    silence: bytes = field(default=b"", kw_only=True)
    begin: Callable[[], None] | None = field(default=None, kw_only=True, repr=False, eq=False)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> RouteResponse:
    """A reply that is a JSON value. Raises `ValueError` and `TypeError` for what is none."""
    kind = {"content-type": "application/json"}
    return RouteResponse(write_json(value), status=status, headers={**kind, **(headers or {})})


@frozen
class HttpRoute:
    """What a plugin registers: what it answers to one method under one path.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        path: As `/api/shop/orders/{id}`: a `{name}` stands for one segment. Of paths that fit, the
            one with more that is not in braces is taken.
        load: What answers, for example `package.module:name`, imported when it is first asked: a
            function of a `RouteRequest` and the `host` that gives a `RouteResponse`. What is to be
            kept between requests is in an object: `package.module:Class.method` is a method, of a
            `RouteRequest`, of the one object that is made with the host for all routes of that
            class, and that is closed if it has a `close`.
        size: Bytes of a body that it takes.
        counts: Whether it counts towards the requests that a user may send in a minute: not if it
            is small, and a page asks for it again and again.
        starts: Whether it is loaded as soon as the server has started, and not when it is first
            asked: for an object that goes on with what was left unfinished.
    """

    method: Method = field(
        validator=Must(
            f"one of {', '.join(_METHODS)}",
            lambda value: isinstance(value, str) and value in _METHODS,
        )
    )
    path: str = field(validator=Must("a path such as /api/shop/orders/{id}", _is_path))
    load: str = field(validator=ADDRESS)
    size: int = field(
        default=2**20,
        validator=Must("a number of bytes", lambda value: type(value) is int and value >= 0),
        kw_only=True,
    )
    counts: bool = field(default=True, validator=BOOLEAN, kw_only=True)
    starts: bool = field(default=False, validator=BOOLEAN, kw_only=True)

    @property
    def key(self) -> str:
        """Unique among all plugins: what stands in braces does not tell routes apart."""
        return f"{self.method} {re.sub(r'{[a-z_]+}', '{}', self.path)}"


MOST_LEVELS = 100
"""Of a body: what reads and writes a value further on may need a call for each of them."""

MOST_DROPPED = 20
"""Fields that are left out of a request and named; of more, that there are more."""

_HUMP = re.compile(r"_([a-z0-9])")


def body_of(request: RouteRequest, *, camel: bool = False) -> JsonReader:
    """The object that the body of a request is.

    Args:
        camel: Whether `top_p` is another way to write `topP`.

    Raises:
        ValidationError: It is none, or nested too deeply.
    """
    value = request.json()
    if is_deep(value):
        raise ValidationError(f"the body is nested more than {MOST_LEVELS} levels deep", path="$")
    return JsonReader(value, "$", camel=camel, dropped=request.dropped)


class JsonReader:
    """An object that a client sent. A field that is null is not there.

    Args:
        path: Where it stands in the body, for example `$.messages[0]`.
        value: All of it.
        read: Names of the fields that were looked at so far.
        dropped: Gets the places of fields that are left out, as those of objects in it do.

    All that reads a field raises `ValidationError`, with the place, for what is no such thing.
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
        self._names: dict[str, str] = {}  # as they were written
        self.read: set[str] = set()
        for written, each in value.items():
            name = _in_camel_case(written) if camel else written
            if name in self._names:
                raise ValidationError(f"{name} is there twice", path=f"{path}.{written}")
            if each is not None:
                self._names[name] = written

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def names(self) -> Iterable[tuple[str, str]]:
        """Of each field that is there: its name, and how it was written."""
        return self._names.items()

    def at(self, name: str) -> str:
        """Where a field stands, or would."""
        return f"{self.path}.{self._names.get(name, name)}"

    def raw(self, name: str) -> Any:
        """Whatever it is; None if it is not there."""
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
        """One of several words."""
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
        """A whole number, however it is written: `3`, `3.0`, `"3"`."""
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
        """What is in base64, of either alphabet."""
        return bytes_of(self.text(name), self.at(name))

    def values(self, name: str) -> Sequence[Any]:
        """Empty if it is not there."""
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
        """An object whose names are not the format's."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "not an object")
        return value

    def refuse(self, *names: str) -> None:
        """Raises `ValidationError` if one of these is there and says something: what it asks for
        is not done here."""
        for name in names:
            if self.raw(name):
                raise ValidationError(f"{name} is not supported here", path=self.at(name))

    def drop(self, *names: str) -> None:
        """Leave fields out, as far as they are there: what they ask for is a wish."""
        for name in names:
            if self.raw(name) is not None and len(self.dropped) <= MOST_DROPPED:
                self.dropped.append(self.at(name).removeprefix("$."))

    def drop_others(self) -> None:
        """Leave out the fields that nobody read. Formats grow, and what is new in them is seldom
        what an answer depends on."""
        self.drop(*(name for name in self._names if name not in self.read))

    def nothing_else(self) -> None:
        """Raises `ValidationError` if there is a field that nobody read."""
        for name, written in self._names.items():
            if name not in self.read:
                raise ValidationError(f"unknown field {short_repr(written)} here", path=self.path)

    def _inner(self, value: Any, path: str) -> JsonReader:
        return JsonReader(value, path, camel=self._camel, dropped=self.dropped)

    def wrong(self, name: str, why: str) -> ValidationError:
        return ValidationError(f"{name}: {short_repr(self.raw(name))} is {why}", path=self.at(name))


def bytes_of(text: str, path: str) -> bytes:
    """What is in Base64, as `decode_base64` reads it. Raises `ValidationError` without it."""
    try:
        return decode_base64(text)
    except ValueError as error:
        raise ValidationError(str(error), path=path) from error


def number_in(query: Mapping[str, str], name: str, usual: int, most: int, path: str = "") -> int:
    """A number from 1 on, from a query. Raises `ValidationError`.

    Args:
        path: Where it stands, for who calls that otherwise than `?name`.
    """
    text = query.get(name) or str(usual)
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= most:
        raise ValidationError(f"{name} is a number from 1 to {most}", path=path or f"?{name}")
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
