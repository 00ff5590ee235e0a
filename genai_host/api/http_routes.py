"""Routes over HTTP: what a plugin answers under a path of its own.

    HttpRoute("POST", "/api/shop/orders/{id}", "genai_feature_shop.http:order")

    def order(request: RouteRequest, host: Host) -> RouteReply:
        return json_reply({"id": request.parameters["id"]})

Whoever serves the host has let in the client, and keeps the sizes and the times; the
function is called in a thread, several at once. What it raises becomes the reply: an error of
the host a status (`status_of`) and its words, any other a 500 that says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from attrs import field, frozen

from genai_host.api.exchange import Limits
from genai_host.api.json_text import read_json, write_json
from genai_host.api.validators import ADDRESS, BOOLEAN, TEXT_BY_NAME, Must
from genai_host.errors import (
    BudgetExceeded,
    Cancelled,
    ConfigurationError,
    Conflict,
    ConversationBusy,
    ConversationClosed,
    DeadlineExceeded,
    Forbidden,
    GenaiError,
    GenerationError,
    Interrupted,
    InvalidData,
    InvalidParameter,
    LimitExceeded,
    NoRoute,
    NotFound,
    ProviderError,
    RateLimited,
    ReplayError,
    StoreError,
    TurnWaiting,
    Unavailable,
    UnsupportedPart,
)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_METHODS = get_args(Method)
_PATH = re.compile(r"/|(/([A-Za-z0-9._~-]+|\{[a-z_]+\}))+")

_STATUS: tuple[tuple[type[GenaiError], int], ...] = (
    (InvalidData, 400),
    (InvalidParameter, 400),
    (UnsupportedPart, 400),
    (Forbidden, 403),
    (NoRoute, 404),
    (NotFound, 404),
    (Conflict, 409),
    (ConversationBusy, 409),
    (TurnWaiting, 409),
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
    (Unavailable, 503),
    (DeadlineExceeded, 504),
    (ProviderError, 502),
    (GenerationError, 502),
)


def status_of(error: GenaiError) -> int:
    """The status of a reply that tells of an error: 400 and more for what the client can do
    something about, 500 and more for the rest."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _is_path(value: Any) -> bool:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        return False
    names = re.findall(r"\{[a-z_]+\}", value)
    return len(names) == len(set(names)) and not {".", ".."} & set(value.split("/"))


@frozen
class Problem:
    """What went wrong with a request, free of the form that an API has for it.

    status        of the reply
    code          as that of an error of the host, `invalid_data`, or `not_found`,
                  `method_not_allowed`, `too_large`, `internal` ...
    hint          the next step; empty if there is none
    path          where in the body, as `$.message`; empty if it is about no place in it
    retry_after   seconds after which it may be asked again; None if that is not known
    headers       sent with the reply, as `allow`
    """

    status: int
    code: str
    message: str
    hint: str = ""
    path: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = field(factory=dict)

    @classmethod
    def of(cls, error: GenaiError) -> Problem:
        """The problem that an error of the host is."""
        return cls(
            status_of(error),
            error.code,
            error.message,
            error.hint,
            error.path if isinstance(error, InvalidData) else "",
            error.retry_after if isinstance(error, (ProviderError, BudgetExceeded)) else None,
            # what clients of OpenAI and Anthropic heed: to ask again soon is no use
            {"x-should-retry": "false"} if isinstance(error, BudgetExceeded) else {},
        )


@frozen
class RouteRequest:
    """What a client sent. Query, headers and body are not in its repr: they hold keys.

    path         without the query, as it was sent: percent-encoded
    parameters   what stands in the path for each `{name}` of the route, percent-decoded
    query        by name; of names that come twice, the last
    headers      by name in lower case; of names that come twice, joined by a comma
    body         as it came; at most as much as the route takes
    limits       end when the client has gone: for what takes long, as a tool's do
    user         who asks, as the server knows them: whose conversations they may see; empty
                 for whoever runs the server
    root         what stands before all paths where the server is behind a proxy, as `/host`:
                 `path` is without it, links that are sent to a client need it
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(factory=dict)
    query: Mapping[str, str] = field(factory=dict, repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    limits: Limits = field(kw_only=True, repr=False)
    user: str = field(default="", kw_only=True)
    root: str = field(default="", kw_only=True)

    def json(self) -> Any:
        """The value that the body is the JSON of. Raises `InvalidData` if it is none."""
        try:
            return read_json(self.body)
        except ValueError as error:
            raise InvalidData(f"the body is no JSON: {error}", path="$") from error


@frozen
class RouteReply:
    """What is sent back.

    body      whole, or piece by piece as they are made: then each is sent at once, and the
              iterable is closed, if it can be, when all are sent or the client has gone
    headers   by name; the length is nobody's but the server's
    silence   sent between pieces whenever there was none for some seconds, so that nothing
              in between takes the connection for dead: what the client skips, as a comment
              in a stream of events. Empty for nothing
    """

    body: bytes | Iterable[bytes] = field(default=b"", repr=False)
    status: int = field(
        default=200,
        validator=Must("from 200 to 599", lambda value: type(value) is int and 200 <= value < 600),
        kw_only=True,
    )
    headers: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME, kw_only=True)
    silence: bytes = field(default=b"", kw_only=True)


def json_reply(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> RouteReply:
    """A reply that is a JSON value. Raises `ValueError` and `TypeError` for what is none."""
    kind = {"content-type": "application/json"}
    return RouteReply(write_json(value), status=status, headers={**kind, **(headers or {})})


@frozen
class HttpRoute:
    """What a plugin registers: what it answers to one method under one path.

    method   GET, POST, PUT, PATCH or DELETE
    path     as `/api/shop/orders/{id}`: a `{name}` stands for one segment. Of paths that
             fit, the one with more that is not in braces is taken
    load     what answers, as `package.module:name`, imported when it is first asked: a
             function of a `RouteRequest` and the `host` that gives a `RouteReply`. What is to
             be kept between requests is in an object: `package.module:Class.method` is a
             method, of a `RouteRequest`, of the one object that is made with the host for all
             routes of that class, and that is closed if it has a `close`
    size     bytes of a body that it takes
    counts   whether it counts towards the requests that a user may send in a minute: not if
             it is small, and a page asks for it again and again
    starts   whether it is loaded as soon as the server has started, and not when it is first
             asked: for an object that goes on with what was left unfinished
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
