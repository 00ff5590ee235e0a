"""Heads of requests and responses.

The head of a request is read from its ASGI scope. The head of a response includes the headers that
are the same for all responses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from attrs import field, frozen

from genai_host.api import HttpProblem, RouteResponse

_MAX_FIELDS = 1000
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")  # token, RFC 9110, in lower case
_SINGLE_HEADERS = frozenset(
    {b"host", b"content-length", b"content-type", b"authorization", b"origin"}
)


class Refused(Exception):
    """A request that is refused with a problem."""

    def __init__(self, problem: HttpProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@frozen
class Head:
    """Head of a request.

    Attributes:
        path: Path as sent, without the root path.
        headers: Headers by name in lower case; repeated headers are joined by a comma.
        client: Address of the client; empty if unknown.
        length: Declared length of the body; None if not declared, 0 without a body.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    client: str
    length: int | None
    is_https: bool

    @property
    def is_reading(self) -> bool:
        """Whether the method only reads."""
        return self.method in ("GET", "HEAD", "OPTIONS")


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:+/=-]{1,128}")


def request_id_of(pairs: list[tuple[bytes, bytes]]) -> str:
    """The id of a request from its raw headers: that of the client or of a proxy if it is valid,
    else a new one. Invalid ids are replaced because the id is logged."""
    given = [value for name, value in pairs if name == b"x-request-id"]
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return given[0].decode()
    return f"req_{os.urandom(16).hex()}"


def read_head(scope: Mapping[str, Any], root_path: str) -> Head:
    """Read the head of a request. Raises `Refused` if the head is not valid HTTP, or the query has
    too many fields."""
    headers = _headers(scope["headers"])
    client = scope.get("client")
    return Head(
        scope["method"],
        _path(scope, root_path),
        _query(scope["query_string"]),
        headers,
        client[0] if client else "",
        _length(headers),
        scope.get("scheme") == "https",
    )


def _path(scope: Mapping[str, Any], root_path: str) -> str:
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")
    if not path.startswith("/"):
        raise Refused(HttpProblem(400, "bad_request", "the path must begin with /"))
    mount = scope.get("root_path", "")
    below = _below_mount(path, mount)
    return below if mount == root_path else below_root(below, root_path)


def _below_mount(path: str, mount: str) -> str:
    """Return a path, which is encoded, without that of a mount, which is decoded."""
    segments = path.split("/")
    size = mount.count("/") + 1
    if mount and unquote("/".join(segments[:size])) == mount:
        return "/" + "/".join(segments[size:])
    return path


def full_root_path(scope: Mapping[str, Any], root_path: str) -> str:
    """The prefix of all paths, as clients see it: that of the proxy, and of the application that
    this one is mounted in."""
    mount: str = scope.get("root_path", "")
    return root_path if mount == root_path else root_path + mount


def below_root(path: str, root_path: str) -> str:
    """Return a path without the root path; paths elsewhere are unchanged."""
    if root_path and (path == root_path or path.startswith(f"{root_path}/")):
        return path[len(root_path) :] or "/"
    return path


def _query(query: bytes) -> dict[str, str]:
    if not query:
        return {}
    try:
        found = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise Refused(HttpProblem(400, "bad_request", "the query has too many fields")) from None
    return dict(found)


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw, value in pairs:
        if not _TOKEN.fullmatch(raw):  # some versions of the parser accept these
            raise Refused(HttpProblem(400, "bad_request", "invalid header name"))
        name = raw.decode("latin-1")
        if name not in headers:
            headers[name] = value.decode("latin-1").strip()
        elif raw in _SINGLE_HEADERS:  # a proxy may have used the other value
            raise Refused(HttpProblem(400, "bad_request", f"duplicate header {name}"))
        else:
            separator = "; " if name == "cookie" else ", "
            headers[name] += separator + value.decode("latin-1").strip()
    return headers


def _length(headers: Mapping[str, str]) -> int | None:
    if "transfer-encoding" in headers:
        if "content-length" in headers:
            raise Refused(
                HttpProblem(
                    400, "bad_request", "content-length and transfer-encoding cannot be combined"
                )
            )
        return None
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise Refused(HttpProblem(400, "bad_request", "content-length is not a number"))
    return int(length.lstrip("0")[:20] or 0)  # Python limits the digits of a number


Pairs = list[tuple[bytes, bytes]]

_DEFAULT_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_DEFAULT_PAIRS = [(name.encode(), value.encode()) for name, value in _DEFAULT_HEADERS.items()]
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # token, RFC 9110
_HEADER_VALUE = re.compile(r"[\t -~\xa0-\xff]*")
_SERVER_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "date", "server"})
_BODILESS = (204, 205, 304)


def is_sendable(reply: RouteResponse) -> bool:
    """Whether a reply can be sent: no line breaks in headers, no body if the status has none."""
    return all(
        _HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)
        for name, value in reply.headers.items()
    ) and not (reply.status in _BODILESS and reply.body != b"")


def pairs_of(reply: RouteResponse, more: Mapping[str, str]) -> Pairs:
    """Return the headers of a reply as pairs, with further headers that replace them, and the
    defaults of the server. `vary` headers are joined."""
    given = {
        name.lower(): value
        for name, value in dict(reply.headers).items()  # they may change
        if name.lower() not in _SERVER_HEADERS
    }
    for name, value in more.items():
        is_both = name == "vary" and name in given
        given[name] = f"{given[name]}, {value}" if is_both else value
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
    pairs += [
        pair
        for name, pair in zip(_DEFAULT_HEADERS, _DEFAULT_PAIRS, strict=True)
        if name not in given
    ]
    if isinstance(reply.body, bytes) and reply.status not in (204, 304):
        pairs.append((b"content-length", b"%d" % len(reply.body)))
    return pairs
